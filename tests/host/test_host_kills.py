"""Killed at any point of a step, the host program leaves a ledger from which the next run gets to the same end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.host.fakehost import FRAMEWORKS, Asker, FakeHost, make_destroy, make_entry, make_step, no_nvml
from vgpumgr.host.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.host.conftest import Program

each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


def present(host: FakeHost, step: dict[str, Any]) -> bool:
    """Whether the step's vGPU is on the hardware."""
    if step["uuid"] is not None:
        return host.path(f"/sys/bus/mdev/devices/{step['uuid']}").is_symlink()
    current = host.path(f"{host.function(step['parent'])}/nvidia/current_vgpu_type").read_text()
    assert current in {"0\n", "560\n"}
    return current == "560\n"


def killed_at(run_program: Callable[..., Program], host: FakeHost, point: str, step: dict[str, Any]) -> None:
    program = run_program(host.root, "--kill", point)
    program.ask("lock", by="anna", wait_s=5)
    program.request("execute", step=step, deadline_s=10)
    assert program.read_line() == b""
    assert program.wait() == -9


def next_run(host: FakeHost) -> Asker:
    asker = Asker(Server(host.root, nvml=no_nvml, write=host.driver_write).answer)
    asker.lock()
    return asker


@each_framework
@pytest.mark.parametrize("point", ["rename-1", "planned", "written", "read-back", "rename-2", "made"])
def test_a_create_that_was_killed_is_finished_by_the_next(
    tmp_path: Path, run_program: Callable[..., Program], framework: str, point: str
) -> None:
    host = FakeHost.build(tmp_path, framework)
    step = make_step(framework)
    killed_at(run_program, host, point, step)
    there = present(host, step)
    if there:
        assert host.entries(), "hardware that no entry names is a leak"
    assert "ok" in next_run(host).execute({**step, "expect": "same" if there else "empty"})
    assert present(host, step)
    assert host.entries() == [make_entry(framework)]


@each_framework
@pytest.mark.parametrize("point", ["rename-1", "leaving", "written", "read-back", "rename-2", "out"])
def test_a_destroy_that_was_killed_is_finished_by_the_next(
    tmp_path: Path, run_program: Callable[..., Program], framework: str, point: str
) -> None:
    host = FakeHost.build(tmp_path, framework)
    step = make_destroy(framework)
    host.make_vgpu(step["parent"], 560, step["uuid"])
    host.put_ledger(make_entry(framework))
    killed_at(run_program, host, point, step)
    there = present(host, step)
    if there:
        assert host.entries(), "hardware that no entry names is a leak"
    if host.entries():
        assert "ok" in next_run(host).execute({**step, "expect": "present" if there else "absent"})
    assert not present(host, step)
    assert host.entries() == []
