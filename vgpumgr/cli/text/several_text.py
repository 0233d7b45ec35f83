"""What a command about several VMs prints: each kind of error once, with the VMs that have it, and a last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.cli.text import alike, words
from vgpumgr.cli.text.tally import tally
from vgpumgr.errors import Outcome
from vgpumgr.wording import say, values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vgpumgr.controller.requests import RequestsResult, SlotResult
    from vgpumgr.controller.results import FleetPlan
    from vgpumgr.names import HostName

PARTIAL = "--partial"


def errors_of(result: RequestsResult) -> Iterator[errors.VgpumgrError]:
    """One error for each kind, with its text about each VM. VMs that were only held back have none."""
    vms = len({slot.vm for slot in result.slots})
    kinds: dict[type[errors.VgpumgrError], list[SlotResult]] = {}
    for slot in result.failed:
        if slot.error is not None and not isinstance(slot.error, errors.HeldBack):
            kinds.setdefault(type(slot.error), []).append(slot)
    for slots in kinds.values():
        yield _one_of_kind(slots, f"of {words.counted(vms, 'VM')}")


def _one_of_kind(slots: Sequence[SlotResult], of_all: str) -> errors.VgpumgrError:
    kinds: dict[str, tuple[errors.VgpumgrError, HostName | None, list[str]]] = {}
    for slot in slots:
        if slot.error is not None:
            kinds.setdefault(str(slot.error), (slot.error, slot.host, []))[2].append(slot.vm)
    groups = [(error, host, vms, *alike.within(error)) for error, host, vms in kinds.values()]
    if len(groups) == 1:
        ((only, _, vms, lines, hint),) = groups
        if len(slots) == 1:
            return only
        return errors.VgpumgrError(only.message, details=[*lines, f"not served: {_joined(vms)}"], hint=hint)
    hints = {hint for *_, hint in groups}
    details: list[str] = []
    for error, _, vms, _, hint in groups:
        suffix = "" if set(vms) <= {*values(error.message)} else f" ({_joined(vms)})"
        details.append(say("{}{}{}", error.message, suffix, f"; {hint}" if len(hints) > 1 and hint else ""))
    return errors.VgpumgrError(
        f"{len({slot.vm for slot in slots})} {of_all} cannot be served",
        details=[*details, *_by_host((host, lines) for _, host, _, lines, _ in groups)],
        hint=hints.pop() if len(hints) == 1 else None,
    )


def _by_host(found: Iterable[tuple[HostName | None, Sequence[str]]]) -> Iterator[str]:
    """The lines, each once for its host; with the hosts' names if they are of several."""
    by_host: dict[HostName | None, dict[str, None]] = {}
    for host, lines in found:
        if lines:
            by_host.setdefault(host, {}).update(dict.fromkeys(lines))
    for host, of_host in by_host.items():
        yield from of_host if len(by_host) == 1 else (f"{host}:", *(f"  {line}" for line in of_host))


def _joined(vms: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(vms))


def question(verb: str, fleet: FleetPlan) -> tuple[str, str]:
    """The question, and the error if it cannot be asked."""
    changes = [plan for plan in fleet.plans if plan.changed]
    vms = words.counted(len({one.task.vm for plan in changes for one in plan.tasks if one.steps}), "VM")
    about = f"{vms} on {words.counted(len(changes), 'host')}"
    return f"{verb} {about}?", f"{verb} of {about} needs confirmation"


def closing(result: RequestsResult, elapsed_s: float, *, verb: str, check: bool, undo: str | None) -> str:
    """The last line: the state now, and the next command."""
    slots = result.slots
    vms = words.counted(len({slot.vm for slot in slots}), "VM")
    held_back = sum(isinstance(slot.error, errors.HeldBack) for slot in slots)
    if result.is_held_back:
        advice = f" {held_back} of {len(slots)} could be served: {PARTIAL} does that." if held_back else ""
        return f"nothing was changed.{advice}"
    if check and result.changed:
        return "dry run: nothing was changed (--check)."
    outcomes = [slot.outcome for slot in slots]
    if {*outcomes} == {Outcome.UNCHANGED}:
        have = "have" if len({slot.vm for slot in slots}) > 1 else "has"
        state = f"already {have} what was requested" if verb == "attach" else f"{have} no vGPU of ours there"
        return f"{vms} {state}. Nothing to do."
    hosts = words.counted(len({slot.host for slot in slots} - {None}), "host")
    took_back = f" Undo: {undo}" if undo else ""
    return f"{vms} on {hosts} in {elapsed_s:.1f} s: {tally(outcomes)}.{took_back}"
