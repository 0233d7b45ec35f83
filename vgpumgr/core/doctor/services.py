"""Illnesses of what runs on the host: NVIDIA's units, and what `host install` left there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.core.evidence import fabric
from vgpumgr.core.model.installation import State
from vgpumgr.wording import Command, Own, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.doctor.case import Case
    from vgpumgr.core.doctor.illness import Illness, Severity
    from vgpumgr.core.model.symptoms import Unit

_FABRIC: Final = "nvidia-fabricmanager"
_MANAGER: Final = "nvidia-vgpu-mgr"
_CLOCKS_S: Final = 60
_NEEDED: Final = ("nvidia-vgpud", _MANAGER, _FABRIC)


def units(case: Case) -> Iterator[Illness]:
    """Units that have failed, do not run, or will not start at the next boot (systemd.unit(5)).

    nvidia-vgpud ends once it has made the types. Where there is no NVSwitch, Fabric Manager fails when it is started.
    """
    on_fabric = any(fabric.is_on_one(case.facts, gpu) for gpu in case.facts.gpus)
    for unit in (found for name in _NEEDED if (found := case.symptoms.unit(name)) is not None):
        name, masked = unit.name, unit.file.startswith("masked")
        if name == _FABRIC and not on_fabric:
            continue
        if unit.active == "failed" or (name == _MANAGER and unit.active != "active"):
            start = [*([_unmask(unit)] if masked else []), Command("systemctl", "restart", name)]
            ways = joined(" and ", (say("`{}`", way) for way in start))
            mend = say("{} on {}; its journal says why it ended", ways, case.host)
            yield case.ill("unit", say("{} of {} {}", name, case.host, _state(unit)), f"systemctl show {name}", mend)
        elif masked or unit.file == "disabled":
            what = say("{} of {} is {}: it does not start at the next boot", name, case.host, unit.file)
            mend = say("`{}` on {}", _unmask(unit) if masked else Command("systemctl", "enable", name), case.host)
            yield case.ill("unit-off", what, f"systemctl show {name}", mend)


def _unmask(unit: Unit) -> Command:
    """It starts nothing, even with --now, and leaves a mask of --runtime without that (tried with systemd 252)."""
    return Command("systemctl", "unmask", *(("--runtime",) if unit.file == "masked-runtime" else ()), unit.name)


def _state(unit: Unit) -> str:
    if unit.file.startswith("masked"):
        return "is masked"
    return "has failed" if unit.active == "failed" else f"is {unit.active}"


def installation(case: Case) -> Iterator[Illness]:
    """What is installed is damaged, or its restore after the last boot did not bring everything back."""
    found, restore = case.installation, case.installation.restore
    if found.state is State.BROKEN or (found.state is State.OUTDATED and restore is not None):
        what = say("vgpumgr's files on {} are {}", case.host, joined(": ", [found.state, *found.problems]))
        mend = say("`{}` with a login that has full rights", Command("vgpumgr", "host", "install", case.host))
        severity: Severity = "critical" if found.state is State.BROKEN else "warning"
        yield case.ill("installation", what, "/opt/vgpumgr-host", mend, severity=severity)
    missing = [one for one in restore.vgpus if one.missing is not None] if restore else []
    if restore is not None and (restore.problem or missing):
        lacks = joined("; ", [say("{} {}: {}", one.vm_name, one.slot, one.missing) for one in missing])
        what = say("the restore after the last boot of {} was incomplete: {}", case.host, restore.problem or lacks)
        mend = say("`{}`", Command("vgpumgr", "reconcile", case.host, "--start"))
        yield case.ill("restore", what, "/var/lib/vgpumgr/restored.json", mend)


def clock(case: Case) -> Iterator[Illness]:
    """A clock that is more than a minute off the controller's, beyond the time that the answer took."""
    off_s = round(case.ahead_s)
    if abs(off_s) > _CLOCKS_S:
        what = say(
            "the clock of {} is {} the controller's",
            case.host,
            Own(f"{abs(off_s)} s {'ahead of' if off_s > 0 else 'behind'}"),
        )
        mend = say(
            "`{}` on {}; compare this machine's clock, too", Command("timedatectl", "set-ntp", "true"), case.host
        )
        yield case.ill("clock", what, "the time of each, read at the same moment", mend)
