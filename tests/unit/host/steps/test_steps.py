"""Steps: the ledger first, then the hardware, and nothing at all where the host is not as expected."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import (
    BOOT,
    FRAMEWORKS,
    GPU_A,
    GPU_B,
    HARDWARE,
    MDEV,
    MDEV_PF,
    MDEV_VF,
    OTHER_MDEV,
    OTHER_VM,
    TWO_GPUS,
    UUID_A,
    UUID_B,
    VENDOR,
    Asker,
    FakeHost,
    host_with_vgpu,
    locked,
    make_destroy,
    make_entry,
    make_evacuate,
    make_step,
    no_nvml,
    stat_line,
)
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.server import Server
from vgpumgr.host.steps.executor import parse_step

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Removal = Callable[..., dict[str, Any]]

FOREIGN = "f0000000-0000-4000-8000-00000000000f"
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)
each_removal = pytest.mark.parametrize("removal", [make_destroy, make_evacuate])
each_hardware = pytest.mark.parametrize("framework", HARDWARE)


def freed(host: FakeHost) -> list[tuple[str, int]]:
    rows = json.loads(host.ledger_file.read_text()).get("freed", [])
    return [(row["slot"], row["generation"]) for row in rows]


def occupant(framework: str, uuid: str = FOREIGN) -> str | None:
    return None if framework == VENDOR else uuid


def vgpus(asker: Asker) -> list[tuple[str, str | None, int]]:
    snapshot = asker.ask("observe", wait_s=0)["ok"]
    return [
        (parent["pci"], vgpu["uuid"], vgpu["type_id"])
        for gpu in snapshot["gpus"]
        for parent in gpu["parents"]
        for vgpu in parent["vgpus"]
    ]


def refusing(number: int) -> Any:
    def write(path: str, data: bytes) -> None:
        raise OSError(number, os.strerror(number))

    return write


@each_framework
def test_create_then_destroy_leaves_the_host_as_it_was(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    asker = locked(host)
    step = make_step(framework)
    assert asker.execute(step)["ok"] == {"note": None, "scheduler": None}
    assert host.entries() == [make_entry(framework)]
    assert vgpus(asker) == [(step["parent"], step["uuid"], 560)]
    assert host.blocked_writes() == []
    assert asker.execute(make_destroy(framework))["ok"] == {"note": None, "scheduler": None}
    assert (vgpus(asker), host.entries(), host.blocked_writes()) == ([], [], [])


def test_without_the_lock_nothing_is_done(host: FakeHost) -> None:
    before = host.tree()
    asker = Asker(Server(host.root, nvml=no_nvml, write=host.driver_write).answer)
    assert asker.execute(make_step(MDEV_VF))["err"]["kind"] == "NotLocked"
    assert host.tree() == before


def test_the_entry_is_on_disk_as_planned_before_the_hardware_is_written(host: FakeHost) -> None:
    seen: dict[str, list[str]] = {}

    def at(point: str) -> None:
        seen[point] = [entry["state"] for entry in host.entries()]

    asker = locked(host, at=at)
    asker.execute(make_step(MDEV_VF))
    asker.execute(make_destroy(MDEV_VF))
    assert seen["planned"] == ["planned"]
    assert seen["made"] == ["made"]
    assert seen["leaving"] == ["leaving"]
    assert seen["out"] == []


# what must be found first


@each_framework
def test_a_place_that_is_taken_is_left_alone(tmp_path: Path, framework: str) -> None:
    """By another's VF type or mdev; on a physical function only the same uuid is in the way."""
    host = FakeHost.build(tmp_path, framework)
    step = make_step(framework)
    host.make_vgpu(step["parent"], 558, MDEV if framework == MDEV_PF else occupant(framework))
    asker = locked(host)
    before = host.tree()
    error = asker.execute(step)["err"]
    assert error["kind"] == "Changed"
    assert error["expected"] == f"nothing on {step['parent']}"
    assert "558" in error["found"] or "2Q" in error["found"]
    assert host.tree() == before


def test_a_physical_function_takes_a_second_mdev(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, MDEV_PF)
    host.make_mdev(GPU_A, 560, FOREIGN)
    assert "ok" in locked(host).execute(make_step(MDEV_PF))


def test_a_uuid_that_is_on_another_parent_is_refused(host: FakeHost) -> None:
    host.make_mdev("0000:41:00.6", 560, MDEV)
    error = locked(host).execute(make_step(MDEV_VF))["err"]
    assert (error["kind"], error["found"]) == ("Changed", "it on 0000:41:00.6")


