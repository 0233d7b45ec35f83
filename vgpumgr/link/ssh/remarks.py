"""What a server remarks of a login (SSH_MSG_DEBUG), which `ssh -v` prints: OpenSSH says which options our key's line there has."""

from __future__ import annotations

import re
from typing import Any, Final

_OPTIONS: Final = re.compile(rb"(?P<place>.+?): key options:(?P<options>.*)", re.DOTALL)
_FORCED: Final = b"command"


class Remarks:
    """Those of one connection. `forced_by`: the file and line that has command= for our key; None as long as none was told."""

    def __init__(self, transport: Any) -> None:
        self.forced_by: str | None = None
        transport._parse_debug = self._note  # noqa: SLF001 -- paramiko only logs them

    def _note(self, message: Any) -> None:
        message.get_boolean()  # whether it is to be shown in any case
        found = _OPTIONS.fullmatch(message.get_string())
        if found is not None and _FORCED in found["options"].split():
            self.forced_by = found["place"].decode(errors="replace")
