"""An idle vGPU that is moved out for a moment: its entry stays, so nobody else gets its place, and it comes back the same."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.host.fakehost import (
    FRAMEWORKS,
    MDEV_PF,
    OTHER_MDEV,
    OTHER_VM,
    VENDOR,
    Asker,
    FakeHost,
    make_entry,
    make_park,
    make_step,
    no_nvml,
)
from vgpumgr.host.server import Server

if TYPE_CHECKING:
    from pathlib import Path

each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


def locked(host: FakeHost, **injected: Any) -> Asker:
    asker = Asker(Server(host.root, **{"nvml": no_nvml, "write": host.driver_write, **injected}).answer)
    asker.lock()
    return asker


def made(root: Path, framework: str) -> FakeHost:
    """A host with make_step's vGPU, entered as ours."""
    host = FakeHost.build(root, framework)
    step = make_step(framework)
    host.make_vgpu(step["parent"], 560, step["uuid"])
    host.put_ledger(make_entry(framework, later="kept"))
    return host


def on_hardware(asker: Asker) -> list[Any]:
    parents = [parent for gpu in asker.ask("observe", wait_s=0)["ok"]["gpus"] for parent in gpu["parents"]]
    return [vgpu["uuid"] for parent in parents for vgpu in parent["vgpus"]]


@each_framework
def test_it_goes_from_the_hardware_and_the_ledger_stays_as_it_is(tmp_path: Path, framework: str) -> None:
    host = made(tmp_path, framework)
    ledger = host.ledger_file.read_text()
    asker = locked(host)
    answer = asker.execute(make_park(framework))["ok"]
    assert (answer["entry"], answer["vgpu"], answer["note"]) == (make_entry(framework), None, None)
    assert on_hardware(asker) == []
    assert host.ledger_file.read_text() == ledger


@each_framework
def test_it_is_made_again_in_its_place_at_the_same_generation(tmp_path: Path, framework: str) -> None:
    host = made(tmp_path, framework)
    before = host.tree()
    asker = locked(host)
    asker.execute(make_park(framework))
    assert "ok" in asker.execute(make_step(framework))
    assert on_hardware(asker) == [make_step(framework)["uuid"]]
    after = host.tree()
    assert host.entries() == [make_entry(framework, later="kept")]
    assert {name: text for name, text in after.items() if "ledger" not in name} == {
        name: text for name, text in before.items() if "ledger" not in name
    }


@pytest.mark.parametrize("framework", [each for each in FRAMEWORKS if each != MDEV_PF])
def test_while_it_is_parked_nobody_else_gets_its_place(tmp_path: Path, framework: str) -> None:
    host = made(tmp_path, framework)
    asker = locked(host)
    asker.execute(make_park(framework))
    other = make_step(framework, vm=OTHER_VM, vm_name="vm02", uuid=None if framework == VENDOR else OTHER_MDEV)
    assert asker.execute(other)["err"]["found"] == "one for vm01 slot vgpu0"


@each_framework
@pytest.mark.parametrize("state", ["planned", "leaving", None])
def test_what_is_not_made_and_ours_is_never_parked(tmp_path: Path, framework: str, state: str | None) -> None:
    host = made(tmp_path, framework)
    host.put_ledger(*([make_entry(framework, state=state)] if state else []))
    asker = locked(host)
    before = host.tree()
    assert asker.execute(make_park(framework))["err"]["kind"] == "Changed"
    assert host.tree() == before


@each_framework
def test_hardware_that_is_not_the_entrys_or_not_there_is_never_parked(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    host.put_ledger(make_entry(framework))
    asker = locked(host)
    assert asker.execute(make_park(framework))["err"]["found"] == "nothing"
    step = make_step(framework)
    host.make_vgpu(step["parent"], 558, step["uuid"])
    before = host.tree()
    assert asker.execute(make_park(framework))["err"]["kind"] == "Changed"
    assert host.tree() == before


@each_framework
@pytest.mark.parametrize("when", ["before", "parking"])
def test_what_is_open_is_never_parked_also_when_it_was_opened_just_now(
    tmp_path: Path, framework: str, when: str
) -> None:
    host = made(tmp_path, framework)
    paths = {vgpu["vfio"][-1] for gpu in locked_look(host)["gpus"] for p in gpu["parents"] for vgpu in p["vgpus"]}

    def start(point: str) -> None:
        if point == when:
            host.add_process(41, *paths, command=("qemu", "-name", "vm01"))

    start("before")
    asker = locked(host, at=start)
    error = asker.execute(make_park(framework))["err"]
    assert (error["kind"], error["vm"], error["holders"]) == ("InUse", "vm01", ["open by pid 41 (vm01)"])
    assert len(on_hardware(asker)) == 1


def locked_look(host: FakeHost) -> dict[str, Any]:
    snapshot: dict[str, Any] = Asker(Server(host.root, nvml=no_nvml).answer).ask("observe", wait_s=0)["ok"]
    return snapshot


@each_framework
def test_a_refused_write_names_path_and_errno_and_leaves_everything(tmp_path: Path, framework: str) -> None:
    host = made(tmp_path, framework)

    def write(path: str, data: bytes) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    asker = locked(host, write=write)
    before = host.tree()
    error = asker.execute(make_park(framework))["err"]
    assert (error["kind"], error["errno"], error["read_back"]["type_id"]) == ("SysfsRefused", "EBUSY", 560)
    assert host.tree() == before


def test_only_what_is_present_can_be_parked(tmp_path: Path) -> None:
    host = made(tmp_path, VENDOR)
    assert locked(host).execute(make_park(VENDOR, expect="absent"))["err"]["kind"] == "BadRequest"
