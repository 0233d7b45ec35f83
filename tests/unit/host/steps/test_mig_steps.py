"""MIG mode, virtual functions and a reset: on a GPU with nothing on it, and read back."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pynvml
import pytest

from tests.unit.host.fakehost import (
    BOOT,
    GPU_A,
    GPU_B,
    UUID_A,
    VENDOR,
    FakeHost,
    execute,
    make_entry,
    make_instance,
    observe,
)
from tests.unit.host.fakemig import FakeMig
from vgpumgr.host.files import Root
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.steps import vfs_step
from vgpumgr.host.steps.executor import parse_step
from vgpumgr.host.timing import Timing

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.host.protocol.steps import VfsStep

GPU = {"gpu_uuid": UUID_A, "gpu": GPU_A}
SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"
NVIDIA_SMI = "/usr/bin/nvidia-smi"


def switch(verb: str, *, on: bool = True, **more: Any) -> dict[str, Any]:
    return {"verb": verb, **GPU, "on": on, "expect": not on, **more}


def run(host: FakeHost, step: dict[str, Any], deadline_s: float = 10, **nvml: Any) -> dict[str, Any]:
    return execute(host, step, deadline_s, nvml=FakeMig(host, **nvml))


def bare(root: Path) -> FakeHost:
    """A GPU without virtual functions, on a host with sriov-manage and nvidia-smi that do nothing."""
    host = FakeHost.build(root, None)
    tool(host, SRIOV_MANAGE, "")
    tool(host, NVIDIA_SMI, "")
    return host


def tool(host: FakeHost, path: str, script: str) -> None:
    """One of NVIDIA's programs; it notes its arguments in the file `ran`."""
    file = host.put(path, f'#!/bin/sh\necho "$0 $*" >> {host.root}/ran\n{script}')
    file.chmod(0o755)


def ran(host: FakeHost) -> list[str]:
    file = host.root / "ran"
    return [line.removeprefix(str(host.root)) for line in file.read_text().splitlines()] if file.exists() else []


def make_vfs(host: FakeHost) -> str:
    """A script that makes a virtual function, as sriov-manage -e does."""
    vf = host.path(host.function(f"{GPU_A[:-1]}4"))
    ready = (
        f"mkdir -p {vf}/nvidia; echo 0 > {vf}/nvidia/current_vgpu_type; ln -s {vf} {host.path('/sys/bus/pci/devices')}"
    )
    return f"{ready} 2> /dev/null; ln -s ../{GPU_A[:-1]}4 {host.path(host.function(GPU_A))}/virtfn0"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return bare(tmp_path)


# MIG mode


def test_mig_mode_is_set_at_once_or_says_that_a_reset_is_needed_and_can_be_called_off_until_then(
    host: FakeHost,
) -> None:
    assert run(host, switch("set_mig"))["ok"]["note"] is None
    assert (host.mig()["on"], host.mig()["pending"]) == (True, True)
    note = run(host, switch("set_mig", on=False), needs_reset=True)["ok"]["note"]
    assert note == f"MIG off takes effect with the next reset of GPU {GPU_A}"
    assert (host.mig()["on"], host.mig()["pending"]) == (True, False)
    assert run(host, switch("set_mig"), needs_reset=True)["ok"]["note"] is None
    assert (host.mig()["on"], host.mig()["pending"]) == (True, True)


@pytest.mark.parametrize(("now", "note"), [(True, False), (False, True)])
def test_a_mode_that_is_set_already_is_left_and_still_says_that_it_waits(host: FakeHost, now: bool, note: bool) -> None:
    host.put_mig(on=now, pending=True)
    answer = run(host, switch("set_mig"), nvmlDeviceSetMigMode=pynvml.NVML_ERROR_UNKNOWN)
    assert (answer["ok"]["note"] is not None) == note


def test_a_mode_that_is_not_as_expected_or_not_there_is_refused(host: FakeHost) -> None:
    assert run(host, switch("set_mig", expect=True))["err"]["found"] == "MIG off"
    unsupported = {"nvmlDeviceGetMigMode": pynvml.NVML_ERROR_NOT_SUPPORTED}
    assert run(host, switch("set_mig"), **unsupported)["err"]["found"] == "one without"


