# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vgpumgr's messages in Ansible's words: `--gpu-id` is `gpu_id:`, and `vgpumgr attach …` a task of module vgpu.

A command that no module has (`virsh edit vm01`, `vgpumgr uncordon kvm01`) stays as it is: it is typed in a shell. Our commands
stand between backticks, and an option outside of them is one of the reader's own.
"""

from __future__ import annotations

import re
import shlex

_VALUES = {
    "--profile": "profile",
    "--mig-profile": "mig_profile",
    "--gpu-memory": "gpu_memory",
    "--gpu": "gpu",
    "--fgpu": "fgpu",
    "--series": "series",
    "--max-waste": "max_waste",
    "--compute": "compute",
    "--only": "only",
    "--prefer": "prefer",
    "--param": "param",
    "--slot": "slot",
    "--on": "host",
    "--gpu-id": "gpu_id",
    "--confirm-destroys": "confirm_destroys",
    "-i/--inventory": "inventory",
    "--inventory": "inventory",
    "--group": "group",
    "--timeout": "timeout",
    "--policy": "policy",  # in the inventory: the scheduler of a GPU
    "--time-slice": "time_slice",  # the same, as the next two
    "--frequency": "frequency",
    "--averaging-factor": "averaging_factor",
}
_SWITCHES = {
    "--usable": "usable: true",
    "--replace": "replace: always",
    "--keep-snapshots": "keep_snapshots: true",
    "--even-if-it-will-not-start": "even_if_it_will_not_start: true",
}
_SAID = ("msg", "message", "hint", "details", "text")
_QUOTED = re.compile(r"(`[^`]*`)")
_OPTION = re.compile(
    r"(?<![\w-])(-i/--inventory|--[a-z][a-z-]*[a-z])(?: ((?=[\w.:%-]*[0-9A-Z])\w(?:[\w.:%-]*[\w%])?))?"
)


def in_words_of_ansible(value):
    """A result in which everything that a person reads is said in Ansible's words; data stay as they are."""
    if isinstance(value, dict):
        return {key: _said(item) if key in _SAID else in_words_of_ansible(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_words_of_ansible(item) for item in value]
    return value


def said(text):
    """One text in Ansible's words."""
    parts = _QUOTED.split(text)
    return "".join(_command(part) if at % 2 else _OPTION.sub(_option, part) for at, part in enumerate(parts))


def _said(value):
    if isinstance(value, str):
        return said(value)
    return [_said(item) for item in value] if isinstance(value, (list, tuple)) else value


def _option(found):
    """An option in a sentence, with its value where one follows."""
    name, value = found.groups()
    if name in _VALUES:
        return f"`{_VALUES[name]}: {value}`" if value else f"`{_VALUES[name]}:`"
    if name in _SWITCHES:
        return f"`{_SWITCHES[name]}`" + (f" {value}" if value else "")
    return found.group()


def _command(quoted):
    """A command between backticks as a task, if one of the modules does it."""
    try:
        words = shlex.split(quoted[1:-1])
    except ValueError:  # a quotation mark without its other: no command
        return quoted
    if words[:2] in (["vgpumgr", "attach"], ["vgpumgr", "detach"]) and len(words) > 2:
        task = _of_vgpu(words[1], words[2:])
        return quoted if task is None else f"`vgpumgr.kvm.vgpu: {_flow(task)}`"
    if words[:3] == ["vgpumgr", "reconcile", "--confirm-destroys"]:
        return f"`vgpumgr.kvm.vgpu_reconcile: {{confirm_destroys: {words[3]}}}`"
    return quoted


def _of_vgpu(verb, words):
    """The options of module vgpu that do the same; None if it has one for which there is none.

    `detach` without a slot frees the only one, whatever its name is; the module needs the name.
    """
    task = {}
    rest = iter(words)
    for word in rest:
        if word in _VALUES:
            task[_VALUES[word]] = next(rest, None)
        elif word in _SWITCHES:
            key, value = _SWITCHES[word].split(": ")
            task[key] = value == "true" or value
        elif word == "--":
            task["name"] = next(rest, None)
        elif word.startswith("-") or "name" in task:
            return None
        else:
            task["name"] = word
    if "name" not in task or None in task.values() or (verb == "detach" and "slot" not in task):
        return None
    return {"name": task.pop("name"), **task, **({"state": "absent"} if verb == "detach" else {})}


def _flow(options):
    """Options as YAML on one line, quoted where a reader of YAML would take them for something else."""
    import yaml

    return yaml.safe_dump(options, default_flow_style=True, sort_keys=False, width=10**6).strip()
