"""What a server remarks of a login (SSH_MSG_DEBUG, as in `ssh -v`): OpenSSH names the options of our key's line."""

from __future__ import annotations

import re
from typing import Any, Final

_OPTIONS: Final = re.compile(rb"(?P<place>.+?): key options:(?P<options>.*)", re.DOTALL)
_FORCED: Final = b"command"


class Remarks:
    """One connection's remarks. `forced_by`: the file and line with command= for our key; None: not reported yet."""

    def __init__(self, transport: Any) -> None:
        self.forced_by: str | None = None
        transport._parse_debug = self._note  # noqa: SLF001 -- paramiko only logs them

    def _note(self, message: Any) -> None:
        message.get_boolean()  # whether it is to be shown in any case
        match = _OPTIONS.fullmatch(message.get_string())
        if match is not None and _FORCED in match["options"].split():
            self.forced_by = match["place"].decode(errors="replace")
