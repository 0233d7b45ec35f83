"""The program as a person sees it: in a terminal of 80 columns, with the moment of each piece."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

COLUMNS = 80
_ENDS_S = 120


class Seen(NamedTuple):
    """`pieces`: what came, with the seconds since the start."""

    code: int
    pieces: tuple[tuple[float, str], ...]

    @property
    def raw(self) -> str:
        return "".join(text for _, text in self.pieces)

    @property
    def lines(self) -> list[str]:
        """What is left on the screen: a line that was wiped is gone, another way to move the cursor stays visible."""
        return [line.rpartition("\r\x1b[K")[2].rstrip("\r") for line in self.raw.split("\n")]

    def came(self, text: str) -> float:
        """When that could first be read."""
        so_far = ""
        for moment, piece in self.pieces:
            so_far += piece
            if text in so_far:
                return moment
        raise AssertionError(f"never came: {text}\n{self.raw}")

    @property
    def statuses(self) -> list[str]:
        """The lines about the progress."""
        return re.findall(r"\r\x1b\[K(\d+ of \d+ [^\r\n]*)", self.raw)


def watch(lab: Lab, *arguments: str) -> Seen:
    """Run the program there, with a terminal for both streams."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    argv = [str(Path(sys.executable).with_name("vgpumgr")), *arguments]
    started = time.monotonic()
    child = subprocess.Popen(
        argv, env={**lab.env, "TERM": "xterm", "NO_COLOR": "1"}, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    pieces: list[tuple[float, str]] = []
    # EIO: the other side is closed.
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 65536):
            pieces.append((time.monotonic() - started, piece.decode()))
    os.close(ours)
    return Seen(child.wait(_ENDS_S), tuple(pieces))
