"""A vGPU's plugin parameters: those that were asked for, and those of the vGPU that it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import (
    HARDWARE,
    MDEV_VF,
    FakeHost,
    execute,
    host_with_vgpu,
    locked,
    make_destroy,
    make_entry,
    make_step,
    two_gpus,
)
from vgpumgr.host.steps.params import merged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

each_hardware = pytest.mark.parametrize("framework", HARDWARE)
NEXT = "9e0d0000-0000-4000-8000-000000000002"
HAND = "disable_vnc=1,vgpu-placement-id=3,enable_uvm=0"  # as somebody wrote it by hand


def device_of(step: dict[str, Any]) -> str:
    return str(step["uuid"] or step["parent"])


def successor(framework: str, **more: Any) -> dict[str, Any]:
    """The slot's next vGPU, on another function."""
    uuid = None if make_step(framework)["uuid"] is None else NEXT
    return make_step(framework, vf=1, **{"generation": 2, "replaces": 1, "uuid": uuid, **more})


def with_hand(root: Path, framework: str) -> FakeHost:
    host = host_with_vgpu(root, framework)
    host.put_params(device_of(make_step(framework)), "")
    host.params(device_of(make_step(framework))).write_text(HAND + "\n")
    return host


@each_hardware
def test_what_is_asked_for_is_written_after_the_vgpu_is_made_and_is_in_its_entry(
    tmp_path: Path, framework: str
) -> None:
    host = two_gpus(tmp_path, framework)
    step = make_step(framework, param="enable_uvm=1,frame_rate_limiter=0")
    assert locked(host).execute(step)["ok"]["note"] is None
    assert host.params(device_of(step)).read_text() == "enable_uvm=1,frame_rate_limiter=0\n"
    assert host.entries() == [make_entry(framework, vgpu_params="enable_uvm=1,frame_rate_limiter=0")]


@each_hardware
def test_after_a_reboot_it_comes_back_with_what_it_had(tmp_path: Path, framework: str) -> None:
    """Nobody asks again: the entry says it."""
    host = two_gpus(tmp_path, framework)
    host.put_ledger(make_entry(framework, boot="b7000000-0000-4000-8000-00000000beef", vgpu_params="enable_uvm=1"))
    assert locked(host).execute(make_step(framework))["ok"]["note"] is None
    assert host.params(device_of(make_step(framework))).read_text() == "enable_uvm=1\n"


@each_hardware
def test_a_vgpu_keeps_what_the_one_before_it_has_except_its_place_and_what_is_asked_otherwise(
    tmp_path: Path, framework: str
) -> None:
    host = with_hand(tmp_path, framework)
    step = successor(framework, param="enable_uvm=1")
    assert locked(host).execute(step)["ok"]["note"] is None
    assert host.params(device_of(step)).read_text() == "disable_vnc=1,enable_uvm=1\n"


@each_hardware
def test_it_keeps_them_too_where_the_one_before_it_had_to_go_first(tmp_path: Path, framework: str) -> None:
    host = with_hand(tmp_path, framework)
    asker = locked(host)
    assert "ok" in asker.execute(make_destroy(framework))
    assert "ok" in asker.execute(successor(framework))
    assert host.params(device_of(successor(framework))).read_text() == "disable_vnc=1,enable_uvm=0\n"


def test_it_keeps_them_too_where_a_reboot_took_the_one_before_it(tmp_path: Path) -> None:
    """In place, only its entry is left to go first."""
    host = two_gpus(tmp_path, MDEV_VF)
    host.put_ledger(make_entry(MDEV_VF, boot="b7000000-0000-4000-8000-00000000beef", vgpu_params="enable_uvm=1"))
    asker = locked(host)
    assert "ok" in asker.execute(make_destroy(MDEV_VF, expect="absent"))
    assert "ok" in asker.execute(successor(MDEV_VF))
    assert host.params(NEXT).read_text() == "enable_uvm=1\n"


@each_hardware
def test_an_undone_removal_brings_all_of_them_back(tmp_path: Path, framework: str) -> None:
    host = with_hand(tmp_path, framework)
    asker = locked(host)
    assert "ok" in asker.execute(make_destroy(framework))
    assert "ok" in asker.execute(make_step(framework, replaces=1))
    assert host.params(device_of(make_step(framework))).read_text() == HAND + "\n"


@pytest.mark.parametrize("again", [make_step, successor])  # as a rule the first generation again
def test_a_new_vgpu_of_a_slot_that_was_freed_has_none(tmp_path: Path, again: Callable[..., dict[str, Any]]) -> None:
    host = with_hand(tmp_path, MDEV_VF)
    asker = locked(host)
    assert "ok" in asker.execute(make_destroy(MDEV_VF))
    assert "ok" in asker.execute(again(MDEV_VF, replaces=None))
    assert "vgpu_params" not in host.entries()[0]


def test_of_one_in_use_nothing_is_read_and_what_the_ledger_knows_counts(tmp_path: Path) -> None:
    host = with_hand(tmp_path, MDEV_VF)
    host.put_ledger(make_entry(MDEV_VF, vgpu_params="enable_profiling=1"))
    host.add_process(41, "/dev/vfio/77", command=("qemu", "-name", "vm01"))
    step = successor(MDEV_VF)
    assert locked(host).execute(step)["ok"]["note"] is None
    assert host.params(NEXT).read_text() == "enable_profiling=1\n"


@pytest.mark.parametrize(
    "param", ["", "enable_uvm=2", "enable_uvm=1\n", "vgpu-placement-id=3", "enable_uvm", "a=1;b=1", "ENABLE=1", 1]
)
def test_nothing_but_switches_is_taken_from_the_wire(tmp_path: Path, param: object) -> None:
    host = two_gpus(tmp_path, MDEV_VF)
    before = host.tree()
    assert execute(host, make_step(MDEV_VF, param=param))["err"]["kind"] == "BadRequest"
    assert host.tree() == before


def test_of_two_texts_the_second_one_decides() -> None:
    assert merged("a=1,b=1", "b=0,c=1") == "a=1,b=0,c=1"
    assert merged("", "c=1") == "c=1"
    assert merged("  odd text ", "") == "  odd text "
