"""The id of the host's current boot, and other one-line files. The greeting imports nothing else of facts/."""

from typing import Optional

from ..files import Root, Unknowns, read_all


def boot_id(root: Root, unknown: Unknowns) -> str:
    """The id of this boot; empty (and noted) if it cannot be read."""
    return read_line(root, "/proc/sys/kernel/random/boot_id", "boot", unknown) or ""


def read_line(root: Root, path: str, what: str, unknown: Unknowns) -> Optional[str]:
    """A file's text, stripped. Null if the text is empty; null, and noted, if the file cannot be read."""
    try:
        return read_all(root.path(path)).decode("utf-8", "replace").strip() or None
    except OSError as error:
        unknown.failed(what, error)
        return None
