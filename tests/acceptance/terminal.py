"""The program as a person sees it: in a terminal of 80 columns, with the moment of each piece."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.lab_fixtures import zygote

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

COLUMNS = 80
_ENDS_S = 120
_LOOK_S = 0.05


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


def watch(lab: Lab, *arguments: str, typed: str = "") -> Seen:
    """Run the program there, with a terminal for all three streams, at which somebody types."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    started = time.monotonic()
    env = {**lab.env, "TERM": "xterm", "NO_COLOR": "1"}
    one = zygote().start(*arguments, env=env, terminal=os.ttyname(theirs))
    os.write(ours, typed.encode())
    pieces: list[tuple[float, str]] = []
    decoder = codecs.getincrementaldecoder("utf-8")()
    # Our end of theirs stays open, so that nothing is lost before the program has opened it: the end is when nobody writes.
    while (running := one.running) or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], _LOOK_S if running else 0)[0]:
            pieces.append((time.monotonic() - started, decoder.decode(os.read(ours, 65536))))
    os.close(theirs)
    os.close(ours)
    return Seen(one.wait(_ENDS_S), tuple(pieces))