def test_what_nvml_refuses_or_takes_without_effect_is_told(host: FakeHost) -> None:
    refused = run(host, switch("set_mig"), nvmlDeviceSetMigMode=pynvml.NVML_ERROR_IN_USE)["err"]
    assert (refused["kind"], refused["code"]) == ("NvmlRefused", 19)
    host.put_mig = lambda **_: None  # type: ignore[method-assign]
    refused = run(host, switch("set_mig"))["err"]
    assert (refused["kind"], refused["code"]) == ("NvmlRefused", 0)


STEPS = [
    pytest.param(switch("set_mig"), id="set_mig"),
    pytest.param({"verb": "reset_gpu", **GPU}, id="reset_gpu"),
    pytest.param(switch("set_vfs", on=False), id="set_vfs"),
]


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_done_to_a_gpu_with_a_vgpu(tmp_path: Path, step: dict[str, Any]) -> None:
    host = FakeHost.build(tmp_path, VENDOR)
    tool(host, SRIOV_MANAGE, "")
    tool(host, NVIDIA_SMI, "")
    host.make_vgpu(f"{GPU_A[:-1]}4", 560, None)
    host.put_ledger(make_entry(VENDOR))
    refused = run(host, step)["err"]
    assert (refused["kind"], refused["vm"], refused["holders"]) == (
        "InUse",
        "vm01",
        [f"NVIDIA A40-4Q on {GPU_A[:-1]}4"],
    )
    assert (ran(host), host.mig()["on"]) == ([], False)


@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_done_to_a_gpu_while_nvml_lists_a_vm_there(tmp_path: Path, step: dict[str, Any]) -> None:
    host = FakeHost.build(tmp_path, VENDOR)
    tool(host, SRIOV_MANAGE, "")
    assert run(host, step, running=(1,))["err"]["kind"] == "NotYet"
    assert (ran(host), host.mig()["on"]) == ([], False)


@pytest.mark.parametrize("step", STEPS[:2])
def test_mode_and_reset_are_refused_while_there_are_virtual_functions(tmp_path: Path, step: dict[str, Any]) -> None:
    host = FakeHost.build(tmp_path, VENDOR)
    refused = run(host, step)["err"]
    assert (refused["kind"], refused["found"]) == ("Changed", "3")


@pytest.mark.parametrize(
    "step",
    [switch("set_mig", on=False), {"verb": "reset_gpu", **GPU}, switch("set_vfs")],
    ids=["set_mig", "reset_gpu", "set_vfs"],
)
def test_what_would_end_somebody_elses_instances_is_refused_and_ours_may_end(
    host: FakeHost, step: dict[str, Any]
) -> None:
    tool(host, SRIOV_MANAGE, make_vfs(host))
    host.put_instance(14, 2, 2)
    refused = run(host, step)["err"]
    assert (refused["kind"], refused["holders"]) == ("InUse", ["GPU instance 2g.10gb at 2 (id 1) is not vgpumgr's"])
    assert ran(host) == []
    host.put_ledger(instances=[make_instance()])
    assert "ok" in run(host, step)


# virtual functions


def test_virtual_functions_are_made_by_nvidias_tool_and_counted(host: FakeHost) -> None:
    tool(host, SRIOV_MANAGE, make_vfs(host))
    assert "ok" in run(host, switch("set_vfs"))
    assert ran(host) == [f"{SRIOV_MANAGE} -e {GPU_A}"]
    assert "ok" in run(host, switch("set_vfs"))
    assert len(ran(host)) == 1


