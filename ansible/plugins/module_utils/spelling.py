# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vgpumgr's messages in Ansible's words: `--gpu-id` is `gpu_id:`, and `vgpumgr attach …` a task of module vgpu.

A message has its options and commands as values (vgpumgr/wording.py). A command that no module has (`virsh edit vm01`,
`vgpumgr uncordon kvm01`) stays as it is: it is typed in a shell.
"""

from __future__ import annotations

_KEYS = {
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
    "--reservation": "reservation",
    "--confirm-destroys": "confirm_destroys",
    "-i/--inventory": "inventory",
    "--inventory": "inventory",
    "--group": "group",
    "--timeout": "timeout",
    "--policy": "policy",  # for a GPU; in the inventory also the scheduler of one
    "--time-slice": "time_slice",  # the same, as the next two
    "--frequency": "frequency",
    "--averaging-factor": "averaging_factor",
}
_SWITCHES = {
    "--usable": ("usable", "true"),
    "--wait": ("wait", "true"),
    "--replace": ("replace", "always"),
    "--keep-snapshots": ("keep_snapshots", "true"),
    "--even-if-it-will-not-start": ("even_if_it_will_not_start", "true"),
}


def in_words_of_ansible(value):
    """A result in which every message is said in Ansible's words; data stay as they are."""
    from vgpumgr.wording import Command, Message, Option

    if isinstance(value, Message):
        return value.told(_told)
    if isinstance(value, (Command, Option)):
        return _told(value)
    if isinstance(value, dict):
        return {key: in_words_of_ansible(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_words_of_ansible(item) for item in value]
    return value


def _told(value):
    from vgpumgr.wording import Command, Option

    if isinstance(value, Option):
        return _of_option(value)
    return _of_command(value) if isinstance(value, Command) else value


def _of_option(option):
    if option.name in _KEYS:
        return f"`{_KEYS[option.name]}:`" if option.value is None else f"`{_KEYS[option.name]}: {option.value}`"
    if option.name in _SWITCHES:
        return "`{}: {}`".format(*_SWITCHES[option.name])
    return option


def _of_command(command):
    """A command as a task, if one of the modules does it."""
    program, verb, *words = command.words
    if program == "vgpumgr" and verb in ("attach", "detach") and words:
        task = _of_vgpu(verb, words)
        return command if task is None else f"vgpumgr.kvm.vgpu: {_flow(task)}"
    if (program, verb, *words[:1]) == ("vgpumgr", "reconcile", "--confirm-destroys"):
        return f"vgpumgr.kvm.vgpu_reconcile: {{confirm_destroys: {words[1]}}}"
    return command


def _of_vgpu(verb, words):
    """The options of module vgpu that do the same; None if it has one for which there is none.

    `detach` without a slot frees the only one, whatever its name is; the module needs the name.
    """
    task = {}
    rest = iter(words)
    for word in rest:
        if word in _KEYS:
            task[_KEYS[word]] = next(rest, None)
        elif word in _SWITCHES:
            key, value = _SWITCHES[word]
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
