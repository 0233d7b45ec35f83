"""attach and detach of several VMs: their common run. The commands themselves are in change.py."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from functools import partial as bound
from typing import TYPE_CHECKING

from vgpumgr.cli.params import asking, plan_files, several, wishes
from vgpumgr.cli.rows import fleet_result, printing, vgpus
from vgpumgr.cli.text import fleet_text, output, several_text
from vgpumgr.cli.wiring import build_context
from vgpumgr.controller import together
from vgpumgr.core.slot.request import Replace
from vgpumgr.errors import Outcome, VmNotSeen, worst_exit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.requests import RequestsResult, SlotResult
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.slot.request import SlotRequest


def attach(
    settings: Settings,
    vms: Sequence[str],
    file: str | None,
    asked: Mapping[str, str | bool | None],
    each: SlotRequest,
    *,
    partial: bool,
    out: str | None,
    plan_file: str | None,
) -> int:
    """Attach a vGPU to every VM by one wish, or to each slot by the file. `each`: every request's other options."""
    asks = each.replace is Replace.ALWAYS or each.live
    if file is None:
        wish, conditions = wishes.read("attach", asked)
        vm_requests = _named(vms, replace(each, wish=wish, conditions=conditions))
        options = together.TogetherOptions(requests=vm_requests, partial=partial, asks=asks)
        return _run(settings, "attach", options, tuple(vms), out=out, plan_file=plan_file)
    several.guard_alone({**asked, "slot": each.slot, "count": each.count, "gpu_id": each.gpu_id, "policy": each.policy})
    file_requests, findings = several.read_file(file)
    requests = [
        replace(
            each,
            vm=vm.name,
            slot=one.slot,
            wish=one.wish,
            conditions=one.conditions,
            gpu_id=one.gpu_id,
            policy=one.policy,
        )
        for vm in file_requests
        for one in vm.slots.values()
    ]
    options = together.TogetherOptions(requests=requests, partial=partial, asks=asks, findings=findings)
    again = None if file == several.STDIN else ("-f", file)
    return _run(settings, "attach", options, again, out=out, plan_file=plan_file)


def detach(
    settings: Settings,
    vms: Sequence[str],
    file: str | None,
    each: SlotRequest,
    *,
    partial: bool,
    out: str | None,
    plan_file: str | None,
) -> int:
    """Free the slots that `each` names on every VM, or the slots of the file."""
    context: Context | None = None
    if file is None:
        vm_requests: list[SlotRequest] = []
        if several.are_wild(vms):
            from vgpumgr.controller import report
            from vgpumgr.core.inventory.choice import choose_vms

            context = build_context(settings)
            vm_requests = [replace(each, vm=name) for name in report.owners(context, choose_vms(vms), each.on)]
        options = together.TogetherOptions(requests=vm_requests or _named(vms, each), partial=partial, asks=True)
    else:
        several.guard_alone({"slot": each.slot, "every": each.every})
        file_requests, findings = several.read_file(file)
        requests = [replace(each, vm=vm.name, slot=slot) for vm in file_requests for slot in vm.slots]
        options = together.TogetherOptions(requests=requests, partial=partial, asks=True, findings=findings)
    return _run(settings, "detach", options, None, out=out, plan_file=plan_file, context=context)


def _named(vms: Sequence[str], each: SlotRequest) -> list[SlotRequest]:
    return [replace(each, vm=name) for name in several.names_of(vms)]


def _run(
    settings: Settings,
    verb: str,
    options: together.TogetherOptions,
    words_again: Sequence[str] | None,
    *,
    out: str | None,
    plan_file: str | None,
    context: Context | None = None,
) -> int:
    """Serve the VMs. `words_again`: the arguments with which detach would name the same VMs; None: it cannot."""
    plan_files.guard_out(settings, out)
    lines = bound(fleet_text.lines, diff=settings.diff)
    sentences, plan = bound(several_text.question, verb), plan_files.read(plan_file)
    consent = asking.consent_to(settings, lines, sentences, kept=plan, given=settings.yes)
    start = time.monotonic()
    result = together.serve_together(context or build_context(settings), options, consent)
    document = _document(settings, result) if out is not None or not settings.for_people else {}
    if out is not None:
        plan_files.write(out, document)
    undo = _undo(result, words_again) if verb == "attach" and words_again is not None else None
    output.print_findings(settings, _findings(result))
    for note in options.findings:
        output.print_warning(settings, str(note))
    if settings.for_people:
        for error in several_text.errors_of(result):
            output.print_error(settings, error)
        elapsed_s = time.monotonic() - start
        output.echo(several_text.closing(result, elapsed_s, verb=verb, check=settings.check, undo=undo))
    else:
        _print(settings, result, document)
    codes = [error.exit_code for error in result.problems]
    return worst_exit([*codes, 3 if settings.check and result.changed else 0])


def _document(settings: Settings, result: RequestsResult) -> dict[str, object]:
    from vgpumgr.documents import change

    return change.together(result, check=settings.check)


def _print(settings: Settings, result: RequestsResult, document: dict[str, object]) -> None:
    from vgpumgr.documents import common

    rows: list[dict[str, object]] = []
    for one in result.slots:
        rows += [common.plain(row) for row in one.rows] or [{"vm": one.vm, "host": one.host}]
    printing.print_rows(settings, vgpus.CHANGE, document, rows)
    suffix = ", so nothing was changed" if result.is_held_back else ""
    output.print_errors(
        settings, result.problems, what=f"VMs or hosts cannot be served{suffix}", hint=fleet_result.COMPLETE
    )


def _findings(result: RequestsResult) -> list[Finding]:
    """The findings for people, without those about unread hosts that an error already names."""
    hosts = {error.host for one in result.problems if isinstance(one, VmNotSeen) for error in one.unread}
    findings = [*(finding for slot in result.slots for finding in slot.findings), *result.findings]
    return [finding for finding in findings if finding.kind != "unreached" or finding.host not in hosts]


def _undo(result: RequestsResult, words_again: Sequence[str]) -> str | None:
    """The detach command for just the new vGPUs. None if no command does that, or a slot may have had a vGPU before."""
    first = result.slots[0].request
    only = _only_these(result.slots, first.count)
    if any(slot.outcome != Outcome.DONE or _had_something(slot.request) for slot in result.slots):
        return None
    on = [] if first.on is None else ["--on", first.on]
    if words_again[0] == "-f":
        return shlex.join(["vgpumgr", "detach", *words_again, *on])
    if first.count > 1 and not only:
        return None
    options = [*(["--all"] if first.count > 1 else [] if only else ["--slot", str(first.slot)]), *on]
    has_dash = any(word.startswith("-") for word in words_again)
    return shlex.join(
        ["vgpumgr", "detach", *([*options, "--", *words_again] if has_dash else [*words_again, *options])]
    )


def _had_something(request: SlotRequest) -> bool:
    return request.replace is Replace.ALWAYS or request.live


def _only_these(slots: Sequence[SlotResult], count: int) -> bool:
    """Whether each VM has no more vGPUs than the `count` that it just got."""
    claims = [slot.after.claims for slot in slots if slot.after is not None]
    return all(one is None or len(one.claims) <= count for one in claims)
