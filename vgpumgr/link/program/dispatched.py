"""What the dispatcher says where it does not run the host program, and what to do about it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.errors import ProgramFailed
from vgpumgr.host.protocol.session import DISPATCHER_SAYS
from vgpumgr.link.host_text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.model.endpoint import Endpoint

_HINTS: Final = {
    "pinned": "its versions are pinned: `vgpumgr host install --pinned {host}` with a login that has full rights",
    "altered": "find out who did that; then `vgpumgr host install {host}` with a login that has full rights",
    "not root's": "on that host: chown root: PATH, chmod go-w PATH; `vgpumgr host status {host}` names each",
}
_ANY = "`vgpumgr host install {host}` with a login that has full rights"


def failure(endpoint: Endpoint, said: Sequence[str]) -> ProgramFailed | None:
    """The error for a program that ended before its greeting if the dispatcher said why; otherwise None."""
    lines = [line for line in said if line.startswith(DISPATCHER_SAYS)]
    if not lines:
        return None
    why = clean(lines[-1].removeprefix(DISPATCHER_SAYS))
    hint = next((hint for kind, hint in _HINTS.items() if why.startswith(kind)), _ANY)
    return ProgramFailed(endpoint.host, f"the dispatcher there refuses: {why}", hint=hint.format(host=endpoint.host))