@each_framework
@pytest.mark.parametrize(
    "wrong",
    [
        {"gpu_uuid": UUID_B},
        {"gpu": GPU_B},
        {"gpu": "0000:99:00.0"},
        {"parent": "0000:41:00.6"},
    ],
)
def test_addresses_that_do_not_mean_what_was_meant_are_refused(
    tmp_path: Path, framework: str, wrong: dict[str, Any]
) -> None:
    host = FakeHost.build(tmp_path, framework, gpus=TWO_GPUS)
    asker = locked(host)
    before = host.tree()
    assert asker.execute(make_step(framework, **wrong))["err"]["kind"] == "Changed"
    assert host.tree() == before


def test_a_gpu_whose_uuid_cannot_be_read_is_never_written_to(host: FakeHost) -> None:
    host.path(f"/proc/driver/nvidia/gpus/{GPU_A}/information").unlink()
    asker = locked(host)
    before = host.tree()
    error = asker.execute(make_step(MDEV_VF))["err"]
    assert (error["kind"], error["found"]) == ("Changed", "a GPU whose UUID cannot be read")
    assert host.tree() == before


@each_hardware
def test_a_place_that_anothers_entry_reserves_is_refused_though_the_hardware_is_empty(
    tmp_path: Path, framework: str
) -> None:
    host = FakeHost.build(tmp_path, framework)
    host.put_ledger(make_entry(framework, vm_uuid=OTHER_VM, vm_name="vm02", uuid=occupant(framework, OTHER_MDEV)))
    asker = locked(host)
    before = host.tree()
    error = asker.execute(make_step(framework))["err"]
    assert (error["kind"], error["found"]) == ("Changed", "one for vm02 slot vgpu0")
    assert host.tree() == before


