"""Brings many slots of many VMs to the requested state, all at once: each host is connected to once and read once.

    result = apply_requests(context, [SlotRequest(vm="vm01", profile=parse_profile("4Q")), SlotRequest(vm="vm02", profile=None)], check=False)
    result.changed, result.slots[0].outcome, result.problems

There is no prompt: the caller has already authorised removals. A VM or host that fails is in the result and stops no other.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.controller.engine import journaling
from vgpumgr.controller.engine.host_run import HostRun, task_result
from vgpumgr.controller.hosts.fan_out import fan_out
from vgpumgr.controller.hosts.locate_many import ManyVms
from vgpumgr.controller.hosts.missing_profile import MissingProfiles
from vgpumgr.controller.hosts.open_hosts import OpenHosts
from vgpumgr.core.driver import profiles
from vgpumgr.core.model.view import Finding
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.core.report import listing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.fan_out import Outcome
    from vgpumgr.controller.hosts.locate import FoundVm
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import TaskResult
    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import HostName, Slot, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """The requested content of one VM's slot: a profile, or nothing (None). `vm` is a name or UUID; `on`: where to look for it.

    `gpu_id` and `replace` apply to a profile, `keep_snapshots` to freeing the slot, as in tasks.AttachSlot and tasks.DetachSlot.
    """

    vm: str
    slot: Slot = names.DEFAULT_SLOT
    profile: Profile | None
    on: str | None = None
    gpu_id: str | None = None
    replace: tasks.Replace = tasks.Replace.IF_OTHER
    keep_snapshots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotResult:
    """The result of one slot: done, unchanged, would_change, or the outcome of its error.

    `before` and `after` are the VM as found and as left (with check: as it would be), None if that is unknown or there is no
    such VM; `row` is the slot's final content. A slot that was changed is `changed` even if the host failed afterwards.
    """

    request: SlotRequest
    outcome: errors.Outcome
    changed: bool = False
    host: HostName | None = None
    vm: str
    error: errors.VgpumgrError | None = None
    before: Domain | None = None
    after: Domain | None = None
    row: listing.VgpuRow | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsResult:
    """One row for each request, in that order. `findings`: hosts that could not be read, and the journal."""

    slots: tuple[SlotResult, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def changed(self) -> bool:
        return any(slot.changed for slot in self.slots)

    @property
    def failed(self) -> tuple[SlotResult, ...]:
        return tuple(slot for slot in self.slots if slot.error is not None)

    @property
    def problems(self) -> tuple[errors.VgpumgrError, ...]:
        """Every error once, even if a host that is down spoils many slots."""
        return tuple({id(slot.error): slot.error for slot in self.slots if slot.error is not None}.values())


def apply_requests(context: Context, requests: Sequence[SlotRequest], *, check: bool) -> RequestsResult:
    """Bring every slot to its requested state; `check` changes nothing anywhere. Raises UsageError if a slot is named twice.

    On each host, removals come first, since they make room; the rest keeps its order.
    """
    named: set[tuple[str, Slot, str | None]] = set()
    for one in requests:
        if (one.vm, one.slot, one.on) in named:
            raise _twice(one)
        named.add((one.vm, one.slot, one.on))
    return _Applying(context, check=check).go(requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A request whose VM was found, and the resulting task."""

    wanted: SlotRequest
    found: FoundVm
    task: tasks.AttachSlot | tasks.DetachSlot

    @property
    def host(self) -> HostName:
        return self.found.session.declaration.name

    @property
    def key(self) -> tuple[HostName, VmUuid, Slot]:
        return self.host, self.task.uuid, self.wanted.slot


@dataclass(frozen=True, slots=True, kw_only=True)
class _HostEnd:
    """A host's state before and after, or as it would be. `rows`: the newest of each slot, which `list` has last."""

    before: HostView
    after: HostView
    rows: Mapping[tuple[VmUuid | None, Slot | None], listing.VgpuRow]

    @classmethod
    def of(cls, before: HostView, after: HostView) -> _HostEnd:
        return cls(before=before, after=after, rows={(row.vm_uuid, row.slot): row for row in listing.rows(after)})


