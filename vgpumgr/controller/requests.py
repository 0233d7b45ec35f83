"""Brings many slots of many VMs to the requested state, all at once: each host is connected to once and read once.

        wishes = [SlotRequest(vm="vm01", wish=ByMemory(mib=4096)), SlotRequest(vm="vm02", wish=None)]
        result = apply_requests(context, wishes, check=False)
    result.changed, result.slots[0].outcome, result.problems

There is no prompt: the caller has authorised removals. A VM or host that fails is in the result and stops no other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from vgpumgr import errors, names
from vgpumgr.controller.engine import journaling
from vgpumgr.controller.engine.host_run import Work
from vgpumgr.controller.engine.run import Run
from vgpumgr.controller.hosts.locate_many import ManyVms
from vgpumgr.controller.hosts.missing_profile import MissingProfiles
from vgpumgr.controller.lately import with_history
from vgpumgr.core.driver import profiles
from vgpumgr.core.model.view import Finding
from vgpumgr.core.reconcile import tasks, together
from vgpumgr.core.report import listing
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from vgpumgr.controller.context import Context, Progress
    from vgpumgr.controller.engine.host_run import HostRun
    from vgpumgr.controller.hosts.fan_out import Outcome as Ended
    from vgpumgr.controller.hosts.locate import FoundVm
    from vgpumgr.controller.results import FleetPlan, TaskResult, Unread
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.report.listing import VgpuRow
    from vgpumgr.core.slot.request import SlotRequest
    from vgpumgr.names import HostName, Slot, VmUuid

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotResult:
    """The result of one request: done, unchanged, would_change, or the outcome of its error.

    `before` and `after`: the VM as found and as left (with check: as it would be left); None: unknown, or no such VM.
    `rows`: what its slots have at the end. A slot that was changed is `changed` even if the host failed afterwards.
    """

    request: SlotRequest
    outcome: errors.Outcome
    changed: bool = False
    host: HostName | None = None
    vm: str
    error: errors.VgpumgrError | None = None
    before: Domain | None = None
    after: Domain | None = None
    rows: tuple[VgpuRow, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def row(self) -> VgpuRow | None:
        """The only row, if there is exactly one; else None."""
        return self.rows[0] if len(self.rows) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsResult:
    """One row for each request, in that order. `findings`: about unread hosts, and about the journal.

    `fleet`: the plan for all hosts, made before anything was changed; None if each host was planned by itself.
    `unread`: hosts that could not be asked for the VMs. `is_held_back`: some cannot be served, so nothing was changed.
    """

    slots: tuple[SlotResult, ...]
    findings: tuple[Finding, ...] = ()
    unread: tuple[Unread, ...] = ()
    fleet: FleetPlan | None = None
    is_held_back: bool = False

    @property
    def changed(self) -> bool:
        return any(slot.changed for slot in self.slots)

    @property
    def failed(self) -> tuple[SlotResult, ...]:
        return tuple(slot for slot in self.slots if slot.error is not None)

    @property
    def problems(self) -> tuple[errors.VgpumgrError, ...]:
        """Each error once, even if a failed host spoils many slots. HeldBack is left out: it is no VM's own error."""
        found = {(type(slot.error), str(slot.error)): slot.error for slot in self.slots if slot.error is not None}
        return tuple(error for error in found.values() if not isinstance(error, errors.HeldBack))


def apply_requests(context: Context, requests: Sequence[SlotRequest], *, check: bool) -> RequestsResult:
    """Bring every slot to its requested state; `check`: change nothing. Raises UsageError if a slot is named twice.

    On each host, removals come first, since they make room; the rest keeps its order. No host waits for another one.
    """
    with Serving(context, requests) as serving:
        if context.inventory.quotas:
            serving.within_quotas(serving.each(partial(_plan, serving)))
        if check:
            return serving.result(serving.each(_foretell))
        with serving.counted_again():
            return serving.result(serving.each(_carry_out))


def _plan(serving: Serving, run: HostRun) -> HostPlan:
    run.look()
    return serving.plan_read(run)


def _foretell(run: HostRun) -> HostEnd:
    with run.session:
        run.look()
        return HostEnd.of(run.foretell(run.plan(), errors.Outcome.WOULD_CHANGE))


