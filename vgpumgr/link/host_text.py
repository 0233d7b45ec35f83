"""A host's text in our messages, and hints about its disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXT_LIMIT = 600
_MOST_LINES = 6


def clean(value: object) -> str:
    """A host's text for a message: one line, without control characters, limited in length."""
    if value is None:
        return ""
    text = " ".join(str(value).split())
    return "".join(one if one.isprintable() else "?" for one in text)[:_TEXT_LIMIT]


def lines(text: bytes | str) -> list[str]:
    """A host's text as lines for a message; empty ones are left out."""
    string = text.decode(errors="replace") if isinstance(text, bytes) else text
    return [line for line in map(clean, string.splitlines()) if line]


def quote(said: Sequence[str]) -> list[str]:
    """A host's first lines as details of an error, and the number of the others."""
    more = [f"and {len(said) - _MOST_LINES} more lines"] if len(said) > _MOST_LINES else []
    return [f"it says: {line}" for line in said[:_MOST_LINES]] + more


def disk_hint(errno_name: str, path: str) -> str:
    """What to do on a host that cannot write a file. It depends on the errno's name."""
    match errno_name:
        case "ENOSPC" | "EDQUOT":
            return f"free some space there first: `df -h {path}` and `df -i {path}` show how much is left"
        case "EROFS":
            return (
                f"it is mounted read-only there (see `findmnt -T {path}`); the kernel does that by itself after a "
                "disk error (`dmesg`)"
            )
        case "EACCES" | "EPERM":
            return "something there stops even root: an immutable file (`lsattr -d`), SELinux or AppArmor (`dmesg`)"
        case _:
            return f"check the disk there: `findmnt -T {path}` and `dmesg`"
