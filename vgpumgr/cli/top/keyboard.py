"""Keys as they are pressed, read by a separate thread, so that they work while `top` waits for hosts."""

from __future__ import annotations

import contextlib
import os
import re
import select
import termios
import threading
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# ECMA-48, and the sequences that xterm, the Linux console and screen send in both cursor modes.
_NAMES = {"A": "up", "B": "down", "H": "home", "F": "end"}
_NAMES |= {"1~": "home", "7~": "home", "4~": "end", "8~": "end", "5~": "pgup", "6~": "pgdn"}
_KEY = re.compile(r"\x1b[\[O]([0-9;]*[A-Za-z~])|(\x1b)|([\r\n])|([\x7f\b])|([^\x00-\x1f\x7f])", re.DOTALL)


def decode(data: bytes) -> list[str]:
    """The keys in a terminal's bytes: characters, or up, down, pgup, pgdn, home, end, esc, enter, backspace."""
    keys = []
    for match in _KEY.finditer(data.decode(errors="replace")):
        sequence, esc, enter, backspace, character = match.groups()
        if sequence is not None:
            keys += [_NAMES[sequence]] if sequence in _NAMES else []
        else:
            keys.append("esc" if esc else "enter" if enter else "backspace" if backspace else character)
    return keys


@contextmanager
def pressed(terminal: int, tell: Callable[[str], None]) -> Iterator[None]:
    """Report every key while this is open, then restore the terminal. Ctrl-C and Ctrl-Z stay signals."""
    attributes = termios.tcgetattr(terminal)
    end, wake = os.pipe2(os.O_CLOEXEC)
    thread = threading.Thread(target=_read, args=(terminal, end, tell), name="keys", daemon=True)
    try:
        tty.setcbreak(terminal)
        thread.start()
        yield
    finally:
        os.close(wake)
        termios.tcsetattr(terminal, termios.TCSADRAIN, attributes)
        if thread.ident is not None:
            thread.join()
        os.close(end)


def _read(terminal: int, end: int, tell: Callable[[str], None]) -> None:
    with contextlib.suppress(OSError):  # the terminal has closed, which also sends SIGHUP
        while True:
            descriptors, _, _ = select.select((terminal, end), (), ())
            if end in descriptors:
                return
            data = os.read(terminal, 1024)
            if not data:
                return
            for key in decode(data):
                tell(key)
