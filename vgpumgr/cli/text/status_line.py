"""A terminal's bottom line: how far the reading or changing of hosts is. Any other output wipes it first."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from vgpumgr.cli.text.words import counted, one_line

if TYPE_CHECKING:
    from vgpumgr.controller.context import Progress, Slow

_AFTER_S = 1.0  # work that ends sooner has no status line
_EVERY_S = 0.1
_COLUMNS = 80  # if the terminal does not report its width
# The stages of link/stages.py, in words for people.
_STAGES = {
    "config": "ssh_config",
    "dns": "name look-up",
    "tcp": "connection",
    "banner": "sshd",
    "kex": "key exchange",
    "auth": "login",
    "program": "host program",
    "lock": "lock and facts",
    "observe": "facts",
    "sample": "usage",
    "execute": "change",
    "unlock": "last look",
}
_WIPE = "\r\x1b[K"


class StatusLine:
    """The line itself. It is safe to use from several threads: hosts report while the caller waits for them."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._shown = False
        self._due: float | None = None

    def show(self, progress: Progress) -> None:
        """Show the progress, but not too often. Once all hosts have ended, show nothing."""
        with self._turn:
            moment = time.monotonic()
            if progress.ended == progress.hosts:
                self._wipe()
                self._due = None
            elif self._due is None:
                self._due = moment + _AFTER_S
            elif moment >= self._due:
                self._due = moment + _EVERY_S
                self._shown = True
                # The last column stays free: some terminals begin a new line there.
                _write(_WIPE + text(progress, _columns() - 1))

    def wipe(self) -> None:
        """Remove the line, to make room for other output."""
        with self._turn:
            self._wipe()

    def _wipe(self) -> None:
        if self._shown:
            self._shown = False
            _write(_WIPE)


def is_possible() -> bool:
    """Whether stderr is a terminal that can wipe a line."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def text(progress: Progress, width: int) -> str:
    """The text of the line: `12 of 20 hosts read; slow: kvm05 (login, 9 s) and 1 more`, or `48 of 160 steps done`.

    It names as many slow hosts as fit into `width`.
    """
    if progress.steps is not None:
        progress_text = f"{progress.steps.done} of {counted(progress.steps.planned, 'step')} done"
    elif progress.hosts == 1 and progress.slow:
        return _alone(progress.slow[0])[: max(width, 0)]
    else:
        progress_text = f"{progress.ended} of {counted(progress.hosts, 'host')} read"
    names = [f"{one_line(one.host)} ({_where(one)})" for one in progress.slow]
    for count in range(len(names), 0, -1):
        more = f" and {len(names) - count} more" if count < len(names) else ""
        line = f"{progress_text}; slow: {', '.join(names[:count])}{more}"
        if len(line) <= width:
            return line
    return (f"{progress_text}; {len(names)} slow" if names else progress_text)[: max(width, 0)]


def _alone(one: Slow) -> str:
    where = "" if one.stage is None else f" {_STAGES.get(one.stage, one.stage)}"
    return f"waiting for {one_line(one.host)}:{where} ({one.seconds:.0f} s)"


def _where(one: Slow) -> str:
    return f"{one.seconds:.0f} s" if one.stage is None else f"{_STAGES.get(one.stage, one.stage)}, {one.seconds:.0f} s"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    except OSError:
        return _COLUMNS


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
