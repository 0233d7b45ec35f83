"""Text that came from elsewhere (a host, libvirt, a VM's name) made fit to be shown: it moves no cursor and forges no line."""

from __future__ import annotations


def visible(text: str) -> str:
    """Control characters spelt out (`\\x1b`), line breaks kept: for our own blocks of several lines, and for other programs."""
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1] for character in text
    )


def one_line(text: str) -> str:
    """The same on one line whatever it holds: a cell, a name."""
    return visible(text).replace("\n", "\\n")


def folded(text: str) -> str:
    """The same with every line but the first set in by two blanks: what a host says begins no line as if we said it."""
    return visible(text).replace("\n", "\n  ")
