"""The parts of a /sys: directories, files and links as values, and a builder that keeps directories complete."""

from __future__ import annotations

import posixpath
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PAGE = 4096  # the size that sysfs reports for a text file, and the most that one read or write carries


@dataclass(frozen=True, slots=True)
class Node:
    """`mode` includes the type bits (stat(2)). A directory has `names`, a file `read` and `write`, a link `target`."""

    mode: int
    size: int = 0
    names: list[str] = field(default_factory=list)
    read: Callable[[], bytes] | None = None
    write: Callable[[str], None] | None = None
    target: str = ""


def text_file(read: Callable[[], str] | None = None, write: Callable[[str], None] | None = None) -> Node:
    """A sysfs attribute: 0444, 0644 or 0200 depending on what it can do, as with the kernel's macros."""
    mode = (0o444 if read else 0) | (0o200 if write else 0)
    encoded = None if read is None else (lambda: read().encode())
    return Node(mode=stat.S_IFREG | mode, size=PAGE, read=encoded, write=write)


def constant(text: str) -> Node:
    data = f"{text}\n".encode()
    return Node(mode=stat.S_IFREG | 0o444, size=PAGE, read=lambda: data)


def binary(data: bytes) -> Node:
    return Node(mode=stat.S_IFREG | 0o644, size=len(data), read=lambda: data)


class Builder:
    """Collects nodes by absolute path ("/bus/pci"); parent directories are created automatically.

    With a `base`, entries are added to copies of its directories, so the base is not changed.
    """

    def __init__(self, base: Mapping[str, Node] | None = None) -> None:
        self.nodes: dict[str, Node] = {}
        self._base: Mapping[str, Node] = base if base is not None else {}
        if base is None:
            self.nodes["/"] = Node(mode=stat.S_IFDIR | 0o755)

    def directory(self, path: str) -> None:
        if path not in self.nodes and path not in self._base:
            self.put(path, Node(mode=stat.S_IFDIR | 0o755))

    def put(self, path: str, node: Node) -> None:
        """Add a node; the same node can be at many paths, unless it is a directory."""
        self.nodes[path] = node
        parent, name = posixpath.split(path)
        self.directory(parent)
        if parent not in self.nodes:
            old = self._base[parent]
            self.nodes[parent] = Node(mode=old.mode, names=list(old.names))
        self.nodes[parent].names.append(name)

    def link(self, path: str, target: str) -> None:
        """Add a relative link; sysfs has no others."""
        relative = posixpath.relpath(target, posixpath.dirname(path))
        self.put(path, Node(mode=stat.S_IFLNK | 0o777, target=relative))
