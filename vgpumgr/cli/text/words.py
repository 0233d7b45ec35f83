"""Numbers with their noun; foreign text (a host's, libvirt's, VM names) that cannot move the cursor or forge lines."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 host`, `3 hosts`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def visible(text: str) -> str:
    """Escape control characters (`\\x1b`) but keep line breaks: for our multi-line blocks and other programs."""
    return "".join(
        character if character.isprintable() or character == "\n" else repr(character)[1:-1] for character in text
    )


def one_line(text: str) -> str:
    """Escape like `visible`, and line breaks too, so that the text is always on one line: for a cell or a name."""
    return visible(text).replace("\n", "\\n")


def folded(text: str) -> str:
    """Escape like `visible`, and indent lines after the first by two spaces: none of a host's then looks like ours."""
    return visible(text).replace("\n", "\n  ")