def test_a_gpu_whose_virtual_functions_we_took_away_still_tells_its_mig_mode_and_others_are_left_to_sriov_manage(
    tmp_path: Path,
) -> None:
    """An open NVML would keep sriov-manage from a GPU that waits for it, as at boot."""
    host = FakeHost.build(tmp_path, VENDOR)
    tool(host, SRIOV_MANAGE, f"rm {host.path(host.function(GPU_A))}/virtfn*")

    def told() -> Any:
        return observe(host, FakeMig(host))["gpus"][0]["mig"]

    assert "ok" in run(host, switch("set_vfs", on=False))
    assert ran(host) == [f"{SRIOV_MANAGE} -d {GPU_A}"]
    assert "ok" in run(host, switch("set_mig"), needs_reset=True)
    assert told() == {"enabled": False, "pending": True, "profiles": [], "instances": []}
    host.put("/proc/sys/kernel/random/boot_id", "b7000000-0000-4000-8000-000000000009")
    assert told() is None
    host.put("/proc/sys/kernel/random/boot_id", BOOT)
    tool(host, SRIOV_MANAGE, make_vfs(host))
    assert "ok" in run(host, switch("set_vfs"))
    assert "without_vfs" not in json.loads(host.ledger_file.read_text())


def test_virtual_functions_that_come_after_the_tool_has_ended_are_waited_for(host: FakeHost) -> None:
    """As on hardware: it says 0, and they come half a minute later (found: fidelity D7)."""
    tool(host, SRIOV_MANAGE, f"( sleep 1\n{make_vfs(host)}\n) >/dev/null 2>&1 &")
    assert "ok" in run(host, switch("set_vfs"))


@pytest.mark.parametrize("status", [0, 1])
def test_a_tool_that_makes_none_failed_whatever_its_exit_status_is(host: FakeHost, status: int) -> None:
    tool(host, SRIOV_MANAGE, f"echo Enabling VFs; echo cannot >&2; exit {status}")
    refused = run(host, switch("set_vfs"), deadline_s=1)["err"]
    assert (refused["kind"], refused["status"], refused["output"]) == ("ToolRefused", status, "Enabling VFs\ncannot")
    assert refused["command"] == f"{SRIOV_MANAGE} -e {GPU_A}"


@pytest.mark.parametrize(("busy", "tries"), [(2, 3), (9, 5)])
def test_an_unbind_lock_that_is_held_is_tried_for_again(host: FakeHost, busy: int, tries: int) -> None:
    say = "echo Cannot obtain unbindLock >&2; exit 1"
    tool(host, SRIOV_MANAGE, f"[ $(wc -l < {host.root}/ran) -le {busy} ] && {{ {say}; }}\n{make_vfs(host)}")
    pauses: list[float] = []

    def carry_out() -> None:
        vfs_step.set_vfs(
            Root(host.root),
            lambda: FakeMig(host),
            cast("VfsStep", parse_step(switch("set_vfs"))),
            lambda point: None,
            deadline_s=10,
            timing=Timing(),
            pause=pauses.append,
        )

    if tries == 5:
        with pytest.raises(Refusal, match="Cannot obtain unbindLock") as caught:
            carry_out()
        assert caught.value.kind == "ToolRefused"
    else:
        carry_out()
    assert (len(ran(host)), pauses) == (tries, [1.0] * (tries - 1))


@pytest.mark.parametrize("step", [switch("set_vfs"), {"verb": "reset_gpu", **GPU}], ids=["set_vfs", "reset_gpu"])
def test_a_tool_that_is_not_there_or_does_not_end_is_told(host: FakeHost, step: dict[str, Any]) -> None:
    path = SRIOV_MANAGE if step["verb"] == "set_vfs" else NVIDIA_SMI
    tool(host, path, "exec sleep 3")
    refused = run(host, step, deadline_s=0.3)["err"]
    assert (refused["kind"], refused["path"]) == ("Deadline", path)
    host.path(path).unlink()
    refused = run(host, step)["err"]
    assert (refused["kind"], refused["status"]) == ("ToolRefused", None)


# a reset


def test_a_reset_is_of_this_gpu_alone_and_its_failure_is_told(host: FakeHost) -> None:
    assert "ok" in run(host, {"verb": "reset_gpu", **GPU})
    assert ran(host) == [f"{NVIDIA_SMI} --gpu-reset -i {GPU_A}"]
    tool(host, NVIDIA_SMI, "echo GPU is in use by pid 7; exit 19")
    refused = run(host, {"verb": "reset_gpu", **GPU})["err"]
    assert (refused["kind"], refused["status"], refused["output"]) == ("ToolRefused", 19, "GPU is in use by pid 7")


