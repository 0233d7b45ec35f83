# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entries of `vms`: the mistake of one is that one's own, and the others are served."""

from __future__ import annotations

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator


def sound(spec, args):
    """A task's arguments without the entries of `vms` that break the specification; and what is wrong with those.

    The latter by their place in the list: the name, and why. What is no list at all is the task's mistake, and stays.
    """
    vms = args.get("vms")
    if not isinstance(vms, list) or "vms" not in spec["argument_spec"]:
        return args, {}
    one = ArgumentSpecValidator({"vms": spec["argument_spec"]["vms"]})
    mistakes = {}
    for at, entry in enumerate(vms):
        result = one.validate({"vms": [entry]})
        if result.error_messages:
            kind = "unsupported parameter: " if result.unsupported_parameters else ""
            mistakes[at] = (_label(entry, at), kind + result.error_messages[-1].replace(" found in vms", ""))
    return {**args, "vms": [entry for at, entry in enumerate(vms) if at not in mistakes]}, mistakes


def read(task, mistakes, wanted):
    """Each entry's request, in the order of the list; the result for an entry that cannot be read.

    `wanted` makes a request from a task and an entry. Both entries of a slot named twice are refused.
    """
    from vgpumgr.errors import UsageError, VgpumgrError

    rows = iter(task["vms"] or [])
    requests = []
    for at in range(len(task["vms"] or []) + len(mistakes)):
        if at in mistakes:
            name, why = mistakes[at]
            place = f"vms[{at}]"
            requests.append(_refused(name, task["slot"], UsageError(why if name == place else f"{place}: {why}")))
            continue
        entry = next(rows)
        try:
            requests.append(wanted(task, entry))
        except VgpumgrError as error:
            slot = task["slot"] if entry["slot"] is None else entry["slot"]
            requests.append(_refused(_label(entry, at), slot, error))
    return _each_once(requests)


def _each_once(requests):
    from vgpumgr.core.slot.request import SlotRequest
    from vgpumgr.errors import UsageError

    keys = [(row.vm, row.slot, row.on) for row in requests if isinstance(row, SlotRequest)]
    twice = {key for key in keys if keys.count(key) > 1}
    return [
        _refused(row.vm, row.slot, UsageError(f"{row.vm} slot {row.slot} is named twice", hint="name each slot once"))
        if isinstance(row, SlotRequest) and (row.vm, row.slot, row.on) in twice
        else row
        for row in requests
    ]


def _refused(name, slot, error):
    """The result of a request that could not be read."""
    from vgpumgr.controller.requests import SlotResult
    from vgpumgr.core.slot.request import SlotRequest

    request = SlotRequest(vm=name, slot=str(slot), wish=None)
    return SlotResult(request=request, outcome=error.outcome, vm=name, error=error)


def _label(entry, at):
    """What a person knows an entry by."""
    name = entry.get("name") if isinstance(entry, dict) else None
    return str(name) if name else f"vms[{at}]"