def _carry_out(run: HostRun) -> HostEnd:
    with run.session:
        run.look(lock=True)
        return HostEnd.of(run.go())


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEnd:
    """A host's state afterwards, or as it would be. `rows`: each slot's row of `list`, or the last one of several."""

    after: HostView
    rows: Mapping[tuple[VmUuid | None, Slot | None], VgpuRow]

    @classmethod
    def of(cls, after: HostView) -> HostEnd:
        return cls(after=after, rows={(row.vm_uuid, row.slot): row for row in listing.rows(after)})

    def of_slots(self, task: tasks.ServeSlot) -> tuple[VgpuRow, ...]:
        """The rows of the slots that a task is about."""
        if task.slot is None:
            return tuple(row for (vm, _), row in self.rows.items() if vm == task.uuid)
        keys = ((task.uuid, one.slot) for one in task.each)
        return tuple(self.rows[key] for key in keys if key in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A request whose VM was found, and the resulting task."""

    found: FoundVm
    task: tasks.ServeSlot

    @property
    def host(self) -> HostName:
        return self.found.session.declaration.name

    @property
    def key(self) -> tuple[HostName, VmUuid, Slot | None]:
        return self.host, self.task.uuid, self.task.slot


class Serving:
    """Serves many requests: finds their VMs and keeps each host's run. A context manager, which closes what is open.

    `together`: a host's requests are planned as one, by the VMs' names, and a VM that no host has is an error. Without
    it, a detach of such a VM counts as done already.
    """

    def __init__(self, context: Context, requests: Sequence[SlotRequest], *, together: bool = False) -> None:
        """Raises UsageError if a slot is named twice."""
        _guard_once(requests)
        self.hosts: dict[HostName, HostRun] = {}
        self._context = context
        self._requests = requests
        self._together = together
        self._run = Run(with_history(context))
        self._vms = ManyVms(context, self._run.opened)
        self.plan_read, self.within_quotas = self._run.plan_read, self._run.within_quotas
        self.counted_again, self.allotment = self._run.counted_again, self._run.allotment
        self._placed: list[_Placed | SlotResult] = []

    def __enter__(self) -> Self:
        """Ask the hosts for the VMs."""
        try:
            self._vms.ask((one.vm, one.on) for one in self._requests)
            self._placed = self._place_all()
        except BaseException:
            self._run.opened.close()
            raise
        by_host: dict[HostName, list[_Placed]] = {}
        for one in self._placed:
            if isinstance(one, _Placed):
                by_host.setdefault(one.host, []).append(one)
        self.hosts = {
            host: self._run.on(placed[0].found.session, self._work(placed)) for host, placed in by_host.items()
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run.opened.close()

    @property
    def misplaced(self) -> bool:
        """Whether a VM was not found, or cannot be reached."""
        return any(isinstance(one, SlotResult) and one.error is not None for one in self._placed)

    def each(
        self,
        work: Callable[[HostRun], Value],
        hosts: Collection[HostName] | None = None,
        progress: Callable[[Progress], None] = lambda _: None,
    ) -> dict[HostName, Ended[Value]]:
        """Run `work` for every host, or for some. `progress` is called with how far the hosts are."""
        chosen = [self._context.inventory.hosts[name] for name in self.hosts if hosts is None or name in hosts]
        return self._run.each(chosen, lambda host: work(self.hosts[host.name]), progress)

    def result(self, ends: Mapping[HostName, Ended[HostEnd]], fleet: FleetPlan | None = None) -> RequestsResult:
        """The result of each request. `ends`: how the work of each host ended."""
        self._run.opened.close()
        findings = self._vms.not_asked([one.found for one in self._placed if isinstance(one, _Placed)])
        task_results = {
            name: {one.planned.task: one for one in reversed(run.results)} for name, run in self.hosts.items()
        }
        slots = [
            one
            if isinstance(one, SlotResult)
            else self._result(one, ends[one.host], task_results[one.host].get(one.task))
            for one in self._placed
        ]
        return RequestsResult(
            slots=self._judged(slots),
            findings=(*findings, *journaling.findings(self._context)),
            unread=self._vms.unread,
            fleet=fleet,
        )

    def _work(self, placed: Sequence[_Placed]) -> Work:
        todo = [one.task for one in placed]
        if self._together:
            todo.sort(key=lambda task: (names.slot_order(task.vm), names.slot_order(task.slot or "")))
        todo.sort(key=lambda task: task.request.wish is not None)
        first = todo[0]
        what = f"{first.verb} {first.subject if len(todo) == 1 else f'{len(todo)} slots'}"
        if not self._together:
            return Work(what=what, todo=lambda _view, _declared: todo)
        return Work(
            what=what,
            todo=lambda _view, _declared: todo,
            plan=lambda view, declared, _todo, author: together.plan_together(view, declared, todo, author),
        )

    def _place_all(self) -> list[_Placed | SlotResult]:
        """Place every request. A VM can be named twice, by its name and by its UUID; the second is then refused."""
        found: list[_Placed | SlotResult] = []
        taken: set[tuple[HostName, VmUuid, Slot | None]] = set()
        for one in self._requests:
            placed = self._place(one)
            if isinstance(placed, _Placed):
                if placed.key in taken:
                    placed = _refused(one, _twice(one))
                else:
                    taken.add(placed.key)
            found.append(placed)
        return found

    def _place(self, request: SlotRequest) -> _Placed | SlotResult:
        """The task that a request becomes on its VM's host, or the slot's result if there is none."""
        try:
            found = self._vms.find(request.vm, request.on, or_gone=request.wish is None)
        except errors.VgpumgrError as error:
            if request.wish is None and not self._together and type(error) is errors.UnknownVm:
                return _nowhere(request, error)
            return _refused(request, error)
        task = tasks.ServeSlot(vm=names.VmName(found.name), uuid=found.uuid, request=request)
        return _Placed(found=found, task=task)

    def _result(self, placed: _Placed, ended: Ended[HostEnd], unit: TaskResult | None) -> SlotResult:
        end, before, uuid = ended.value, self.hosts[placed.host].before, placed.found.uuid
        came_to = unit.outcome if unit else errors.Outcome.FAILED
        failed = None if came_to == errors.Outcome.UNCHANGED else (unit.error if unit else None) or ended.error
        plan = unit.planned.plan if unit else None
        return SlotResult(
            request=placed.task.request,
            outcome=failed.outcome if failed else came_to,
            changed=came_to.changed,
            host=placed.host,
            vm=placed.found.name,
            error=failed,
            before=before.domain(uuid) if before else None,
            after=end.after.domain(uuid) if end else None,
            rows=end.of_slots(placed.task) if end else (),
            findings=plan.findings if plan else (),
        )

    def _judged(self, slots: Sequence[SlotResult]) -> tuple[SlotResult, ...]:
        """The same results, after checking whether a profile that a host lacks exists anywhere."""
        missing = MissingProfiles(self._context)
        found: list[SlotResult] = []
        for slot in slots:
            wish, error = slot.request.wish, slot.error
            if (
                isinstance(error, errors.ProfileNotHere)
                and slot.host is not None
                and isinstance(wish, profiles.ByProfile)
            ):
                judged = missing.judge(self._context.inventory.hosts[slot.host], wish.profile, error)
                found.append(replace(slot, error=judged, outcome=judged.outcome))
            else:
                found.append(slot)
        return tuple(found)


def _guard_once(requests: Sequence[SlotRequest]) -> None:
    named: set[tuple[str, Slot | None, str | None]] = set()
    for one in requests:
        if (one.vm, one.slot, one.on) in named:
            raise _twice(one)
        named.add((one.vm, one.slot, one.on))


def _twice(request: SlotRequest) -> errors.UsageError:
    slot = "" if request.slot is None else say(" slot {}", request.slot)
    return errors.UsageError(say("{}{} is named twice", request.vm, slot), hint="name each slot once")


def _refused(request: SlotRequest, error: errors.VgpumgrError) -> SlotResult:
    """The result of a request that was refused before its host was read."""
    host = names.HostName(error.host) if isinstance(error, errors.HostError) else None
    return SlotResult(request=request, outcome=error.outcome, host=host, vm=request.vm, error=error)


def _nowhere(request: SlotRequest, error: errors.UnknownVm) -> SlotResult:
    """The result of a detach if all hosts were queried and none knows the VM: it has no vGPU.

    The request may be mistaken, so that is reported.
    """
    hint = say("; {}", error.hint) if error.hint else ""
    text = say("{}, so there is nothing to free{}", error.message, hint)
    found = Finding(kind="unknown-vm", host=None, vm=request.vm, slot=request.slot, text=text)
    return SlotResult(request=request, outcome=errors.Outcome.UNCHANGED, vm=request.vm, findings=(found,))
