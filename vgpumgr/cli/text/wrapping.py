"""Text on lines that a terminal has room for. Widths are those of a terminal's cells."""

from __future__ import annotations

import re

# A line with a command is there to be copied, and half a command is another one.
_COMMAND = re.compile(
    r"\b(vgpumgr|virsh|systemctl|sudo|ssh|ssh-keyscan|ansible-playbook|modprobe|pip|apt-get) +[-\w\"'/]"
)
_HANG = 4


def cell_width(text: str) -> int:
    """The columns of a terminal that it takes: a wide character takes two, a combining one none."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    return wcswidth(text)


def wrapped(text: str, width: int) -> list[str]:
    """The text in parts no wider than that: between words where there are any, else anywhere."""
    if cell_width(text) <= width:
        return [text]
    found: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cell_width(longer) <= width:
            line = longer
            continue
        found += [line] if line else []
        *full, line = _chunks(word, width)
        found += full
    return [*found, line] if line else found


def _chunks(word: str, width: int) -> list[str]:
    found, line = [], ""
    for character in word:
        if line and cell_width(line + character) > width:
            found.append(line)
            line = ""
        line += character
    return [*found, line]


def sentence(line: str, width: int | None) -> list[str]:
    """A line of prose as lines of a terminal: later ones stand further in. A line with a command is left whole.

    `width` None: nothing limits a line.
    """
    if width is None or cell_width(line) <= width or _COMMAND.search(line):
        return [line]
    indent = min(len(line) - len(line.lstrip(" ")), width // 3)
    hang = min(_HANG, width // 3)
    text = line.strip(" ")
    first, *rest = wrapped(text, width - indent)
    if rest:
        left = text[len(first) :].lstrip(" ")
        rest = wrapped(left, max(1, width - indent - hang))
    return [" " * indent + first, *(" " * (indent + hang) + part for part in rest)]
