"""All advice about one host, by VM and slot, and a finding for each vGPU of which nothing can be said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vgpumgr import names
from vgpumgr.core.advice.advice import Advice, Held, HostAdvice, Verdict
from vgpumgr.core.advice.gain import by_name
from vgpumgr.core.advice.rules import judge
from vgpumgr.core.commands import command
from vgpumgr.core.driver import asking, profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.model.vgpu import OURS
from vgpumgr.core.model.view import Finding
from vgpumgr.core.placing import resolve
from vgpumgr.core.reconcile import defragging, host_plan, tasks
from vgpumgr.core.report import listing
from vgpumgr.core.report.capacity import Question
from vgpumgr.errors import VgpumgrError
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vgpumgr.core.advice.advice import Gain
    from vgpumgr.core.advice.gain import Room
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import VgpuType
    from vgpumgr.core.report.listing import VgpuRow
    from vgpumgr.core.usage.usage_rows import UsageRow
    from vgpumgr.core.usage.usage_window import Window
    from vgpumgr.names import PciAddress, Slot

_JUDGED: Final = frozenset({"bound", "in_use", "made"})
"""The states in which a vGPU is there as its VM's claim says. A lazy one takes nothing while its VM is off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advisor:
    """Who advises on a host, and from which samples: those of `window`, of all the host's vGPUs."""

    room: Room
    window: Window
    used: Sequence[UsageRow]

    def advise(
        self, shows: Callable[[str, str | None, str | None], bool] = lambda _host, _vm, _uuid: True
    ) -> HostAdvice:
        """What is advised. `shows` selects by host, VM name and VM UUID. Raises PolicyFailed."""
        view = self.room.view
        rows = [row for row in listing.rows(view) if row.origin == OURS and shows(row.host, row.vm, row.vm_uuid)]
        judged = {row: self._of_vgpu(row) for row in rows if row.state in _JUDGED}
        advice = {row: one for row, one in judged.items() if isinstance(one, Advice)}
        advice = {one.row: one for one in self._emptying(rows)} | advice
        found = sorted(advice.values(), key=lambda one: (one.row.vm or "", names.slot_order(one.row.slot or "")))
        silent = (self._silent(row, why) for row, why in judged.items() if isinstance(why, str))
        vms = tuple((one.name, one.uuid) for one in view.domains)
        return HostAdvice(advice=tuple(found), findings=tuple(silent), vms=vms)

    def _silent(self, row: VgpuRow, why: str) -> Finding:
        text = say("no advice on {} slot {}: {}", row.vm, row.slot, why)
        return Finding(kind="no-advice", host=row.host, vm=row.vm, slot=row.slot, text=text)

    def _of_vgpu(self, row: VgpuRow) -> Advice | str | None:
        """The advice about a vGPU; a text: why nothing can be said."""
        view, slot = self.room.view, row.slot
        domain = view.domain(row.vm_uuid) if row.vm_uuid is not None else None
        gpu = next((one for one in view.snapshot.gpus if one.pci == row.gpu), None)
        kind = gpu.type_of(row.type_id) if gpu is not None else None
        if domain is None or gpu is None or kind is None or slot is None:
            return None
        use = next((one for one in self.used if (one.gpu, one.vm, one.slot) == (row.gpu, row.vm, slot)), None)
        if use is None:
            return "there is no sample of it"
        held = Held(row=row, gpu=gpu, type=kind, runs=domain.active, use=use, crowd=self._crowd(gpu.pci))
        verdict = judge(held, self.window)
        return self._advice(held, domain, slot, verdict) if isinstance(verdict, Verdict) else verdict

    def _crowd(self, gpu: PciAddress) -> float:
        """The mean SM use in percent of all vGPUs on a GPU together."""
        of_gpu = (one.engines["sm"] for one in self.used if one.gpu == gpu)
        return sum((sm.mean or 0.0) * sm.coverage for sm in of_gpu)

    def _advice(self, held: Held, domain: Domain, slot: Slot, verdict: Verdict) -> Advice | str:
        """The advice that a verdict leads to; a text: why it is none. A larger type may have to wait for room."""
        row, owner, to = held.row, self.room.view.owner(domain.uuid, domain.name), verdict.to
        if verdict.kind == "too-small" and to is None:
            more = command("usage", domain.name, on=row.host)
            return Advice(verdict=verdict, row=row, owner=owner, use=held.use, command=more)
        first = [say("shut {} down", domain.name)] if domain.active else []
        left = self.room.after(domain, slot, to)
        gain: Gain | None = None
        if verdict.kind != "too-small":
            found = self._gain(held, to, left)
            if isinstance(found, str):
                return say("{}; but {}", verdict.why, found)
            gain = found
        elif isinstance(left, VgpumgrError):
            first.append(say("make room ({})", left.what))
        declared = tasks.declaration(self.room.declared, domain.name, slot)
        if declared is None:
            then = _attach_or_detach(domain, slot, to, row.host)
        else:
            change = "take it out of" if to is None else say("ask for {} in", to.short)
            first.append(say("{} {}", change, str(declared.where)))
            then = command("reconcile", row.host)
        before = joined("; ", first) if first else None
        return Advice(verdict=verdict, row=row, owner=owner, use=held.use, gain=gain, first=before, command=then)

    def _gain(self, held: Held, to: VgpuType | None, left: Room | VgpumgrError) -> Gain | str:
        """What is gained once the host is as `left`; a text: why it is not worth it, or refused."""
        if isinstance(left, VgpumgrError):
            return say("that is refused: {}", left.what)
        if any(left.fits(one) < self.room.fits(one) for one in resolve.one_of_each_size(held.gpu)[-1:]):
            return "that would take an empty GPU"
        mib = held.type.full_mib - (to.full_mib if to is not None else 0)
        gains = [self.room.gained(left, held.gpu, kind, mib=mib) for kind in (to, held.type) if kind is not None]
        gain = next((one for one in gains if one.more > 0), gains[0])
        return gain if to is None or gain.more > 0 else "no more would fit then"

    def _emptying(self, rows: Sequence[VgpuRow]) -> Iterator[Advice]:
        """At most one for each board: the one move after which its largest type fits once more, as defrag finds it."""
        room, view = self.room, self.room.view
        largest = [resolve.one_of_each_size(gpu)[-1] for gpu in view.snapshot.gpus if resolve.board_mib(gpu)]
        for kind in {one.type_name: one for one in largest}.values():
            count = room.fits(kind) + 1
            question = Question(wish=by_name(kind), conditions=NO_CONDITIONS)
            moves = defragging.choose([(view, room.declared)], question, count, 1, room.author).tasks.values()
            options = ("--profile", kind.type_name, "--count", str(count), "--max-moves", "1")
            for move, row in [(found[0], row) for found in moves if len(found) == 1 for row in rows]:
                gpu = next((one for one in view.snapshot.gpus if one.pci == row.gpu), None)
                if gpu is not None and (row.vm_uuid, row.slot) == (move.uuid, move.slot):
                    why = say("its VM is off, it is alone on {}, and another GPU of {} takes it", row.gpu, row.host)
                    left = replace(room, view=host_plan.plan_tasks(view, room.declared, [move], room.author)[1])
                    gain = room.gained(left, gpu, kind, mib=0)
                    then = command("defrag", row.host, options=options)
                    verdict, owner = Verdict(kind="empties-gpu", why=why), view.owner(move.uuid, move.vm)
                    yield Advice(verdict=verdict, row=row, owner=owner, gain=gain, command=then)


def _attach_or_detach(vm: Domain, slot: Slot, to: VgpuType | None, host: str) -> str:
    if to is None:
        return command("detach", vm.name, slot=slot, on=host)
    claim = vm.claim(slot)
    conditions = asking.options(claim.conditions) if claim is not None else ()
    options = (*profiles.options(by_name(to)), *conditions, "--replace")
    return command("attach", vm.name, slot=slot, on=host, options=options)
