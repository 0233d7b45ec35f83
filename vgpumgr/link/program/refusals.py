"""Turns the host program's answers other than `ok` into our errors. Pure; the quoted texts are the host's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vgpumgr.core.driver import log_lines, refusals
from vgpumgr.core.model.view import CANNOT_TELL
from vgpumgr.errors import (
    BlockedWrite,
    Busy,
    HostDeadline,
    InUse,
    LeaseLost,
    LedgerBroken,
    LedgerUnwritable,
    NotAllowed,
    NvmlRefused,
    ProgramFailed,
    RefusedPlan,
    StalePlan,
    StillEnding,
    SysfsRefused,
    ToolRefused,
)
from vgpumgr.host.protocol import session
from vgpumgr.host.protocol.ledger import LEDGER_PATH
from vgpumgr.host.protocol.steps import (
    ATTACH_DEVICE,
    DETACH_DEVICE,
    PLUG_DEVICE,
    SET_METADATA,
    START_DOMAIN,
    UNPLUG_DEVICE,
)
from vgpumgr.link.host_text import clean, disk_hint
from vgpumgr.link.program import libvirt_refusals
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import HostName

_MOST_LINES = 20
_CHANGES = {
    SET_METADATA: "write the claim",
    ATTACH_DEVICE: "attach the device",
    DETACH_DEVICE: "detach the device",
    PLUG_DEVICE: "give the device to the running VM",
    UNPLUG_DEVICE: "take the device from the running VM",
    START_DOMAIN: "start the VM",
}
_RESET = "--gpu-reset"
_UNKNOWN_CODE = 999  # NVML_ERROR_UNKNOWN
_AGAIN = "run the same command again: it reads the host again and continues from there"


def translate(host: HostName, err: dict[str, Any]) -> VgpumgrError:
    """The error for one `err` object of the protocol."""
    error = _translate(host, err)
    error.details = (*_logged(err.get("log")), *error.details)
    return error


def _logged(value: object) -> Iterator[str]:
    """The lines of the host's logs since the step began. A line whose meaning we know is followed by its meaning."""
    for line in _lines(value):
        meaning = log_lines.meaning(line)
        yield line if meaning is None else say("{} ({})", line, meaning)


def _translate(host: HostName, err: dict[str, Any]) -> VgpumgrError:
    kind, text = err["kind"], clean(err.get("message"))
    path, errno_name = clean(err.get("path")), clean(err.get("errno"))
    match kind:
        case session.LOCKED | session.NOT_LOCKED:
            return _of_lock(host, kind, text, err)
        case session.LEDGER_BROKEN | session.LEDGER_UNWRITABLE:
            return _of_ledger(host, kind, text, err)
        case session.CHANGED:
            return StalePlan(
                text or "the host changed since it was observed", host=host, hint=_AGAIN, details=_found(err)
            )
        case session.IN_USE:
            holders = _lines(err.get("holders"))
            return InUse(
                text or "the vGPU is in use", host=host, details=holders, hint=_let_go(holders, clean(err.get("vm")))
            )
        case session.NOT_YET | session.BLOCKED_WRITE:
            return _of_wait(host, kind, text, err)
        case session.SYSFS_REFUSED:
            likely = refusals.explain(path, errno_name, host, logged=bool(err.get("log")))
            return SysfsRefused(
                host,
                text or f"{path}: {errno_name}",
                path=path,
                errno_name=errno_name,
                details=_ranked(likely.causes),
                hint=likely.hint,
            )
        case session.NVML_REFUSED | session.TOOL_REFUSED:
            return (_nvml_refused if kind == session.NVML_REFUSED else _tool_refused)(host, text, err)
        case session.LIBVIRT_REFUSED:
            return _libvirt_refused(host, text, err)
        case session.DEADLINE:
            return HostDeadline(
                host,
                "program",
                text or f"{path}: the write did not return in time",
                hint=say("`{}` shows what it waits for, and what to do", Command("vgpumgr", "discover", host)),
            )
        case _:
            return _rare(host, clean(kind), text, path, errno_name)


def _of_wait(host: HostName, kind: str, text: str, err: dict[str, Any]) -> VgpumgrError:
    if kind == session.NOT_YET:
        return StillEnding(
            text or "the vGPU may still be held",
            host=host,
            details=_lines(err.get("waits_for")),
            hint="nothing was written; once that has ended, run the same command again",
        )
    return BlockedWrite(
        text or "an earlier write to this GPU has not returned",
        host=host,
        hint=say("`{}` shows what holds it, and what to do", Command("vgpumgr", "discover", host)),
    )


def _of_lock(host: HostName, kind: str, text: str, err: dict[str, Any]) -> VgpumgrError:
    if kind == session.NOT_LOCKED:
        return LeaseLost(host, f"the host's lock is no longer ours: {text or 'not locked'}", hint=_AGAIN)
    owner, mode = clean(err.get("owner")), clean(err.get("mode"))
    if mode and not owner:
        return Busy(
            host,
            f"locked by an unknown process; the lock file {session.LOCK_PATH} has mode {mode} there, "
            "so any user of that host can hold the lock",
            hint=f"on that host: chmod 700 {session.LOCK_PATH}, and `fuser -v {session.LOCK_PATH}` as root",
        )
    return Busy(host, f"locked by {owner or 'another run'}", hint="try again when it has finished")


def _of_ledger(host: HostName, kind: str, text: str, err: dict[str, Any]) -> VgpumgrError:
    path = clean(err.get("path")) or LEDGER_PATH
    if kind == session.LEDGER_UNWRITABLE:
        return unwritable(host, path, clean(err.get("errno")), text, written=err.get("written") is True)
    return LedgerBroken(
        host,
        text or f"the ledger {path} cannot be read",
        hint=f"nothing on this host is changed until {path} is repaired or restored",
    )


