"""Why something else came in place of the host program's greeting, and what to do about it. Pure.

A login is more than a command. sshd may run another command (ForceCommand, command= in authorized_keys). The user's
shell, which runs it, may be no shell, run a login script first, or find no Python. None of that is an SSH error.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from vgpumgr.errors import HostDeadline, NotStarted
from vgpumgr.link.deadlines import humanize
from vgpumgr.link.host_text import clean, lines, quote
from vgpumgr.link.program import become, bootstrap, dispatched
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.errors import HostError

_STAGE: Final = "program"
_SIGNALS: Final = range(129, 193)  # the exit statuses by which a shell reports them
_OFF: Final = 254  # the exit status if sshd itself reads /etc/nologin
_TRACEBACK: Final = "Traceback (most recent call last)"


class Instead(NamedTuple):
    """What came in place of the greeting.

    `printed`: its output; `said`: its stderr. `status` None: it has not ended, or was killed. `forced_by`: where a
    forced command for our key is set, if sshd has said so.
    """

    printed: bytes
    said: Sequence[str]
    status: int | None
    forced_by: str | None


class _Trouble(NamedTuple):
    """What is wrong, and what to do. `{user}` stands for the login's name."""

    what: str
    hint: str


_SHELL: Final = "`usermod -s /bin/sh {user}` there, or name another user in the inventory (ansible_user)"
_BY_WORDS: Final = (
    (
        re.compile(r"[Tt]his account is currently not available"),
        _Trouble("the login shell of {user} is nologin, which runs nothing", _SHELL),
    ),
    (
        re.compile(r"Password change required but no TTY"),
        _Trouble(
            "the password of {user} has expired, and sshd runs nothing before it is changed",
            "there: `passwd {user}`; for a user that logs in by key alone: `chage -d $(date +%F) -M -1 {user}`",
        ),
    ),
)
_BY_STATUS: Final = {
    bootstrap.TOO_OLD: _Trouble(
        "no Python 3.9 or newer on this host",
        "install it there: apt-get install python3, or dnf install python3.9 (RHEL 8)",
    ),
    bootstrap.CUT_SHORT: _Trouble(
        "a login script of {user} reads the input for the host program",
        "a `read`, a menu or `cat` in ~/.bashrc there? Let it do so on a terminal only: [ -t 0 ] && …",
    ),
    _OFF: _Trouble(
        "nobody but root may log in now",
        "the host is being started or shut down; if it is not: rm /etc/nologin there",
    ),
}
_ANOTHER: Final = "something other than the host program answers the login"
_OWN_KEY: Final = "give vgpumgr a key of its own, whose line in that file has no command= but the dispatcher's (`vgpumgr docs logins`)"
_CAUSES: Final = (
    "a ForceCommand in its sshd_config (as root there: sshd -T -C user={user} | grep -i forcecommand)",
    "the login shell (getent passwd {user}: /bin/false?), or a login script that ends or replaces it (~/.bashrc: exit, exec)",
)


def failure(endpoint: Endpoint, instead: Instead) -> HostError | None:
    """The error for a login that ended or printed too much before the greeting; None if our program ended."""
    refusal: HostError | None = dispatched.failure(endpoint, instead.said)
    if refusal is None and endpoint.become:
        refusal = become.failure(endpoint, instead.status, instead.said, is_forced=instead.forced_by is not None)
    if refusal is not None:
        return refusal
    texts = _texts(instead)
    cause = _recognise(instead, texts)
    if cause is not None:
        return _not_started(endpoint, cause.what, cause.hint, texts)
    if endpoint.is_local or _is_own(instead):
        return None
    if instead.forced_by is not None:
        what = f"{_forced(instead.forced_by)}, which printed {_how_much(instead)}"
        return _not_started(endpoint, what, _OWN_KEY, texts)
    what = f"{_ANOTHER} of {{user}}: it printed {_how_much(instead)}"
    return _not_started(endpoint, what, _see(endpoint), texts, causes=_CAUSES)


def late(endpoint: Endpoint, instead: Instead, seconds: float) -> HostDeadline:
    """The error for a login that goes on, but sent no greeting within that time."""
    texts, within = _texts(instead), humanize(seconds)
    causes: Sequence[str] = ()
    hint = _OWN_KEY
    if instead.forced_by is not None:
        what = say("{}, and no greeting came within {}", _forced(instead.forced_by), within)
    elif instead.printed:
        what = say("{} of {}: text of its own, and no greeting within {}", _ANOTHER, endpoint.user, within)
        hint, causes = _see(endpoint), _CAUSES
    else:
        what = say("no answer within {}", within)
        hint = say("{}; a larger {} waits longer", _waiting(endpoint), Option("--timeout"))
    return HostDeadline(endpoint.host, _STAGE, what, hint=hint, details=_details(endpoint, causes, texts))


def _recognise(instead: Instead, texts: Sequence[str]) -> _Trouble | None:
    for says, trouble in _BY_WORDS:
        if any(says.search(text) for text in texts):
            return trouble
    return None if instead.status is None else _BY_STATUS.get(instead.status)


def _forced(place: str) -> str:
    return f"{clean(place)} forces a command upon our key"


def _how_much(instead: Instead) -> str:
    if instead.status is None:
        return "text without end"
    what = "text of its own" if instead.printed or instead.said else "nothing"
    return f"{what} and ended with exit status {instead.status}"


def _waiting(endpoint: Endpoint) -> str:
    """What may take so long."""
    if endpoint.is_local:
        return "this machine is overloaded" + (", or sudo waits" if endpoint.become else "")
    what = "a forced command, a login script or sudo" if endpoint.become else "a forced command or a login script"
    return f"the host hangs or is overloaded, or {what} waits there: {_try(endpoint)} shows it"


def _see(endpoint: Endpoint) -> str:
    return f"it is right once {_try(endpoint)} prints nothing and ends with 0"


def _try(endpoint: Endpoint) -> str:
    """A command that shows what the login does."""
    way = f" -J {shlex.quote(','.join(map(str, endpoint.jumps)))}" if endpoint.jumps else ""
    key = f" -i {shlex.quote(endpoint.key_file)}" if endpoint.key_file else ""
    return f"`ssh{way}{key} -p {endpoint.port} {shlex.quote(f'{endpoint.user}@{endpoint.address}')} true`"


def _is_own(instead: Instead) -> bool:
    """Whether our own program ended: it was killed, or Python raised an exception."""
    if instead.printed:
        return False
    return instead.status is None or instead.status in _SIGNALS or any(_TRACEBACK in line for line in instead.said)


def _texts(instead: Instead) -> list[str]:
    return [*lines(instead.printed), *lines("\n".join(instead.said))]


def _not_started(
    endpoint: Endpoint, what: str, hint: str, texts: Sequence[str] = (), *, causes: Sequence[str] = ()
) -> NotStarted:
    return NotStarted(
        endpoint.host,
        _STAGE,
        _named(what, endpoint),
        hint=_named(hint, endpoint),
        details=_details(endpoint, causes, [text for text in texts if text not in what]),
    )


def _details(endpoint: Endpoint, causes: Sequence[str], texts: Sequence[str]) -> list[str]:
    return [*(f"likely: {_named(cause, endpoint)}" for cause in causes), *quote(texts)]


def _named(text: str, endpoint: Endpoint) -> str:
    return text.replace("{user}", endpoint.user)
