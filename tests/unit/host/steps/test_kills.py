"""Killed at any point of a step, the host program leaves a ledger from which the next run gets to the same end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import (
    CONF,
    FRAMEWORKS,
    GPU_A,
    UUID_A,
    VENDOR,
    Asker,
    FakeHost,
    host_with_vgpu,
    make_destroy,
    make_entry,
    make_evacuate,
    make_instance,
    make_instance_step,
    make_mig_step,
    make_modprobe_step,
    make_scheduler_step,
    make_server,
    make_step,
)
from tests.unit.host.fakemig import FakeMig
from tests.unit.host.fakenvml import FIXED_SHARE, FakeNvml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.host.conftest import Program

    Kill = Callable[..., None]

each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)
CREATING = pytest.mark.parametrize("point", ["rename-1", "planned", "written", "read-back", "rename-2", "made"])


def present(host: FakeHost, step: dict[str, Any]) -> bool:
    """Whether the step's vGPU or GPU instance is on the hardware."""
    if "slot" not in step:
        return any(each["start"] == step["start"] for each in host.mig()["instances"])
    if step["uuid"] is not None:
        return host.path(f"/sys/bus/mdev/devices/{step['uuid']}").is_symlink()
    current = host.path(f"{host.function(step['parent'])}/nvidia/current_vgpu_type").read_text()
    assert current in {"0\n", f"{step['type_id']}\n"}
    return current != "0\n"


@pytest.fixture
def kill(run_program: Callable[..., Program]) -> Kill:
    """Let a host program begin the step, and end at this point of it; what is on the hardware by then has an entry."""

    def killed_at(host: FakeHost, point: str, step: dict[str, Any], *options: str | int) -> None:
        program = run_program(host.root, "--kill", point, *options)
        program.ask("lock", by="anna", wait_s=5)
        program.request("execute", step=step, deadline_s=10)
        assert program.read_line() == b""
        assert program.wait() == -9
        if "generation" in step or "size" in step:
            assert host.entries() or host.instances() or not present(host, step), "what no entry names is a leak"

    return killed_at


def next_run(host: FakeHost, nvml: FakeNvml | None = None) -> Asker:
    asker = Asker(make_server(host, nvml=lambda: nvml or FakeMig(host)).answer)
    asker.lock(wait_s=10)  # a child of the killed program may have its lock for a moment longer
    return asker


def with_mig(root: Path) -> FakeHost:
    """A GPU in MIG mode, with somebody else's 3g.20gb at 4."""
    host = FakeHost.build(root, VENDOR)
    host.put_instance(9, 4, 4)
    return host


@each_framework
@CREATING
def test_a_create_that_was_killed_is_finished_by_the_next(
    tmp_path: Path, kill: Kill, framework: str, point: str
) -> None:
    host = FakeHost.build(tmp_path, framework)
    step = make_step(framework)
    kill(host, point, step)
    assert "ok" in next_run(host).execute({**step, "expect": "same" if present(host, step) else "empty"})
    assert present(host, step)
    assert host.entries() == [make_entry(framework)]


@each_framework
@pytest.mark.parametrize("point", ["rename-1", "leaving", "written", "read-back", "rename-2", "out"])
def test_a_destroy_that_was_killed_is_finished_by_the_next(
    tmp_path: Path, kill: Kill, framework: str, point: str
) -> None:
    host = host_with_vgpu(tmp_path, framework)
    step = make_destroy(framework)
    kill(host, point, step)
    if host.entries():
        assert "ok" in next_run(host).execute({**step, "expect": "present" if present(host, step) else "absent"})
    assert not present(host, step)
    assert host.entries() == []


@each_framework
@pytest.mark.parametrize("point", ["evacuating", "written", "read-back", "evacuated"])
def test_an_evacuation_that_was_killed_leaves_it_there_or_gone_and_it_comes_back_the_same(
    tmp_path: Path, kill: Kill, framework: str, point: str
) -> None:
    host = host_with_vgpu(tmp_path, framework)
    step = make_evacuate(framework)
    kill(host, point, step)
    assert host.entries() == [make_entry(framework)]
    was_there = present(host, step)
    assert "ok" in next_run(host).execute(step if was_there else make_step(framework))
    assert present(host, step) is not was_there
    assert host.entries() == [make_entry(framework)]


_POINTS: dict[int, tuple[str, ...]] = {
    1: ("looked", "set-graphics", "read-back"),
    2: ("looked", "set-nvenc0", "set-nvenc1", "set-graphics", "read-back"),
}


@pytest.mark.parametrize(("api", "point"), [(api, point) for api, points in _POINTS.items() for point in points])
def test_a_scheduler_that_was_killed_is_set_by_the_same_step_again(
    tmp_path: Path, kill: Kill, api: int, point: str
) -> None:
    host = FakeHost.build(tmp_path)
    step = make_scheduler_step(api)
    kill(host, point, step, "--api", api)
    nvml = FakeNvml(api=api, host=host, video_takes=True)
    assert "ok" in next_run(host, nvml).execute(step)
    assert {nvml.state(GPU_A, engine)["policy"] for engine in ((1,) if api == 1 else (1, 2, 3))} == {FIXED_SHARE}


_OLD, _NEW = "options nvidia x=1\n", "options nvidia x=2\n"