@each_hardware
@pytest.mark.parametrize("state", ["planned", "made"])
def test_its_own_entry_of_an_earlier_boot_is_made_again(tmp_path: Path, framework: str, state: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    host.put_ledger(make_entry(framework, boot="earlier", state=state, later="kept"))
    assert "ok" in locked(host).execute(make_step(framework))
    assert host.entries() == [make_entry(framework, boot=BOOT, later="kept")]


def test_its_own_entry_for_another_place_is_refused(host: FakeHost) -> None:
    host.put_ledger(make_entry(MDEV_VF))
    assert locked(host).execute(make_step(MDEV_VF, vf=1))["err"]["kind"] == "Changed"


def test_a_move_enters_the_new_generation_beside_the_old(host: FakeHost) -> None:
    asker = locked(host)
    asker.execute(make_step(MDEV_VF))
    assert "ok" in asker.execute(make_step(MDEV_VF, vf=1, generation=2, uuid=OTHER_MDEV))
    assert [entry["generation"] for entry in host.entries()] == [1, 2]
    assert "ok" in asker.execute(make_destroy(MDEV_VF))
    assert [entry["generation"] for entry in host.entries()] == [2]
    assert vgpus(asker) == [("0000:41:00.5", OTHER_MDEV, 560)]


def test_a_new_generation_on_the_very_same_empty_vf_takes_the_old_entrys_place(tmp_path: Path) -> None:
    """Else the old entry's destroy would later take the new vGPU away: a VF's vGPU has no name of its own."""
    host = FakeHost.build(tmp_path, VENDOR)
    host.put_ledger(make_entry(VENDOR, boot="earlier"))
    assert "ok" in locked(host).execute(make_step(VENDOR, generation=2))
    assert host.entries() == [make_entry(VENDOR, generation=2)]
    assert freed(host) == [("vgpu0", 1)]


# same


@each_hardware
def test_a_vgpu_of_exactly_that_type_and_uuid_is_entered_as_ours(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    step = make_step(framework, expect="same")
    host.make_vgpu(step["parent"], 560, step["uuid"])
    hardware = vgpus(asker := locked(host, write=refusing(errno.EIO)))
    assert asker.execute(step)["ok"]["note"] is None
    assert [entry["state"] for entry in host.entries()] == ["made"]
    assert vgpus(asker) == hardware


@each_hardware
def test_another_type_or_nothing_there_is_not_entered(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    step = make_step(framework, expect="same")
    asker = locked(host)
    assert asker.execute(step)["err"]["found"] == "nothing"
    host.make_vgpu(step["parent"], 558, step["uuid"])
    assert asker.execute(step)["err"]["kind"] == "Changed"
    assert host.entries() == []


# refused writes


@each_hardware
def test_a_refused_create_takes_its_entry_out_again_and_names_path_and_errno(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    asker = locked(host, write=refusing(errno.EIO))
    error = asker.execute(make_step(framework))["err"]
    assert (error["kind"], error["errno"], error["read_back"]) == ("SysfsRefused", "EIO", None)
    assert error["path"].startswith("/sys/bus/pci/devices/0000:41:00.")
    assert error["path"].endswith("current_vgpu_type" if framework == VENDOR else "nvidia-560/create")
    assert host.entries() == []


def test_a_refused_create_puts_back_the_entry_that_was_there_before(host: FakeHost) -> None:
    earlier = make_entry(MDEV_VF, boot="earlier")
    host.put_ledger(earlier)
    locked(host, write=refusing(errno.EPERM)).execute(make_step(MDEV_VF))
    assert host.entries() == [earlier]


@each_hardware
def test_a_write_that_is_taken_and_does_nothing_is_a_refusal(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    error = locked(host, write=lambda path, data: None).execute(make_step(framework))["err"]
    assert (error["kind"], error["errno"]) == ("SysfsRefused", "NONE")
    assert host.entries() == []


@each_hardware
def test_a_refusal_that_left_something_behind_stays_planned(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)

    def half(path: str, data: bytes) -> None:
        host.make_vgpu(make_step(framework)["parent"], 558, make_step(framework)["uuid"])
        raise OSError(errno.EIO, "")

    error = locked(host, write=half).execute(make_step(framework))["err"]
    assert error["read_back"]["type_id"] == 558
    assert [entry["state"] for entry in host.entries()] == ["planned"]


def test_an_error_although_the_vgpu_is_there_is_done_with_a_note(host: FakeHost) -> None:

    def late(path: str, data: bytes) -> None:
        host.driver_write(path, data)
        raise OSError(errno.EEXIST, "")

    answer = locked(host, write=late).execute(make_step(MDEV_VF))["ok"]
    assert "EEXIST" in answer["note"]
    assert [entry["state"] for entry in host.entries()] == ["made"]


@each_hardware
@each_removal
def test_a_refused_removal_names_path_and_errno_and_leaves_the_entry_as_it_was(
    tmp_path: Path, framework: str, removal: Removal
) -> None:
    host = host_with_vgpu(tmp_path, framework)
    error = locked(host, write=refusing(errno.EPERM)).execute(removal(framework))["err"]
    assert (error["kind"], error["errno"], error["read_back"]["type_id"]) == ("SysfsRefused", "EPERM", 560)
    assert host.entries() == [make_entry(framework)]
    assert freed(host) == []


def test_a_type_that_is_not_offered_is_the_kernels_enoent(host: FakeHost) -> None:
    error = locked(host).execute(make_step(MDEV_VF, type_id=999))["err"]
    assert (error["kind"], error["errno"]) == ("SysfsRefused", "ENOENT")


# destroy


def test_what_was_destroyed_is_on_record_as_freed_until_it_is_made_again(host: FakeHost) -> None:
    asker = locked(host)
    assert "ok" in asker.execute(make_step(MDEV_VF))
    assert freed(host) == []
    assert "ok" in asker.execute(make_destroy(MDEV_VF))
    assert freed(host) == [("vgpu0", 1)]
    row = {"vm_uuid": make_step(MDEV_VF)["vm_uuid"], "slot": "vgpu0", "generation": 1}
    assert asker.ask("observe", wait_s=0)["ok"]["freed"] == [row]
    assert "ok" in asker.execute(make_step(MDEV_VF))
    assert freed(host) == []


def test_what_no_entry_names_is_never_destroyed(host: FakeHost) -> None:
    step = make_destroy(MDEV_VF)
    host.make_vgpu(step["parent"], 560, step["uuid"])
    asker = locked(host)
    before = host.tree()
    assert asker.execute(step)["err"]["found"] == "no entry"
    host.put_ledger(make_entry(MDEV_VF, generation=2))
    assert asker.execute(step)["err"]["found"] == "no entry"
    assert asker.execute({**step, "expect": "absent"})["err"]["kind"] == "Changed"
    host.ledger_file.unlink()
    host.ledger_file.parent.rmdir()
    assert host.tree() == before


@each_hardware
@each_removal
def test_hardware_that_is_not_the_entrys_or_not_there_is_never_taken_away(
    tmp_path: Path, framework: str, removal: Removal
) -> None:
    host = FakeHost.build(tmp_path, framework)
    host.put_ledger(make_entry(framework))
    asker = locked(host)
    assert asker.execute(removal(framework))["err"]["found"] == "nothing"
    step = make_step(framework)
    host.make_vgpu(step["parent"], 558, step["uuid"])
    before = host.tree()
    assert asker.execute(removal(framework))["err"]["kind"] == "Changed"
    assert asker.execute(make_destroy(framework, expect="absent"))["err"]["kind"] == "Changed"
    assert host.tree() == before


@each_hardware
@each_removal
@pytest.mark.parametrize("when", [("before",), ("leaving", "evacuating")], ids=["before", "just now"])
def test_what_is_open_is_never_taken_away_also_when_it_was_opened_just_now(
    tmp_path: Path, framework: str, removal: Removal, when: tuple[str, ...]
) -> None:
    """Also while the ledger was written."""
    host = host_with_vgpu(tmp_path, framework)

    def start(point: str) -> None:
        if point in when:
            host.add_process(41, node, command=("qemu", "-name", "guest=vm01"))

    asker = locked(host, at=start)
    node = "/dev/vfio/devices/vfio650" if framework == VENDOR else "/dev/vfio/77"
    start("before")
    error = asker.execute(removal(framework))["err"]
    assert (error["kind"], error["vm"], error["holders"]) == ("InUse", "vm01", ["open by pid 41 (vm01)"])
    assert error["message"].endswith(f"on {make_step(framework)['parent']} (vm01 slot vgpu0) is in use")
    assert host.entries() == [make_entry(framework)]
    assert len(vgpus(asker)) == 1


@each_removal
def test_when_it_cannot_be_told_who_has_it_open_it_is_not_taken_away(tmp_path: Path, removal: Removal) -> None:
    host = host_with_vgpu(tmp_path, MDEV_VF)
    host.put("/proc/43/fd", "not a directory")
    host.put("/proc/43/stat", stat_line(43, "cat", "S"))
    before = host.tree()
    error = locked(host).execute(removal(MDEV_VF))["err"]
    assert error["kind"] == "InUse"
    assert error["holders"][0].startswith("cannot tell: ")
    assert host.tree() == before


def test_a_vgpu_without_readable_vfio_paths_is_not_destroyed(host: FakeHost) -> None:
    asker = locked(host)
    asker.execute(make_step(MDEV_VF))
    host.path(f"/sys/bus/mdev/devices/{MDEV}/iommu_group").unlink()
    error = asker.execute(make_destroy(MDEV_VF))["err"]
    assert (error["kind"], error["holders"]) == ("InUse", ["cannot tell: its /dev/vfio paths cannot be read"])


@each_hardware
def test_an_entry_without_hardware_is_taken_out(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    host.put_ledger(make_entry(framework, boot="earlier"), make_entry(framework, slot="vgpu1", vf_index=2, uuid=None))
    step = make_destroy(framework, expect="absent")
    asker = locked(host)
    assert "ok" in asker.execute(step)
    assert [entry["slot"] for entry in host.entries()] == ["vgpu1"]


@each_hardware
def test_an_entry_on_vfs_that_are_off_or_on_a_card_that_was_taken_out_can_go(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, gpus=())
    host.add_gpu(GPU_A, UUID_A, None)
    elsewhere = make_entry(framework, slot="vgpu1", gpu_uuid=UUID_B, gpu="0000:99:00.0", uuid=None)
    host.put_ledger(make_entry(framework), elsewhere)
    asker = locked(host)
    assert asker.execute(make_destroy(framework))["err"]["kind"] == "Changed"
    assert "ok" in asker.execute(make_destroy(framework, expect="absent"))
    gone = make_destroy(framework, expect="absent", slot="vgpu1", gpu_uuid=UUID_B, gpu="0000:99:00.0", uuid=None)
    assert "ok" in asker.execute(gone)
    assert host.entries() == []


def put_in_another_card(host: FakeHost) -> None:
    """Another card in the first GPU's slot: same address, another UUID, no vGPUs."""
    host.put(f"/proc/driver/nvidia/gpus/{GPU_A}/information", f"Model: \t NVIDIA A40\nGPU UUID: \t {UUID_B}")


@each_hardware
def test_an_entry_on_a_card_that_was_exchanged_can_go_and_the_new_cards_vgpus_stay(
    tmp_path: Path, framework: str
) -> None:
    host = FakeHost.build(tmp_path, framework)
    put_in_another_card(host)
    step = make_destroy(framework, expect="absent")
    theirs = (step["parent"], occupant(framework), 558)
    host.make_vgpu(*theirs[::2], theirs[1])
    host.put_ledger(make_entry(framework))
    asker = locked(host)
    assert "ok" in asker.execute(step)
    assert host.entries() == []
    assert vgpus(asker) == [theirs]


@pytest.mark.parametrize("verb", ["create_vgpu", "destroy_vgpu", "evacuate_vgpu"])
def test_nothing_is_made_or_taken_away_on_a_card_that_was_exchanged(host: FakeHost, verb: str) -> None:
    put_in_another_card(host)
    step = make_step(MDEV_VF, verb=verb, expect="empty" if verb == "create_vgpu" else "present")
    if verb != "create_vgpu":
        host.make_vgpu(step["parent"], 560, step["uuid"])
        host.put_ledger(make_entry(MDEV_VF))
    asker = locked(host)
    before = host.tree()
    error = asker.execute(step)["err"]
    assert (error["kind"], error["expected"], error["found"]) == ("Changed", f"{UUID_A} at {GPU_A}", UUID_B)
    assert host.tree() == before


@each_hardware
def test_an_entry_stays_while_its_card_is_at_another_address_or_its_mdev_on_another_parent(
    tmp_path: Path, framework: str
) -> None:
    host = FakeHost.build(tmp_path, framework, gpus=((GPU_A, UUID_B), (GPU_B, UUID_A)))
    host.put_ledger(make_entry(framework))
    asker = locked(host)
    error = asker.execute(make_destroy(framework, expect="absent"))["err"]
    assert (error["kind"], error["found"]) == ("Changed", f"it at {GPU_B}")
    host.put(f"/proc/driver/nvidia/gpus/{GPU_B}/information", "GPU UUID: GPU-????????-????-????-????-????????????")
    error = asker.execute(make_destroy(framework, expect="absent"))["err"]
    assert (error["kind"], error["found"]) == ("Changed", f"a GPU at {GPU_B} whose UUID cannot be read")
    if framework == VENDOR:
        return
    elsewhere = "0000:81:00.5"
    host.make_mdev(elsewhere, 560, MDEV)
    host.put(f"/proc/driver/nvidia/gpus/{GPU_B}/information", "GPU UUID: GPU-cccccccc-0000-4000-8000-000000000003")
    error = asker.execute(make_destroy(framework, expect="absent"))["err"]
    assert (error["kind"], error["found"]) == ("Changed", f"it on {elsewhere}")
    assert len(host.entries()) == 1


# broken ledgers, bad requests


@pytest.mark.parametrize("text", ["{", '{"version": 1, "settings": {}, "entries": []}'])
def test_a_ledger_that_is_not_understood_stops_every_step(host: FakeHost, text: str) -> None:
    host.put("/var/lib/vgpumgr/ledger.json", text)
    asker = locked(host)
    before = host.tree()
    assert asker.execute(make_step(MDEV_VF))["err"]["kind"] == "LedgerBroken"
    assert asker.execute(make_destroy(MDEV_VF))["err"]["path"] == "/var/lib/vgpumgr/ledger.json"
    assert host.tree() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"expect": "present"},
        {"parent": "../../etc"},
        {"parent": "0000:41:00.4/.."},
        {"gpu": "41:00.0"},
        {"uuid": "../../x"},
        {"uuid": MDEV.upper()},
        {"uuid": f"{MDEV}\n"},
        {"vm_uuid": "vm01"},
        {"slot": "a/b"},
        {"slot": ""},
        {"generation": -1},
        {"generation": True},
        {"type_id": 0},
        {"type_id": "560"},
        {"vf_index": 1.5},
        {"uuid": None, "vf_index": None},
        {"listed": None},
    ],
)
def test_a_step_that_is_not_well_formed_is_a_bad_request(wrong: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as caught:
        parse_step({**make_step(MDEV_VF), **wrong})
    assert caught.value.kind == "BadRequest"


@pytest.mark.parametrize("key", sorted(make_step(MDEV_VF)))
def test_a_step_without_one_of_its_keys_is_a_bad_request(key: str) -> None:
    step = make_step(MDEV_VF)
    del step[key]
    with pytest.raises(Refusal, match=rf"^step\.{key} is missing$"):
        parse_step(step)


def test_a_bad_request_changes_nothing(host: FakeHost) -> None:
    asker = locked(host)
    before = host.tree()
    for wrong in ({"verb": "wipe"}, {"verb": None}, {"slot": ""}):
        assert asker.execute({**make_step(MDEV_VF), **wrong})["err"]["kind"] == "BadRequest"
    assert host.tree() == before
