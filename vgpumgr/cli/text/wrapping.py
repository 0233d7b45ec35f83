"""Text on lines that a terminal has room for. Widths are those of a terminal's cells."""

from __future__ import annotations

import re

# A line with a command is there to be copied, so it is not split.
_COMMAND = re.compile(
    r"\b(vgpumgr|virsh|systemctl|sudo|ssh|ssh-keyscan|ansible-playbook|modprobe|pip|apt-get) +[-\w\"'/]"
)
_HANG = 4


def cell_width(text: str) -> int:
    """How many columns of a terminal the text takes: a wide character takes two, a combining one none."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    return wcswidth(text)


def wrapped(text: str, width: int) -> list[str]:
    """The text in parts no wider than `width`. It is cut between words where there are any, else anywhere."""
    if cell_width(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cell_width(longer) <= width:
            line = longer
            continue
        lines += [line] if line else []
        *full, line = _chunks(word, width)
        lines += full
    return [*lines, line] if line else lines


def _chunks(word: str, width: int) -> list[str]:
    chunks, line = [], ""
    for character in word:
        if line and cell_width(line + character) > width:
            chunks.append(line)
            line = ""
        line += character
    return [*chunks, line]


def sentence(line: str, width: int | None) -> list[str]:
    """Prose as lines for a terminal. Lines after the first are indented further; a line with a command stays whole.

    `width` None: no limit.
    """
    if width is None or cell_width(line) <= width or _COMMAND.search(line):
        return [line]
    indent = min(len(line) - len(line.lstrip(" ")), width // 3)
    hang = min(_HANG, width // 3)
    text = line.strip(" ")
    first, *others = wrapped(text, width - indent)
    if others:
        tail = text[len(first) :].lstrip(" ")
        others = wrapped(tail, max(1, width - indent - hang))
    return [" " * indent + first, *(" " * (indent + hang) + part for part in others)]