@pytest.mark.parametrize("step", [switch("set_vfs"), {"verb": "reset_gpu", **GPU}], ids=["set_vfs", "reset_gpu"])
def test_a_tool_that_fails_is_told_with_the_processes_that_have_the_gpu_open(
    host: FakeHost, step: dict[str, Any]
) -> None:
    information = host.path(f"/proc/driver/nvidia/gpus/{GPU_A}/information")
    information.write_text(information.read_text() + "\nDevice Minor: \t 3\n")
    host.add_process(812, "/dev/nvidia3", "/dev/nvidiactl", command=("nv-hostengine",), name="nv-hostengine")
    host.add_process(813, "/dev/nvidia30", command=("other",), name="other")
    tool(host, NVIDIA_SMI, "echo In use by another client; exit 19")
    refused = run(host, step)["err"]
    assert refused["kind"] == "ToolRefused"
    assert refused["output"].splitlines()[-1] == "the GPU is open in nv-hostengine (pid 812)"


@pytest.mark.parametrize("through", ["the other GPU", "an NVSwitch"])
def test_a_reset_that_fails_is_told_with_persistence_mode_and_the_gpus_that_nvlink_connects(
    host: FakeHost, through: str
) -> None:
    tool(host, NVIDIA_SMI, "echo In use by another client; exit 255")
    host.put(f"/proc/driver/nvidia/gpus/{GPU_B}/information", "")
    ends = {GPU_A: GPU_B, GPU_B: GPU_A} if through == "the other GPU" else dict.fromkeys((GPU_A, GPU_B), "0000:c4:00.0")
    linked = {
        "nvmlDeviceGetPersistenceMode": lambda pci: 1,
        "nvmlDeviceGetNvLinkState": lambda pci, link: int(link == 3),
        "nvmlDeviceGetNvLinkRemotePciInfo": lambda pci, link: SimpleNamespace(
            busId=f"0000{ends[pci].upper()}".encode()
        ),
    }
    refused = refused_reset(host, linked)
    assert refused["output"].splitlines() == [
        "In use by another client",
        f"persistence mode is on and may be what holds the GPU; `nvidia-smi -pm 0 -i {GPU_A}` turns it off",
        f"NVLink connects the GPU to {GPU_B}",
    ]


@pytest.mark.parametrize("end", [b"", b"nowhere", b"\xff\xfe:00.0"])
def test_a_link_whose_end_is_no_address_hides_nothing_of_the_refusal(host: FakeHost, end: bytes) -> None:
    tool(host, NVIDIA_SMI, "echo In use by another client; exit 255")
    host.put(f"/proc/driver/nvidia/gpus/{GPU_B}/information", "")
    odd = {
        "nvmlDeviceGetNvLinkState": lambda pci, link: 1,
        "nvmlDeviceGetNvLinkRemotePciInfo": lambda pci, link: SimpleNamespace(busId=end),
    }
    refused = refused_reset(host, odd)
    assert (refused["kind"], refused["output"]) == ("ToolRefused", "In use by another client")


def refused_reset(host: FakeHost, nvml: dict[str, Any]) -> Any:
    """The refusal of a reset on a host whose NVML also answers these calls."""
    return execute(host, {"verb": "reset_gpu", **GPU}, nvml=told(FakeMig(host), nvml))["err"]


def told(nvml: FakeMig, more: dict[str, Any]) -> FakeMig:
    nvml.answers |= more
    return nvml


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("key", ["gpu", "gpu_uuid"])
def test_an_address_that_is_none_is_a_bad_request(step: dict[str, Any], key: str) -> None:
    for wrong in (None, "", 7, ["x"]):
        with pytest.raises(Refusal, match=rf"step\.{key} must be") as caught:
            parse_step({**step, key: wrong})
        assert caught.value.kind == "BadRequest"
