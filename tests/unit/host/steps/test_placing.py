"""Mixed-size mode: a new vGPU is moved to its place, what was written is read back, and a driver that decides otherwise is told of."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import (
    HARDWARE,
    Asker,
    FakeHost,
    make_entry,
    make_step,
    no_nvml,
)
from vgpumgr.host.server import Server

if TYPE_CHECKING:
    from pathlib import Path

each_hardware = pytest.mark.parametrize("framework", HARDWARE)


class MixedHost:
    """A host whose driver puts each new vGPU at placement id 0. `refuses`: the errno of a write that would move it."""

    def __init__(self, root: Path, framework: str, *, refuses: int | None = None, deaf: bool = False) -> None:
        self.host = FakeHost.build(root, framework)
        self.step = make_step(framework, placement_id=24)
        self.device = self.step["uuid"] or self.step["parent"]
        self.refuses = refuses
        self.deaf = deaf
        server = Server(self.host.root, nvml=no_nvml, write=self.write, at=self.at)
        self.asker = Asker(server.answer)
        self.moments: list[str] = []
        self.asker.lock()

    def at(self, moment: str) -> None:
        self.moments.append(moment)

    def write(self, path: str, data: bytes) -> None:
        if path.endswith("/placement_id"):
            if self.refuses is not None:
                raise OSError(self.refuses, os.strerror(self.refuses))
            if self.deaf:
                return
        self.host.driver_write(path, data)
        if not path.endswith(("/placement_id", "/remove", "/vgpu_params")):
            self.host.place(self.device).write_text("0\n")

    def lies_at(self) -> int:
        return int(self.host.place(self.device).read_text())

    def run(self, **more: Any) -> Any:
        return self.asker.execute({**self.step, **more})["ok"]["note"]


@each_hardware
def test_a_new_vgpu_is_moved_to_its_place_and_the_ledger_says_where(tmp_path: Path, framework: str) -> None:
    mixed = MixedHost(tmp_path, framework)
    assert mixed.run() is None
    assert mixed.lies_at() == 24
    assert mixed.host.entries() == [make_entry(framework, placement_id=24)]
    assert mixed.moments.index("read-back") < mixed.moments.index("moved") < mixed.moments.index("made")


@each_hardware
def test_one_that_lies_there_already_or_is_of_another_mode_is_not_moved(tmp_path: Path, framework: str) -> None:
    for place in (0, None):
        mixed = MixedHost(tmp_path / str(place), framework, refuses=errno.EIO)
        assert mixed.run(placement_id=place) is None
        assert "moved" not in mixed.moments
        assert mixed.host.entries() == [make_entry(framework, placement_id=place)]


@each_hardware
@pytest.mark.parametrize(("refuses", "why"), [(errno.EIO, "EIO"), (None, "accepted, but without effect")])
def test_a_driver_that_decides_otherwise_is_told_of(
    tmp_path: Path, framework: str, refuses: int | None, why: str
) -> None:
    mixed = MixedHost(tmp_path, framework, refuses=refuses, deaf=True)
    assert mixed.run() == f"NVIDIA A40-4Q of vm01 slot vgpu0 lies at placement id 0, not at 24: {why}"
    assert mixed.lies_at() == 0
    assert mixed.host.entries() == [make_entry(framework, placement_id=24)]


@each_hardware
def test_what_a_killed_run_left_is_moved_too(tmp_path: Path, framework: str) -> None:
    mixed = MixedHost(tmp_path, framework)
    mixed.host.put_ledger(make_entry(framework, placement_id=24, state="planned"))
    mixed.host.make_vgpu(mixed.step["parent"], 560, mixed.step["uuid"])
    mixed.host.place(mixed.device).write_text("0\n")
    assert mixed.run(expect="same") is None
    assert mixed.lies_at() == 24
    assert mixed.host.entries() == [make_entry(framework, placement_id=24)]


@each_hardware
def test_what_is_in_use_or_only_entered_stays_where_it_is(tmp_path: Path, framework: str) -> None:
    for state in ("planned", "made"):
        mixed = MixedHost(tmp_path / state, framework)
        mixed.host.put_ledger(make_entry(framework, placement_id=24, state=state))
        mixed.host.make_vgpu(mixed.step["parent"], 560, mixed.step["uuid"])
        mixed.host.place(mixed.device).write_text("0\n")
        if state == "planned":
            vfio = mixed.asker.ask("observe", wait_s=0)["ok"]["gpus"][0]["parents"][0]["vgpus"][0]["vfio"]
            mixed.host.add_process(900, *vfio)
        note = mixed.run(expect="same")
        assert (note is not None and "not at 24" in note and "is in use" in note) == (state == "planned")
        assert mixed.lies_at() == 0
