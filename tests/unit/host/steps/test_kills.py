"""Killed at any point of a step, the host program leaves a host on which the next run gets to the same end."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.dose import share
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
from tests.unit.host.fakenvml import FakeNvml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.unit.host.conftest import Program

    Kill = Callable[..., None]


class Scene(NamedTuple):
    """A step, a host that is ready for it, and the points of the step. `options`: which NVML the host program has."""

    name: str
    step: dict[str, Any]
    points: Sequence[str]
    prepare: Callable[[Path], FakeHost]
    options: tuple[str | int, ...] = ()


CREATING = ("rename-1", "planned", "written", "read-back", "rename-2", "made")
DESTROYING = ("rename-1", "leaving", "written", "read-back", "rename-2", "out")
EVACUATING = ("evacuating", "written", "read-back", "evacuated")
WRITING = ("rename-1", "aside", "in-place", "read-back")
OLD, NEW = (
    f'options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;RmPVMRL=0x{value:08x}"\n' for value in (1, 2)
)
GPU = {"gpu_uuid": UUID_A, "gpu": GPU_A}


def with_mig(root: Path, *starts: int) -> FakeHost:
    """A GPU in MIG mode, with somebody else's 3g.20gb at 4, and a 2g.10gb of ours at each of these."""
    host = FakeHost.build(root, VENDOR)
    host.put_instance(9, 4, 4)
    for start in starts:
        host.put_instance(14, start, 2)
    if starts:
        host.put_ledger(instances=[make_instance(start=start) for start in starts])
    return host


def with_file(root: Path, text: str | None) -> FakeHost:
    host = FakeHost.build(root)
    if text is not None:
        host.path(CONF).write_text(text)
    return host


def with_tools(root: Path, framework: str | None) -> FakeHost:
    """A host whose sriov-manage takes away all virtual functions, and whose nvidia-smi notes that it was run."""
    host = FakeHost.build(root, framework)
    for path, script in (
        ("/usr/lib/nvidia/sriov-manage", f"rm {host.path(host.function(GPU_A))}/virtfn*"),
        ("/usr/bin/nvidia-smi", f"echo done > {host.root}/reset"),
    ):
        host.put(path, f"#!/bin/sh\n{script}").chmod(0o755)
    return host


def scenes() -> Iterator[Scene]:
    points: tuple[str, ...]
    for part, framework in enumerate(FRAMEWORKS):
        empty, made = partial(FakeHost.build, framework=framework), partial(host_with_vgpu, framework=framework)
        for step, points, prepare in (
            (make_step(framework), CREATING, empty),
            (make_destroy(framework), DESTROYING, made),
            (make_evacuate(framework), EVACUATING, made),
        ):
            yield Scene(f"{step['verb']} on {framework}", step, share(points, part, len(FRAMEWORKS)), prepare)
    for api, points in (
        (1, ("looked", "set-graphics", "read-back")),
        (2, ("looked", "set-nvenc0", "set-nvenc1", "set-graphics", "read-back")),
    ):
        yield Scene(f"scheduler v{api}", make_scheduler_step(api), points, FakeHost.build, ("--api", api))
    for name, text, before, points in (
        ("new file", NEW, None, WRITING),
        ("changed file", NEW, OLD, WRITING),
        ("file to remove", None, OLD, WRITING[2:]),
    ):
        yield Scene(name, make_modprobe_step(text=text, expect=before), points, partial(with_file, text=before))
    mig = ("--mig",)
    points = ("looked", "rename-1", "planned", "instance", "compute", "read-back", "rename-2", "made")
    yield Scene("new instance", make_instance_step(), points, with_mig, mig)
    points = ("looked", "rename-1", "leaving", "compute", "instance", "read-back", "rename-2", "out")
    removal = make_instance_step("destroy_instance")
    yield Scene("instance to remove", removal, points, lambda root: with_mig(root, 2), mig)
    yield Scene("vGPU in an instance", make_mig_step(), CREATING, lambda root: with_mig(root, 2), mig)
    bare = partial(with_tools, framework=None)
    mode = {"verb": "set_mig", **GPU, "on": True, "expect": False}
    yield Scene("MIG mode", mode, ("looked", "set", "read-back"), bare, mig)
    functions = {"verb": "set_vfs", **GPU, "on": False, "expect": True}
    points = ("looked", "rename-1", "noted", "ran", "read-back")
    yield Scene("functions to take away", functions, points, partial(with_tools, framework=VENDOR), mig)
    yield Scene("reset", {"verb": "reset_gpu", **GPU}, ("looked", "reset"), bare, mig)


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
        if "slot" in step:
            assert host.entries() or not present(host, step), "what no entry names is a leak"
        elif "size" in step:
            assert host.instances() or not present(host, step), "what no entry names is a leak"

    return killed_at


