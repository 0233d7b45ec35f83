"""What the dispatcher prints if it does not run the host program, and what to do about it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.errors import ProgramFailed
from vgpumgr.host.protocol.session import DISPATCHER_SAYS
from vgpumgr.link.host_text import clean
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.core.model.endpoint import Endpoint

_HINTS: Final[dict[str, Callable[[str], str]]] = {
    "pinned": lambda host: say(
        "its versions are pinned: `{}` with a login that has full rights",
        Command("vgpumgr", "host", "install", "--pinned", host),
    ),
    "altered": lambda host: say("find out who did that; then {}", _install(host)),
    "not root's": lambda host: say(
        "on that host: chown root: PATH, chmod go-w PATH; `{}` names each", Command("vgpumgr", "host", "status", host)
    ),
}


def _install(host: str) -> str:
    return say("`{}` with a login that has full rights", Command("vgpumgr", "host", "install", host))


def failure(endpoint: Endpoint, said: Sequence[str]) -> ProgramFailed | None:
    """The error if the dispatcher printed why there is no greeting; otherwise None."""
    lines = [line for line in said if line.startswith(DISPATCHER_SAYS)]
    if not lines:
        return None
    why = clean(lines[-1].removeprefix(DISPATCHER_SAYS))
    hint = next((hint for kind, hint in _HINTS.items() if why.startswith(kind)), _install)
    return ProgramFailed(endpoint.host, f"the dispatcher there refuses: {why}", hint=hint(endpoint.host))