class _Applying:
    def __init__(self, context: Context, *, check: bool) -> None:
        self._context = context
        self._check = check
        self._run = tasks.Author(by=context.by, at=context.now())
        self._open = OpenHosts(context)
        self._vms = ManyVms(context, self._open)
        self._stop = threading.Event()
        # These grow as tasks end, so that a host that fails half way has them too.
        self._units: dict[HostName, list[TaskResult]] = {}
        self._before: dict[HostName, HostView] = {}

    def go(self, requests: Sequence[SlotRequest]) -> RequestsResult:
        try:
            self._vms.ask((one.vm, one.on) for one in requests)
            placed = self._place_all(requests)
            by_host: dict[HostName, list[_Placed]] = {}
            for one in placed:
                if isinstance(one, _Placed):
                    by_host.setdefault(one.host, []).append(one)
            hosts = [self._context.inventory.hosts[name] for name in by_host]
            host_timeout = self._open.host_timeout(self._stop)
            ends = {end.host: end for end in fan_out(hosts, lambda host: self._serve(by_host[host.name]), host_timeout)}
        finally:
            self._open.close()
        findings = self._vms.not_asked([one.found for one in placed if isinstance(one, _Placed)])
        slots = self._judged(self._results(placed, ends))
        return RequestsResult(slots=slots, findings=(*findings, *journaling.findings(self._context)))

    def _place_all(self, requests: Sequence[SlotRequest]) -> list[_Placed | SlotResult]:
        """A VM can be named twice, by its name and by its UUID; the second is then refused."""
        found: list[_Placed | SlotResult] = []
        taken: set[tuple[HostName, VmUuid, Slot]] = set()
        for one in requests:
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
            found = self._vms.find(request.vm, request.on, or_gone=request.profile is None)
        except errors.VgpumgrError as error:
            if request.profile is None and type(error) is errors.UnknownVm:
                return _nowhere(request, error)
            return _refused(request, error)
        vm = names.VmName(found.name)
        task: tasks.AttachSlot | tasks.DetachSlot
        if request.profile is None:
            task = tasks.DetachSlot(vm=vm, uuid=found.uuid, slot=request.slot, keep_snapshots=request.keep_snapshots)
        else:
            task = tasks.AttachSlot(
                vm=vm,
                uuid=found.uuid,
                slot=request.slot,
                wish=profiles.ByProfile(profile=request.profile),
                gpu_id=request.gpu_id,
                replace=request.replace,
            )
        return _Placed(wanted=request, found=found, task=task)

    def _serve(self, placed: Sequence[_Placed]) -> _HostEnd:
        """All tasks of one host. An error that ends them early is raised."""
        todo = sorted((one.task for one in placed), key=lambda task: isinstance(task, tasks.AttachSlot))
        with placed[0].found.session as session:
            run = HostRun(session, self._run)
            return self._plan(session, run, todo) if self._check else self._carry_out(session, run, todo)

    def _plan(self, session: Session, run: HostRun, todo: Sequence[tasks.Task]) -> _HostEnd:
        host = session.declaration.name
        view = self._before[host] = run.read(todo)
        planned_tasks, after = host_plan.plan_tasks(view, session.declaration, todo, self._run)
        self._units[host] = [task_result(planned, errors.Outcome.WOULD_CHANGE) for planned in planned_tasks]
        return _HostEnd.of(view, after)

    def _carry_out(self, session: Session, run: HostRun, todo: Sequence[tasks.Task]) -> _HostEnd:
        host = session.declaration.name
        what = todo[0].subject if len(todo) == 1 else f"{len(todo)} slots"
        session.link.prepare_writes()
        view = self._before[host] = run.lock(f"{todo[0].verb} {what}", todo)
        self._units[host] = run.results
        after = run.go(view, todo, stopped=lambda: self._stop.is_set() or self._open.is_left(host))
        return _HostEnd.of(view, after)

    def _results(
        self, placed: Sequence[_Placed | SlotResult], ends: Mapping[HostName, Outcome[_HostEnd]]
    ) -> list[SlotResult]:
        task_results = {host: {one.planned.task: one for one in reversed(found)} for host, found in self._units.items()}
        return [
            one
            if isinstance(one, SlotResult)
            else self._result(one, ends[one.host], task_results.get(one.host, {}).get(one.task))
            for one in placed
        ]

    def _result(self, placed: _Placed, ended: Outcome[_HostEnd], unit: TaskResult | None) -> SlotResult:
        end, uuid = ended.value, placed.found.uuid
        came_to = unit.outcome if unit else errors.Outcome.FAILED
        failed = None if came_to == errors.Outcome.UNCHANGED else (unit.error if unit else None) or ended.error
        before = end.before if end else self._before.get(placed.host)
        plan = unit.planned.plan if unit else None
        return SlotResult(
            request=placed.wanted,
            outcome=failed.outcome if failed else came_to,
            changed=came_to.changed,
            host=placed.host,
            vm=placed.found.name,
            error=failed,
            before=before.domain(uuid) if before else None,
            after=end.after.domain(uuid) if end else None,
            row=end.rows.get((uuid, placed.wanted.slot)) if end else None,
            findings=plan.findings if plan else (),
        )

    def _judged(self, slots: Sequence[SlotResult]) -> tuple[SlotResult, ...]:
        """The same results, after checking whether a profile that a host lacks exists anywhere."""
        missing = MissingProfiles(self._context)
        found: list[SlotResult] = []
        for slot in slots:
            profile, error = slot.request.profile, slot.error
            if isinstance(error, errors.ProfileNotHere) and slot.host is not None and profile is not None:
                judged = missing.judge(self._context.inventory.hosts[slot.host], profile, error)
                found.append(replace(slot, error=judged, outcome=judged.outcome))
            else:
                found.append(slot)
        return tuple(found)


def _twice(request: SlotRequest) -> errors.UsageError:
    return errors.UsageError(f"{request.vm} slot {request.slot} is named twice", hint="name each slot once")


def _refused(request: SlotRequest, error: errors.VgpumgrError) -> SlotResult:
    """A result from before the host was read."""
    host = names.HostName(error.host) if isinstance(error, errors.HostError) else None
    return SlotResult(request=request, outcome=error.outcome, host=host, vm=request.vm, error=error)


def _nowhere(request: SlotRequest, error: errors.UnknownVm) -> SlotResult:
    """All hosts were queried and none knows the VM, so it has no vGPU. That may be a mistake, so it is reported."""
    text = f"{error.message}, so there is nothing to free" + (f"; {error.hint}" if error.hint else "")
    found = Finding(kind="unknown-vm", host=None, vm=request.vm, slot=request.slot, text=text)
    return SlotResult(request=request, outcome=errors.Outcome.UNCHANGED, vm=request.vm, findings=(found,))
