"""Illnesses of what runs on the host: NVIDIA's units, and what `host install` left there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.core.evidence import fabric
from vgpumgr.core.model.installation import State
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.doctor.case import Case
    from vgpumgr.core.doctor.illness import Illness
    from vgpumgr.core.model.symptoms import Unit

_FABRIC: Final = "nvidia-fabricmanager"
_HARM: Final = {
    "nvidia-vgpud": "the driver offers no types, so there are no vGPUs",
    "nvidia-vgpu-mgr": "no VM starts with a vGPU",
    _FABRIC: "CUDA does not start in guests with whole GPUs of an NVSwitch board",
}
_DAEMONS: Final = ("nvidia-vgpu-mgr",)  # nvidia-vgpud ends once it has made the types


def units(case: Case) -> Iterator[Illness]:
    """Units that have failed, do not run, or will not start at the next boot (systemd.unit(5)).

    Where there is no NVSwitch, Fabric Manager fails whenever it is started.
    """
    on_fabric = any(fabric.is_on_one(case.facts, gpu) for gpu in case.facts.gpus)
    for name, harm in _HARM.items():
        unit = case.symptoms.unit(name)
        if unit is None or (name == _FABRIC and not on_fabric):
            continue
        masked = unit.file.startswith("masked")
        if unit.active == "failed" or (name in _DAEMONS and unit.active != "active"):
            yield case.illness(
                "unit",
                "critical",
                what=say("{} of {} {}", name, case.host, _state(unit)),
                evidence=f"systemctl show {name}",
                harm=harm,
                mend=say("`{}` on {}; its journal says why it ended", Command("systemctl", "restart", name), case.host)
                if not masked
                else say("`{}` on {}", Command("systemctl", "unmask", "--now", name), case.host),
            )
        elif masked or unit.file == "disabled":
            yield case.illness(
                "unit-off",
                "warning",
                what=say("{} of {} is {}: it does not start at the next boot", name, case.host, unit.file),
                evidence=f"systemctl show {name}",
                harm=say("after the next boot {}", harm),
                mend=say("`{}` on {}", Command("systemctl", "unmask" if masked else "enable", name), case.host),
            )


def installation(case: Case) -> Iterator[Illness]:
    """What is installed is damaged, or its restore after the last boot did not bring everything back."""
    found = case.installation
    again = Command("vgpumgr", "host", "install", case.host)
    if found.state is State.BROKEN or (found.state is State.OUTDATED and found.restore is not None):
        yield case.illness(
            "installation",
            "critical" if found.state is State.BROKEN else "warning",
            what=say("vgpumgr's files on {} are {}{}", case.host, found.state, _why(found.problems)),
            evidence="/opt/vgpumgr-host",
            harm="a confined login runs nothing, and after a boot no vGPU may be restored",
            mend=say("`{}` with a login that has full rights", again),
        )
    restore = found.restore
    missing = [one for one in restore.vgpus if one.missing is not None] if restore else []
    if restore is not None and (restore.problem or missing):
        lacks = joined("; ", [say("{} {}: {}", one.vm_name, one.slot, one.missing) for one in missing])
        yield case.illness(
            "restore",
            "warning",
            what=say("the restore after the last boot of {} was incomplete: {}", case.host, restore.problem or lacks),
            evidence="/var/lib/vgpumgr/restored.json",
            harm="VMs that start with the host may lack their vGPUs",
            mend=say("`{}`", Command("vgpumgr", "reconcile", case.host, "--start")),
        )


def _state(unit: Unit) -> str:
    if unit.file.startswith("masked"):
        return "is masked"
    return "has failed" if unit.active == "failed" else f"is {unit.active}"


def _why(problems: tuple[str, ...]) -> str:
    return f": {'; '.join(problems)}" if problems else ""