@pytest.mark.parametrize(
    ("point", "text", "expect"),
    [
        *((point, _NEW, expect) for point in ("rename-1", "aside", "in-place", "read-back") for expect in (_OLD, None)),
        ("in-place", None, _OLD),
        ("read-back", None, _OLD),
    ],
)
def test_a_modprobe_file_that_was_being_written_is_the_old_or_the_new_one_and_then_the_new_one(
    tmp_path: Path, kill: Kill, point: str, text: str | None, expect: str | None
) -> None:
    host = FakeHost.build(tmp_path)
    file = host.path(CONF)
    if expect is not None:
        file.write_text(expect)
    step = make_modprobe_step(text=text, expect=expect)
    kill(host, point, step)
    assert (file.read_text() if file.exists() else None) in (text, expect)
    assert "ok" in next_run(host).execute(step)
    assert (file.read_text() if file.exists() else None) == text
    assert [each.name for each in file.parent.iterdir()] == ([] if text is None else [file.name])


@pytest.mark.parametrize(
    "point", ["looked", "rename-1", "planned", "instance", "compute", "read-back", "rename-2", "made"]
)
def test_an_instance_whose_creation_was_killed_is_finished_by_the_next(tmp_path: Path, kill: Kill, point: str) -> None:
    host = with_mig(tmp_path)
    step = make_instance_step()
    kill(host, point, step, "--mig")
    assert "ok" in next_run(host).execute({**step, "expect": "same" if present(host, step) else "empty"})
    assert {each["start"]: each["computes"] for each in host.mig()["instances"]} == {2: 1, 4: 1}
    assert host.instances() == [make_instance()]


@pytest.mark.parametrize(
    "point", ["looked", "rename-1", "leaving", "compute", "instance", "read-back", "rename-2", "out"]
)
def test_an_instance_whose_removal_was_killed_is_removed_by_the_next(tmp_path: Path, kill: Kill, point: str) -> None:
    host = with_mig(tmp_path)
    host.put_instance(14, 2, 2)
    host.put_ledger(instances=[make_instance()])
    step = make_instance_step("destroy_instance")
    kill(host, point, step, "--mig")
    if host.instances():
        assert "ok" in next_run(host).execute({**step, "expect": "present" if present(host, step) else "absent"})
    assert [each["start"] for each in host.mig()["instances"]] == [4]
    assert host.instances() == []


@CREATING
def test_a_mig_backed_create_that_was_killed_is_finished_by_the_next(tmp_path: Path, kill: Kill, point: str) -> None:
    host = with_mig(tmp_path)
    number = host.put_instance(14, 2, 2)
    host.put_ledger(instances=[make_instance()])
    step = make_mig_step()
    kill(host, point, step, "--mig")
    assert host.entries() or not present(host, step), "what no entry names is a leak"
    assert "ok" in next_run(host).execute({**step, "expect": "same" if host.in_instances() else "empty"})
    assert host.in_instances() == [number]
    assert [(entry["state"], entry["mig"]["start"]) for entry in host.entries()] == [("made", 2)]


@pytest.mark.parametrize("point", ["planned", "written", "read-back", "rename-2", "elsewhere", "rename-3"])
def test_a_vgpu_in_another_instance_is_not_left_there_however_the_run_was_killed(
    tmp_path: Path, kill: Kill, point: str
) -> None:
    """The driver takes the 2g.10gb at 0, whose id is lower; the next run, which the controller plans with what it sees, removes that."""
    host = with_mig(tmp_path)
    host.put_instance(14, 0, 2)
    host.put_instance(14, 2, 2)
    host.put_ledger(instances=[make_instance(start=0), make_instance()])
    step = make_mig_step()
    kill(host, point, step, "--mig")
    assert host.entries() or not present(host, step), "what no entry names is a leak"
    answer = next_run(host).execute({**step, "expect": "same" if host.in_instances() else "empty"})
    assert (answer["err"]["kind"], answer["err"]["found"]) == ("Changed", "it in 2g.10gb at 0 (id 2)")
    assert host.in_instances() == []
    assert [entry["state"] for entry in host.entries()] in ([], ["planned"])


_GPU = {"gpu_uuid": UUID_A, "gpu": GPU_A}
_VFS_OFF = {"verb": "set_vfs", **_GPU, "on": False, "expect": True}
_MIG_ON = {"verb": "set_mig", **_GPU, "on": True, "expect": False}


@pytest.mark.parametrize(
    ("step", "point"),
    [
        *((_MIG_ON, point) for point in ("looked", "set", "read-back")),
        *((_VFS_OFF, point) for point in ("looked", "rename-1", "noted", "ran", "read-back")),
        *(({"verb": "reset_gpu", **_GPU}, point) for point in ("looked", "reset")),
    ],
    ids=lambda value: value["verb"] if isinstance(value, dict) else value,
)
def test_what_was_begun_on_a_whole_gpu_is_finished_by_the_same_step_again(
    tmp_path: Path, kill: Kill, step: dict[str, Any], point: str
) -> None:
    host = FakeHost.build(tmp_path, VENDOR if step is _VFS_OFF else None)
    for path, script in (
        ("/usr/lib/nvidia/sriov-manage", f"rm {host.path(host.function(GPU_A))}/virtfn*"),
        ("/usr/bin/nvidia-smi", f"echo done > {host.root}/reset"),
    ):
        host.put(path, f"#!/bin/sh\n{script}").chmod(0o755)
    kill(host, point, step, "--mig")
    assert "ok" in next_run(host).execute(step)
    assert host.mig()["on"] == (step is _MIG_ON)
    assert (host.root / "reset").exists() == (step["verb"] == "reset_gpu")
    assert not list(host.path(host.function(GPU_A)).glob("virtfn*"))
