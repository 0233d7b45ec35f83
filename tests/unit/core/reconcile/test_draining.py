"""What is in the way of work on a host or a GPU, by what is seen of each vGPU."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.core import builders
from vgpumgr.core.model.snapshot import Vgpu
from vgpumgr.core.reconcile import draining
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView

GPU = PciAddress("0000:41:00.0")


def verdicts(view: HostView, gpu: PciAddress | None, *, moves: bool = False) -> list[tuple[str | None, str]]:
    return [(row.vm, row.next) for row in draining.rows(view, gpu, moves=moves)]


def with_foreign(view: HostView) -> HostView:
    """The first GPU with a vGPU that is not ours, on its last function."""
    gpu = view.snapshot.gpus[0]
    parent = gpu.parents[-1]
    foreign = Vgpu(
        parent=parent.pci,
        vf_index=parent.vf_index,
        uuid=None,
        type_id=builders.hardware_of(view).type_id,
        type_name="A40-4Q",
        placement_id=None,
        vfio=("/dev/vfio/9",),
    )
    parents = (*gpu.parents[:-1], replace(parent, vgpus=(foreign,)))
    return builders.change_gpus(view, lambda one: replace(one, parents=parents) if one.pci == gpu.pci else one)


def test_idle_ones_stay_on_a_host_and_leave_a_gpu() -> None:
    view = builders.attached(builders.host())
    assert verdicts(view, None) == [("vm01", "stays")]
    assert verdicts(view, GPU, moves=True) == [("vm01", "moves")]
    assert verdicts(view, GPU) == [("vm01", "blocks")], "what did not move is told with how to free it"
    (move,) = draining.moves(view, GPU, builders.gpu_uuid(GPU))
    assert (move.vm, move.slot, move.away_from) == ("vm01", "vgpu0", builders.gpu_uuid(GPU))


def test_what_is_not_ours_is_lost_by_a_reboot_and_in_the_way_of_a_card() -> None:
    view = with_foreign(builders.attached(builders.host()))
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
