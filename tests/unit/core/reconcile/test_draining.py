"""What is in the way of work on a host or a GPU, what a purge frees, and whom a window waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.gpu.test_mig_mode import divided
from tests.unit.core.reconcile.host_plans import RUN, after
from tests.unit.core.reconcile.test_gpu_settings import FIXED, PCI, mixed
from vgpumgr.core.driver import modprobe
from vgpumgr.core.driver.modprobe import OUR_PATH, ModprobeFile
from vgpumgr.core.reconcile import draining, purging, window
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView


GPU = PciAddress("0000:41:00.0")


def verdicts(view: HostView, gpu: PciAddress | None, *, moves: bool = False) -> list[tuple[str | None, str]]:
    return [(row.vm, row.next) for row in draining.rows(view, gpu, moves=moves)]


def test_idle_ones_stay_on_a_host_and_leave_a_gpu() -> None:
    view = builders.attached(builders.host())
    assert verdicts(view, None) == [("vm01", "stays")]
    assert verdicts(view, GPU, moves=True) == [("vm01", "moves")]
    assert verdicts(view, GPU) == [("vm01", "blocks")], "what did not move is told with how to free it"
    (move,) = draining.moves(view, GPU, builders.gpu_uuid(GPU))
    assert (move.vm, move.slot, move.away_from) == ("vm01", "vgpu0", builders.gpu_uuid(GPU))


def test_what_is_not_ours_is_lost_by_a_reboot_and_in_the_way_of_a_card() -> None:
    view = builders.with_foreign(builders.attached(builders.host()), parent_at=-1)
    assert (None, "stays") in verdicts(view, None)
    assert (None, "blocks") in verdicts(view, GPU, moves=True)
    assert len(draining.moves(view, GPU, builders.gpu_uuid(GPU))) == 1


def test_where_use_cannot_be_told_nothing_is_free() -> None:
    view = builders.attached(builders.host())
    view = replace(view, snapshot=replace(view.snapshot, handles=None))
    assert verdicts(view, None) == [("vm01", "blocks")]
    assert draining.moves(view, GPU, builders.gpu_uuid(GPU)) == ()


def test_a_vgpu_of_a_vm_that_is_gone_is_freed_by_name() -> None:
    view = builders.attached(builders.host())
    orphaned = replace(view, domains=view.domains[1:])
    (row,) = draining.rows(orphaned, GPU, moves=True)
    assert (row.next, row.why) == ("blocks", f"`vgpumgr detach {builders.vm_uuid('vm01')} --slot vgpu0` frees it")
    assert draining.moves(orphaned, GPU, builders.gpu_uuid(GPU)) == ()


# Which boot file is ours alone, and in which order files go


GPUS = [PciAddress(f"0000:{bus:02x}:00.0") for bus in (0x41, 0x81, 0xC1)]


HOST = builders.host()


def found(*files: ModprobeFile) -> ModprobeFile | None:
    return purging.boot_file(replace(HOST, snapshot=replace(HOST.snapshot, modprobe=files)))


@given(st.lists(st.tuples(st.sampled_from(GPUS), st.integers(0, 2**32 - 1)), min_size=1, max_size=6))
def test_whatever_scheduler_set_writes_into_a_file_of_its_own_is_ours(settings: list[tuple[PciAddress, int]]) -> None:
    files: tuple[ModprobeFile, ...] = ()
    for gpu, value in settings:
        edit = modprobe.merge(files, gpu, value)
        assert edit.text is not None
        files = (ModprobeFile(path=edit.path, text=edit.text),)
    assert found(*files) == files[0]


@pytest.mark.parametrize(
    "line",
    ["options nvidia NVreg_EnableMSI=1", 'options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;Other=1"'],
)
def test_a_file_with_somebody_elses_option_is_not(line: str) -> None:
    edit = modprobe.merge((), GPUS[0], 1)
    assert found(ModprobeFile(path=OUR_PATH, text=f"{edit.text}{line}\n")) is None
    assert found(ModprobeFile(path="/etc/modprobe.d/nvidia.conf", text=f"{edit.text}")) is None


@pytest.mark.parametrize(
    ("view", "until"),
    [
        (divided("A100"), "also after the host reboots"),
        (divided("H100"), "until the host reboots"),
        (mixed(), "until the host reboots"),
    ],
)
def test_a_mode_that_stays_is_named_with_the_command_that_ends_it(view: HostView, until: str) -> None:
    (gpu,) = view.snapshot.gpus
    (line,) = purging.left(view, declares(), has_dispatcher=False)
    assert f"mode of GPU {gpu.pci}, {until}: `vgpumgr mode set equal-size --on kvm01 --gpu-id {gpu.pci}" in line
    assert ("--allow-reset" in line) == until.startswith("also")


def test_the_boot_file_goes_first_and_the_ledger_later() -> None:
    boot = ModprobeFile(path=OUR_PATH, text="")
    assert purging.in_order(("/var/lib/vgpumgr/ledger.json",), boot) == (OUR_PATH, "/var/lib/vgpumgr/ledger.json")
    assert purging.in_order((), None) == ()


# Which VMs to shut down in the next window: who waits for a restart, and for whose end something declared waits


def test_a_vm_that_keeps_a_declared_scheduler_waiting_yields_and_one_that_is_off_is_not_named() -> None:
    view = after(builders.host(), vm01="4Q", vm02="4Q")
    busy = builders.running(view)
    (row,) = window.of_host(busy, declares(FIXED, vm01="4Q", vm02="4Q"), RUN)
    (slot,) = row.slots
    assert (row.vm, slot.slot, slot.does) == ("vm01", "vgpu0", "yields")
    assert slot.device == builders.entry_of(view).vgpu.device
    assert slot.waits == f"GPU {PCI}, declared fixed-share (hosts.yml:1)"
    assert window.of_host(view, declares(FIXED, vm01="4Q", vm02="4Q"), RUN) == ()
    assert window.of_host(busy, declares(vm01="4Q", vm02="4Q"), RUN) == ()


def test_a_vm_whose_own_slot_is_to_be_freed_or_resized_yields_for_that() -> None:
    busy = builders.running(after(builders.host(), vm01="4Q"))
    for wanted, waits in (
        (declares(), "vm01 vgpu0, no longer in the inventory"),
        (declares(vm01="8Q"), "vm01 vgpu0, declared --profile 8Q (hosts.yml:1)"),
    ):
        (row,) = window.of_host(busy, wanted, RUN)
        assert [(one.does, one.waits) for one in row.slots] == [("yields", waits)]


def test_a_vm_that_was_renamed_yields_under_its_name_of_now() -> None:
    busy = builders.running(builders.renamed(after(builders.host(), vm01="4Q"), "vm01", "web01"))
    (row,) = window.of_host(busy, declares(web01="8Q"), RUN)
    assert (row.vm, [one.waits for one in row.slots]) == ("web01", ["web01 vgpu0, declared --profile 8Q (hosts.yml:1)"])


def test_a_restart_is_told_beside_it_and_still_told_where_the_ledger_cannot_be_read() -> None:
    """vm01 runs without its vGPU, and vm02 with one whose GPU is to have another scheduler."""
    view = builders.running(after(builders.host(), vm01="4Q", vm02="4Q"), "vm02")
    view = builders.change_domain(view, "vm01", lambda vm: replace(vm, active=True, live=()))
    wanted = declares(FIXED, vm01="4Q", vm02="4Q")
    assert [(row.vm, one.does) for row in window.of_host(view, wanted, RUN) for one in row.slots] == [
        ("vm01", "gets"),
        ("vm02", "yields"),
    ]
    blind = replace(view, snapshot=replace(view.snapshot, ledger=None))
    assert [row.vm for row in window.of_host(blind, wanted, RUN)] == ["vm01"]
