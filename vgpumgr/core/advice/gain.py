"""What becomes free by following advice: planned as attach and detach would do it, and counted as `capacity` does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr.core import simulate
from vgpumgr.core.advice.advice import Gain
from vgpumgr.core.driver.asking import NO_CONDITIONS, FgpuMemory
from vgpumgr.core.driver.profiles import ByProfile, parse_profile
from vgpumgr.core.evidence import sharing
from vgpumgr.core.placing import resolve
from vgpumgr.core.reconcile import host_plan
from vgpumgr.core.reconcile.tasks import ServeSlot
from vgpumgr.core.slot import how_many, to_come
from vgpumgr.core.slot.request import Replace, SlotRequest

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import Gpu, VgpuType
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.tasks import Author
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A host with what its inventory declares, and who would change it."""

    view: HostView
    declared: HostDeclaration
    author: Author

    def after(self, vm: Domain, slot: Slot, to: VgpuType | None) -> Room | VgpumgrError:
        """The host once the slot has this type instead, or (None) is free, with the VM off; else why that is refused.

        The VM counts as one that the inventory does not declare: who follows the advice changes that line first.
        """
        claim, wish = vm.claim(slot), None if to is None else by_name(to)
        conditions = claim.conditions if claim and wish else NO_CONDITIONS
        request = SlotRequest(vm=vm.uuid, slot=slot, wish=wish, conditions=conditions, replace=Replace.ALWAYS)
        task = ServeSlot(vm=vm.name, uuid=vm.uuid, request=request)
        others = {name: one for name, one in self.declared.vms.items() if name != vm.name}
        off, undeclared = simulate.shut_down(self.view, {vm.uuid}), replace(self.declared, vms=others)
        planned, left = host_plan.plan_next(off, undeclared, task, self.author)
        return planned.refused or replace(self, view=left)

    def gained(self, left: Room, gpu: Gpu, kind: VgpuType, *, mib: int) -> Gain:
        """What the host has room for once it is as `left`. `mib`: the framebuffer that a vGPU of `gpu` gives back."""
        unit, whole = resolve.unit_of(gpu, self.view.fgpu_per_gpu), resolve.board_mib(gpu)
        each = unit.mib if isinstance(unit, FgpuMemory) else whole / unit if unit and whole else None
        fgpu = None if each is None else round(mib / each, 3)
        return Gain(mib=mib, fgpu=fgpu, type_name=kind.type_name, more=left.fits(kind) - self.fits(kind))

    def fits(self, kind: VgpuType) -> int:
        """How many more of a type the host takes, beside what is kept for others."""
        view = to_come.with_room_kept(self.view, self.declared)
        ask, barred = resolve.Ask.at_host(view, by_name(kind), NO_CONDITIONS), sharing.barred_functions(view)
        return sum(how_many.how_many(view, gpu, ask, barred).count or 0 for gpu in view.snapshot.gpus)


def by_name(kind: VgpuType) -> ByProfile:
    """The wish for exactly this type."""
    return ByProfile(profile=parse_profile(kind.type_name if kind.parsed.board else kind.name))