def next_run(host: FakeHost, options: Sequence[str | int]) -> Asker:
    api = options[1] if options[:1] == ("--api",) else None
    nvml = FakeMig(host) if api is None else FakeNvml(api=int(api), host=host, video_takes=True)
    asker = Asker(make_server(host, nvml=lambda: nvml).answer)
    asker.lock(wait_s=10)  # a child of the killed program may have its lock for a moment longer
    return asker


def finish(host: FakeHost, scene: Scene) -> None:
    """What a controller plans with what it sees: the rest of the step, and what was moved out is made again."""
    step = scene.step
    run = next_run(host, scene.options).execute
    if step["verb"].startswith("create"):
        assert "ok" in run({**step, "expect": "same" if present(host, step) else "empty"})
    elif step["verb"].startswith("destroy"):
        if host.entries() or host.instances():
            assert "ok" in run({**step, "expect": "present" if present(host, step) else "absent"})
    elif step["verb"] == "evacuate_vgpu":
        if present(host, step):
            assert "ok" in run(step)
        assert "ok" in run({**step, "verb": "create_vgpu", "expect": "empty"})
    else:
        assert "ok" in run(step)


def all_of(host: FakeHost) -> tuple[dict[str, str], dict[str, Any]]:
    """Every file, and what the ledger says; records of writes that are over go with its next write."""
    files = {name: text.replace(str(host.root), "") for name, text in host.tree().items()}
    ledger = json.loads(files.pop("var/lib/vgpumgr/ledger.json", "{}"))
    ledger.pop("blocked_writes", None)
    return files, ledger


@pytest.mark.parametrize(
    ("scene", "point"),
    [pytest.param(scene, point, id=f"{scene.name} at {point}") for scene in scenes() for point in scene.points],
)
def test_after_a_kill_the_next_run_ends_where_an_undisturbed_one_does(
    tmp_path: Path, kill: Kill, scene: Scene, point: str
) -> None:
    undisturbed = scene.prepare(tmp_path / "undisturbed")
    finish(undisturbed, scene)
    host = scene.prepare(tmp_path / "killed")
    kill(host, point, scene.step, *scene.options)
    finish(host, scene)
    assert all_of(host) == all_of(undisturbed)


@pytest.mark.parametrize("point", ["planned", "written", "read-back", "rename-2", "elsewhere", "rename-3"])
def test_a_vgpu_in_another_instance_is_not_left_there_however_the_run_was_killed(
    tmp_path: Path, kill: Kill, point: str
) -> None:
    """The driver takes the 2g.10gb at 0, whose id is lower; the next run, which the controller plans with what it sees, removes that."""
    host = with_mig(tmp_path, 0, 2)
    step = make_mig_step()
    kill(host, point, step, "--mig")
    answer = next_run(host, ("--mig",)).execute({**step, "expect": "same" if host.in_instances() else "empty"})
    assert (answer["err"]["kind"], answer["err"]["found"]) == ("Changed", "it in 2g.10gb at 0 (id 2)")
    assert host.in_instances() == []
    assert [entry["state"] for entry in host.entries()] in ([], ["planned"])
