"""Which VMs to shut down in the next window: who waits for a restart, and for whose end something declared waits."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile.host_plans import RUN, after
from tests.unit.core.reconcile.test_gpu_settings import FIXED, PCI
from vgpumgr.core.reconcile import window


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
