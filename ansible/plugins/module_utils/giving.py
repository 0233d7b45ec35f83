# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work of module vgpu: bringing the slots of VMs to the state that a task requests."""

from __future__ import annotations

from ansible_collections.vgpumgr.kvm.plugins.module_utils import entries
from ansible_collections.vgpumgr.kvm.plugins.module_utils.running import diff_of

_OF_THE_WISH = ("profile", "mig_profile", "gpu_memory", "gpu", "fgpu", "series", "usable", "max_waste")


def vgpu(run):
    """Module vgpu."""
    from vgpumgr.controller.requests import apply_requests
    from vgpumgr.core.slot.request import SlotRequest
    from vgpumgr.documents import change as documents

    one = run.params["name"] is not None
    requests = [_wanted(run.params, run.params)] if one else entries.read(run.params, run.mistakes, _wanted)
    answer = apply_requests(run.context(), [row for row in requests if isinstance(row, SlotRequest)], check=run.check)
    run.warnings += [row.text for row in (*answer.findings, *(row for slot in answer.slots for row in slot.findings))]
    results = iter(answer.slots)
    slots = [next(results) if isinstance(row, SlotRequest) else row for row in requests]
    rows = [{**documents.row(slot), "msg": _told(slot)} for slot in slots]
    result = dict(rows[0]) if one else {"changed": answer.changed, "msg": _summary(slots, check=run.check), "vms": rows}
    result.pop("outcome", None)
    result["outcomes"] = list(dict.fromkeys(row["outcome"] for row in rows))
    result["failed"] = any(slot.error is not None for slot in slots)
    if run.diff:
        result["diff"] = _definitions(slots)
    return result


def _wanted(task, entry):
    """One request. Options that a list entry omits come from the task."""
    from vgpumgr import names
    from vgpumgr.core.driver.asking import NO_CONDITIONS
    from vgpumgr.core.slot.request import Replace, SlotRequest
    from vgpumgr.core.slot.reserving import parse_name
    from vgpumgr.errors import UsageError

    # Ansible's own string type carries its origin, which libvirt must not see.
    slot, state, host, gpu, replace, keep, even_if, wait = (
        task[key] if entry[key] is None else entry[key]
        for key in ("slot", "state", "host", "gpu_id", "replace", "keep_snapshots", "even_if_it_will_not_start", "wait")
    )
    policy, reservation = (
        None if value is None else str(value)
        for value in (task[key] if entry[key] is None else entry[key] for key in ("policy", "reservation"))
    )
    if wait and (gpu, policy, reservation, even_if) != (None, None, None, False):
        raise UsageError(
            "wait cannot be combined with gpu_id, policy, reservation and even_if_it_will_not_start",
            hint="what waits is attached later as a plain attach would do it",
        )
    name = names.parse_vm_name(str(entry["name"]))
    wish, conditions = _asked(name, task, entry) if state == "present" else (None, NO_CONDITIONS)
    return SlotRequest(
        vm=name,
        slot=names.parse_slot(str(slot)),
        wish=wish,
        conditions=conditions,
        on=None if host is None else str(host),
        gpu_id=None if gpu is None else str(gpu),
        policy=policy,
        reservation=None if reservation is None else parse_name(reservation),
        replace=Replace(str(replace)),
        keep_snapshots=keep,
        even_if_it_will_not_start=even_if,
        wait=wait,
    )


def _asked(name, task, entry):
    """The wish and its conditions. An entry that asks for something asks alone; one that does not is the task's."""
    from vgpumgr.core.driver import asking
    from vgpumgr.errors import UsageError

    own = any(entry[key] is not None for key in asking.WAYS_TO_ASK)
    options = {
        key: entry[key] if entry[key] is not None or (own and key in _OF_THE_WISH) else task[key]
        for key in (*asking.WAYS_TO_ASK, *asking.OF_AMOUNTS, "compute", "only", "prefer", "param")
    }
    if all(options[key] is None for key in asking.WAYS_TO_ASK):
        raise UsageError(f"{name}: state present needs a profile or an amount", hint="for example profile: 4Q")
    plain = {key: value if isinstance(value, bool) or value is None else str(value) for key, value in options.items()}
    return asking.read(plain, about=name, spelt=str)


def _told(slot):
    """The outcome of one slot, in a sentence."""
    from vgpumgr.documents import error
    from vgpumgr.errors import Outcome

    if slot.error is not None:
        return error.text(slot.error)
    name = f"{slot.vm} slot {slot.request.slot}"
    if slot.row is None:
        messages = {Outcome.DONE: f"{name} is now free", Outcome.WOULD_CHANGE: f"{name} would be freed"}
        return messages.get(slot.outcome, f"{name} has no vGPU")
    where = f"{slot.row.type_name} on {slot.row.vf or slot.row.gpu} of {slot.host}"
    messages = {Outcome.DONE: f"{name} now has {where}", Outcome.WOULD_CHANGE: f"{name} would get {where}"}
    return messages.get(slot.outcome, f"{name} has {where}")


def _summary(slots, *, check):
    """For a list: how many slots changed, and what failed; details that several share are printed once, below them."""
    from vgpumgr.wording import joined, say

    failures = [slot for slot in slots if slot.error is not None]
    changes = sum(slot.changed for slot in slots)
    did = "would change" if check else "changed"
    if not failures:
        return f"{changes or len(slots)} of {len(slots)} slots {did if changes else 'already as requested'}"
    alike = {}
    for slot in failures:
        alike.setdefault((slot.error.details, slot.error.hint), []).append(slot)
    lines = [f"{len(failures)} of {len(slots)} slots failed, {changes} {did}"]
    for (details, hint), group in alike.items():
        lines += [say("{} {}: {}", slot.vm, slot.request.slot, slot.error.message) for slot in group]
        lines += [say("  {}", line) for line in details]
        lines += [say("hint: {}", hint)] if hint else []
    return joined("\n", lines)


def _definitions(slots):
    """For each VM that changes, its definition before and after; and one line for each other slot that failed."""
    from vgpumgr.documents.vms import definition

    pairs, failures = {}, []
    for slot in slots:
        before, after = definition(slot.before), definition(slot.after)
        if slot.after is not None and (slot.changed or before != after):
            pairs.setdefault((slot.host, slot.vm), (before, after))
        elif slot.error is not None:
            failures.append(slot)
    return [
        *(diff_of(f"{vm} on {host}", before, after) for (host, vm), (before, after) in pairs.items()),
        *({"prepared": f"{slot.vm} slot {slot.request.slot}: {_left(slot)}\n"} for slot in failures),
    ]


def _left(slot):
    """What became of a slot that failed."""
    return "stays as it is" if slot.after is not None or slot.before is None else "what it has now is not known"