def _rare(host: HostName, kind: str, text: str, path: str, errno_name: str) -> VgpumgrError:
    """The error of an answer that only an installation gives, or only a broken or foreign host program."""
    match kind:
        case session.NOT_ROOT:
            what = text or "the host program does not run as root"
            return ProgramFailed(host, what, hint="ansible_user: root, or ansible_become: true")
        case session.NO_HOOK:
            install = Command("vgpumgr", "host", "install", host)
            what = "libvirt has no hook that makes a vGPU when its VM starts (vgpumgr_lazy)"
            return RefusedPlan(
                what, host=host, details=(text,), hint=say("`{}` installs it; then attach again", install)
            )
        case session.LAZIES:
            way = say("detach them first: `{}` shows them", Command("vgpumgr", "list", host))
            return RefusedPlan(f"nothing was removed: {text}", host=host, hint=way)
        case session.PINNED_HERE:
            return NotAllowed(say("{}: {}", host, text), hint="use a login with full rights on that host")
        case session.UNWRITABLE:
            return ProgramFailed(host, f"nothing can be installed there: {text}", hint=disk_hint(errno_name, path))
        case session.INTERNAL | session.BAD_REQUEST:
            return ProgramFailed(host, f"the host program answered {kind}: {text}", hint="this is a bug: report it")
        case _:
            return foreign(host, f"the host program answered {kind}: {text}")


def foreign(host: HostName, what: str) -> ProgramFailed:
    """The error for an answer that the host program of the greeted version never gives: something answers for it."""
    return ProgramFailed(
        host,
        what,
        hint=say(
            "something on {} answers in place of vgpumgr's own program, or has changed it: see `{}`",
            host,
            Command("vgpumgr", "host", "status", host),
        ),
    )


def _let_go(holders: tuple[str, ...], vm: str) -> str:
    """What to do about the holders of a vGPU: shut down the VM, but only if every line names it and nothing else.

    A line that begins with `cannot tell` names nothing that could be shut down.
    """
    if holders and all(line.startswith(CANNOT_TELL) for line in holders):
        return "fix that first: a vGPU whose use cannot be determined counts as in use"
    is_vm_alone = bool(vm) and all(line.endswith(f"({vm})") or line == f"{vm} runs on it" for line in holders)
    first = f"shut {vm} down first" if is_vm_alone and holders else "stop the process that holds it first"
    return f"{first}; nothing in use is ever removed"


def unwritable(
    host: HostName, path: str, errno_name: str, said: str = "", *, written: bool = False
) -> LedgerUnwritable:
    """The error for a ledger that cannot be written. `said`: the host program's own words, with errno and path."""
    return LedgerUnwritable(
        host,
        (said or f"cannot write to {path}, which holds the ledger: {errno_name}")
        + ("" if written else "; this step changed nothing there"),
        path=path,
        errno_name=errno_name,
        written=written,
        hint=disk_hint(errno_name, path),
    )


def _ranked(causes: Sequence[str]) -> list[str]:
    """The possible causes as details, likeliest first: each begins with `likely` or `less likely`."""
    return [f"{'less likely' if at else 'likely'}: {cause}" for at, cause in enumerate(causes)]


def _nvml_refused(host: HostName, text: str, err: dict[str, Any]) -> NvmlRefused:
    function, code = clean(err.get("function")), err.get("code")
    if type(code) is not int:
        code = _UNKNOWN_CODE
    likely = refusals.explain_nvml(code, host, function, logged=bool(err.get("log")))
    return NvmlRefused(
        host,
        text or f"{function}: NVML {code}",
        function=function,
        code=code,
        details=_ranked(likely.causes),
        hint=likely.hint,
    )


def _tool_refused(host: HostName, text: str, err: dict[str, Any]) -> ToolRefused:
    command = clean(err.get("command"))
    return ToolRefused(
        host,
        text or f"{command}: it failed",
        command=command,
        details=_lines(str(err.get("output") or "").splitlines()),
        hint=_hint_of_tool(host, command),
    )


def _hint_of_tool(host: HostName, command: str) -> str | None:
    if _RESET in command:
        return f"on {host}, end what holds the GPU, or do what nvidia-smi asks for; then run the same command again"
    return f"on {host}, `{command}` may tell more; then run the same command again" if command else None


def _libvirt_refused(host: HostName, text: str, err: dict[str, Any]) -> VgpumgrError:
    code = err.get("code")
    return libvirt_refusals.translate(
        host,
        clean(err.get("why")),
        text,
        code=code if type(code) is int else 0,
        what=_CHANGES.get(clean(err.get("verb")), "change the definition"),
        begun=err.get("begun") is not False,
    )


def _found(err: dict[str, Any]) -> tuple[str, ...]:
    """What was expected and what was found, unless the message has it already."""
    message = clean(err.get("message"))
    texts = {key: clean(err[key]) for key in ("expected", "found") if err.get(key) is not None}
    return () if all(text in message for text in texts.values()) else tuple(f"{key}: {texts[key]}" for key in texts)


def _lines(value: object) -> tuple[str, ...]:
    """A host's list for a message, limited in length as well."""
    if not isinstance(value, list):
        return ()
    more = (f"and {len(value) - _MOST_LINES} more",) if len(value) > _MOST_LINES else ()
    return (*(clean(line) for line in value[:_MOST_LINES]), *more)
