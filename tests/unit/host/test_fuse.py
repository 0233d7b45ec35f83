"""The host program on the lab's /sys, whose driver has the true admission rules and errnos."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host import fakehost
from tests.unit.host.fakehost import (
    BOOT,
    OTHER_MDEV,
    VM,
    Asker,
    FakeHost,
    make_scheduler_step,
    make_server,
    make_setting,
    wait_until,
)
from vgpumgr.host.ledger.writer import write_file
from vgpumgr.lab.nvml.build import build
from vgpumgr.lab.nvml.state import PATH_VARIABLE
from vgpumgr.lab.sysfs.tree import NVML_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.host.conftest import Program

pytestmark = pytest.mark.lab

_TOP = Path(__file__).resolve().parents[3]


class FuseHost(FakeHost):
    """A fake root with the lab's /sys; `driver` tells that driver something that no file of /sys does."""

    process: subprocess.Popen[str]

    def driver(self, *words: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture(params=["mdev-pf", "mdev-vf", "vendor-vfio"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FuseHost]:
    """kvm01 of the built-in spec: its /sys and /proc/driver; no processes."""
    built = FuseHost(tmp_path)
    for folder in ("root", "var/lib", "sys"):
        (tmp_path / folder).mkdir(parents=True)
    built.put("/proc/sys/kernel/random/boot_id", BOOT)
    built.put("/proc/sys/kernel/hostname", "kvm01")
    built.put("/proc/sys/kernel/osrelease", "6.1.0")
    built.put("/etc/machine-id", "0" * 32)
    (tmp_path / "proc/driver").symlink_to("../sys/kernel/debug/nvlab/proc-driver")
    sys_folder = tmp_path / "sys"
    process = built.process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.host.fuse_runner", request.param, "kvm01", sys_folder],
        cwd=_TOP,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        wait_until(lambda: process.poll() is not None or (sys_folder / "bus").is_dir())
        assert process.poll() is None
        yield built
    finally:
        # Lazily: a process that was just killed may hold a file there a moment longer.
        subprocess.run(["umount", "--lazy", sys_folder], check=False, capture_output=True)
        process.kill()  # its own way out can take many seconds: the kernel hands back every name it was ever told
        process.communicate()


@pytest.fixture(scope="module")
def nvml_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the lab's libnvidia-ml lies."""
    return build(tmp_path_factory.mktemp("library")).parent


def make_step(snapshot: dict[str, Any], profile: str, parent_number: int = 0, **more: Any) -> dict[str, Any]:
    """A create of this profile for vm01's vgpu0 on the first GPU; `more` replaces keys."""
    gpu = snapshot["gpus"][0]
    parent = gpu["parents"][parent_number]
    kind = next(each for each in gpu["types"] if each["name"].endswith(f"-{profile}"))
    here = {
        "gpu_uuid": gpu["uuid"],
        "gpu": gpu["pci"],
        "vf_index": parent["vf_index"],
        "parent": parent["pci"],
        "type_id": kind["id"],
        "type_name": kind["name"],
    }
    return fakehost.make_step(gpu["framework"], **{**here, **more})


def creatable(snapshot: dict[str, Any]) -> list[Any]:
    return [gpu["offers"][parent["creatable"]] for gpu in snapshot["gpus"] for parent in gpu["parents"]]


def test_without_nvml_a_vgpu_comes_and_goes_and_the_driver_is_where_it_was_and_all_else_is_told(host: FakeHost) -> None:
    """Another size beside it is refused by the driver, and leaves no trace in the ledger."""
    asker = Asker(make_server(host, write=write_file).answer)
    before = asker.lock()
    nvml_only = {"mode", "mig", "framebuffer_mib", "places", "scheduler", "problem"}
    for gpu in before["gpus"]:
        assert all(value is not None for key, value in gpu.items() if key not in nvml_only)
        assert all(gpu["offers"][parent["creatable"]] for parent in gpu["parents"])
    assert before["versions"]["driver"]
    step = make_step(before, "4Q")
    assert asker.execute(step)["ok"]["note"] is None
    between = asker.ask("observe", wait_s=0)["ok"]
    (made,) = between["gpus"][0]["parents"][0]["vgpus"]
    assert made["type_id"] == step["type_id"]
    assert made["type_name"].endswith(step["type_name"])
    assert made["vfio"]
    assert creatable(between) != creatable(before)
    other = make_step(before, "8Q", -1, slot="vgpu1")
    error = asker.execute(other if other["uuid"] is None else {**other, "uuid": OTHER_MDEV})["err"]
    assert (error["kind"], error["errno"][0], error["read_back"]) == ("SysfsRefused", "E", None)
    assert [entry["slot"] for entry in host.entries()] == ["vgpu0"]
    assert asker.execute({**step, "verb": "destroy_vgpu", "expect": "present"})["ok"]["note"] is None
    after = asker.ask("unlock", gpu_uuids=[before["gpus"][0]["uuid"]])["ok"]
    assert after["gpus"] == before["gpus"][:1]


def test_with_nvml_nothing_is_unknown_and_a_scheduler_is_set_where_an_idle_vgpu_was_evacuated_which_comes_back(
    host: FuseHost, run_program: Callable[..., Program], nvml_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real binding, on the lab's libnvidia-ml, which reads the same driver's state."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_folder))
    monkeypatch.setenv(PATH_VARIABLE, str(host.path(f"/sys{NVML_PATH}")))
    program = run_program(host.root, "--real")
    snapshot = program.ask("lock", by="anna", wait_s=0)["ok"]
    assert (snapshot["unknown"], snapshot["active"]) == ([], [])
    assert set(snapshot["module"]) == {"registry_dwords", "registry_dwords_per_device"}
    for gpu in snapshot["gpus"]:
        assert gpu["mode"] == "equal-size"
        assert gpu["scheduler"]["engines"][0]["engine"] == "graphics"
        assert gpu["scheduler"]["caps"]["max_time_slice_ns"] == 30_000_000
        assert gpu["framebuffer_mib"] > 10_000
        assert all(kind["max"] and kind["framebuffer_mib"] for kind in gpu["types"])
    gpu = snapshot["gpus"][0]

    def execute(step: dict[str, Any]) -> dict[str, Any]:
        return program.ask("execute", step=step, deadline_s=10)

    create = make_step(snapshot, "4Q")
    assert "ok" in execute(create)
    before = program.ask("observe", wait_s=0)["ok"]["gpus"][0]["parents"]
    step = make_scheduler_step(
        gpu["scheduler"]["api"],
        gpu_uuid=gpu["uuid"],
        gpu=gpu["pci"],
        setting=make_setting("fixed-share", frequency_hz=500),
        expect={engine["engine"]: engine["policy"] for engine in gpu["scheduler"]["engines"]},
    )
    refused = execute(step)["err"]
    assert (refused["kind"], refused["code"]) == ("NvmlRefused", 3)
    assert "ok" in execute({**create, "verb": "evacuate_vgpu", "expect": "present"})
    done = execute(step)["ok"]
    assert done["scheduler"]["engines"][0]["policy"] == "fixed-share"
    assert "ok" in execute(create)
    after = program.ask("unlock", gpu_uuids=[gpu["uuid"]])["ok"]
    assert after["unknown"] == []
    assert after["gpus"][0]["scheduler"] == done["scheduler"]
    assert after["gpus"][0]["parents"] == before


def state_of(pid: int) -> str:
    """proc(5): R, S, D …; empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[0]
    except FileNotFoundError:
        return ""


@pytest.mark.parametrize("host", ["mdev-pf", "mdev-vf"], indirect=True)
def test_a_removal_that_sleeps_in_the_kernel_stops_its_gpu_alone_until_the_holder_lets_go(
    host: FuseHost, run_program: Callable[..., Program]
) -> None:
    """The writer is beyond SIGKILL and its device is gone from the bus, as on a real kernel; nobody waits for it."""
    first = run_program(host.root, "--real")
    snapshot = first.ask("lock", by="anna", wait_s=0)["ok"]
    step = make_step(snapshot, "4Q")
    first.ask("execute", step=step, deadline_s=10)
    gpus = first.ask("observe", wait_s=0)["ok"]["gpus"]
    (made,) = (vgpu for gpu in gpus for parent in gpu["parents"] for vgpu in parent["vgpus"])
    destroy = {**step, "verb": "destroy_vgpu", "expect": "present"}
    host.driver("hold", step["uuid"], VM)  # after the last look, as it were: no process has anything open
    error = first.ask("execute", step=destroy, deadline_s=0.3)["err"]
    assert error["kind"] == "Deadline"
    (record,) = first.ask("observe", wait_s=0)["ok"]["blocked_writes"]
    assert (record["path"], record["vfio"]) == (error["path"], made["vfio"])
    os.kill(record["pid"], signal.SIGKILL)
    wait_until(
        lambda: state_of(record["pid"]) == "D"
    )  # FUSE sleeps soundly from the first signal on, the kernel at once
    first.hang_up()
    assert first.wait() == 0
    assert first.read_line() == b""
    assert state_of(record["pid"]) == "D"

    second = run_program(host.root, "--real")
    seen = second.ask("lock", by="ben", wait_s=0)["ok"]
    assert seen["blocked_writes"] == [record]
    assert not host.path(f"/sys/bus/mdev/devices/{step['uuid']}").exists()
    for refused in (
        {**destroy, "expect": "absent"},
        {**make_step(seen, "4Q", -1, slot="vgpu1"), "uuid": OTHER_MDEV},
    ):
        error = second.ask("execute", step=refused, deadline_s=5)["err"]
        assert (error["kind"], error["gpu"], error["pid"]) == ("BlockedWrite", step["gpu"], record["pid"])
    other = make_step({"gpus": seen["gpus"][1:]}, "8Q", slot="vgpu2") | {"uuid": OTHER_MDEV}
    assert "ok" in second.ask("execute", step=other, deadline_s=5)

    host.driver("release", VM)
    wait_until(lambda: state_of(record["pid"]) in ("", "Z"))
    assert second.ask("observe", wait_s=0)["ok"]["blocked_writes"] == []
    assert "ok" in second.ask("execute", step={**destroy, "expect": "absent"}, deadline_s=5)
    assert host.blocked_writes() == []
    assert [entry["slot"] for entry in host.entries()] == ["vgpu2"]
