"""A program on a pseudo-terminal, and what a person would see there: as much of a terminal as `top` makes use of."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[4]
ROUND_TIMEOUT_S = 30.0
_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Display:
    """A grid of characters, which of the two screens is shown, and whether the cursor is."""

    def __init__(self, height: int, width: int) -> None:
        self.other = False
        self.cursor = True
        self.coloured = False
        self._left = ""
        self.resize(height, width)

    def resize(self, height: int, width: int) -> None:
        self.height, self.width = height, width
        self._grid = [[" "] * width for _ in range(height)]
        self._row = self._column = 0

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._grid]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def feed(self, text: str) -> None:
        text = self._left + text
        self._left = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                if found is None:
                    if len(text) - at > 16:
                        raise AssertionError(f"unknown sequence: {text[at : at + 16]!r}")
                    self._left = text[at:]
                    return
                self._obey(*found.groups())
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def _obey(self, private: str, numbers: str, letter: str) -> None:
        match private, letter:
            case "?", "h" | "l":
                self._mode(int(numbers), on=letter == "h")
            case "", "m":
                self.coloured |= bool(re.search(r"\b3[1-7]\b", numbers))
            case "", "H":
                self._row = self._column = 0
            case "", "J":
                self.resize(self.height, self.width)
            case "", "A" | "K":
                pass
            case _:
                raise AssertionError(f"unknown sequence: {private}{numbers}{letter}")

    def _mode(self, number: int, *, on: bool) -> None:
        if number == 1049:
            self.other = on
            self.resize(self.height, self.width)
        elif number == 25:
            self.cursor = on
        else:
            assert number in (2004, 2026), number

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._row = min(self._row + 1, self.height - 1)
        elif character >= " ":
            if self._column >= self.width:  # what is too long wraps, and shows in the test
                self._row, self._column = min(self._row + 1, self.height - 1), 0
            self._grid[self._row][self._column] = character
            self._column += 1


class Terminal:
    """A context manager: `argv` on a terminal of its own, killed at the end if it is still there."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, *, height: int = 24, width: int = 120
    ) -> None:
        self.display = Display(height, width)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.master, self.slave = pty.openpty()
        self.resize(height, width)
        self.before = termios.tcgetattr(self.slave)
        usual = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
        self._env = {**usual, **(env or {}), "TERM": "xterm-256color"}
        self.pid = os.fork()
        if self.pid == 0:
            self._become(argv)

    def _become(self, argv: Sequence[str]) -> None:
        try:
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for number in range(3):
                os.dup2(self.slave, number)
            os.closerange(3, 64)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.execve(argv[0], list(argv), self._env)
        finally:
            os._exit(99)

    def resize(self, height: int, width: int) -> None:
        """The kernel tells the program (SIGWINCH)."""
        self.display.resize(height, width)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def until(self, wanted: str | Callable[[Display], bool]) -> None:
        """Read what the program shows until this is on the screen, or true of it."""
        is_there = (lambda display: wanted in display.text) if isinstance(wanted, str) else wanted
        until = time.monotonic() + ROUND_TIMEOUT_S
        while not is_there(self.display):
            assert time.monotonic() < until, f"not seen: {wanted}\n{self.display.text}"
            self._read(0.2)

    def wait(self) -> int:
        """Its exit code; all that it wrote has been shown by then."""
        until = time.monotonic() + ROUND_TIMEOUT_S
        while True:
            self._read(0.05)
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                while self._read(0):
                    pass
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < until, f"it does not end\n{self.display.text}"

    @property
    def restored(self) -> bool:
        """The terminal is as the program found it."""
        return termios.tcgetattr(self.slave) == self.before and self.display.cursor and not self.display.other

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.display.feed(self._decoder.decode(os.read(self.master, 65536)))
        return bool(ready)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)
        os.close(self.slave)
