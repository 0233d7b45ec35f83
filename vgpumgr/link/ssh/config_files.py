"""The user's own ssh_config: which files there are, and whether any of them has a keyword that counts here.

Only then do we run ssh (config.py), which takes 9 ms a host: most sites have no such file, or only the distribution's
in /etc/ssh. The files are not interpreted here: such a keyword is enough, for whichever hosts.
"""

from __future__ import annotations

import functools
import os
import pwd
import re
import threading
from pathlib import Path
from typing import NamedTuple

from vgpumgr import files
from vgpumgr.core.model.endpoint import NO_CONFIG, USUAL_CONFIG

SYSTEM = "/etc/ssh/ssh_config"
_DEPTH = 16  # as in ssh
_LINE = re.compile(r'^[\ufeff \t"]*([A-Za-z]+)"?[ \t]*[ \t=]([^\r\n]*)', re.MULTILINE)
# HostKeyAlgorithms is not among them: distributions set it for every host (crypto policies), and ours are no weaker.
_COUNTS = frozenset({
    "canonicalizehostname", "certificatefile", "globalknownhostsfile", "hostkeyalias", "hostname", "identityagent", "identityfile",
    "knownhostscommand", "port", "proxycommand", "proxyjump", "user", "userknownhostsfile",
})  # fmt: skip
_TAKES_PART = ("include", *_COUNTS)


class Stamp(NamedTuple):
    """One state of a file or folder."""

    path: str
    mtime_ns: int
    size: int
    inode: int


class Found(NamedTuple):
    """`said`: FILE:LINE of the first keyword that counts, or a FILE that cannot be read; None if there is neither.

    `stamps`: the files' state. `relative`: FILE:LINE where the system's file includes another by a relative path, which
    we cannot repeat; else None.
    """

    said: str | None
    stamps: tuple[Stamp, ...]
    relative: str | None = None


def home() -> str:
    """The account's home, whatever $HOME is: ssh uses that, too."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def own_file(chosen: str) -> str:
    """The user's file: the chosen one, or the usual."""
    return str(Path(home(), ".ssh/config")) if chosen == USUAL_CONFIG else chosen


def find(chosen: str) -> Found:
    """What is in the files that ssh reads with `chosen` (Endpoint.ssh_config). Cached until a file changes."""
    if chosen == NO_CONFIG:
        return Found(None, ())
    with _LOOKING:
        facts = _look(chosen)
        if any(_stamp(stamp.path) != stamp for stamp in facts.stamps):
            _look.cache_clear()
            facts = _look(chosen)
        return facts


_LOOKING = threading.Lock()


@functools.lru_cache(maxsize=8)
def _look(chosen: str) -> Found:
    search = _Looking()
    own = Path(own_file(chosen))
    search.at(own, is_system=False)
    if chosen == USUAL_CONFIG:
        search.at(Path(SYSTEM), is_system=True)
    elif not own.exists():
        search.said = chosen  # so that the missing file is reported
    return Found(search.said, tuple(search.stamps), search.relative)


class _Looking:
    def __init__(self) -> None:
        self.said: str | None = None
        self.relative: str | None = None
        self.stamps: list[Stamp] = []

    def at(self, file: Path, *, is_system: bool, depth: int = 0) -> None:
        self.stamps.append(_stamp(str(file)))
        try:
            text = "" if str(file) == os.devnull else files.read_bytes(file).decode(errors="replace")
        except FileNotFoundError:
            return
        except OSError:
            self.said = self.said or str(file)  # ssh will say why
            return
        for line in _LINE.finditer(text):
            keyword = line[1].lower()
            where = f"{file}:{text.count(chr(10), 0, line.start()) + 1}" if keyword in _TAKES_PART else ""
            if keyword in _COUNTS:
                self.said = self.said or where
            elif keyword == "include" and depth < _DEPTH:
                for pattern in _words(line[2]):
                    self._include(pattern, where, is_system=is_system, depth=depth + 1)

    def _include(self, pattern: str, where: str, *, is_system: bool, depth: int) -> None:
        if "$" in pattern or "%" in pattern:
            self.said = self.said or where
            return
        if pattern.startswith("~/"):
            pattern = str(Path(home(), pattern[2:]))
        elif not pattern.startswith("/"):
            if is_system:
                self.relative = self.relative or where
                pattern = f"/etc/ssh/{pattern}"
            else:
                pattern = str(Path(home(), ".ssh", pattern))
        if not any(character in pattern for character in "*?["):
            self.at(Path(pattern), is_system=is_system, depth=depth)
            return
        import glob  # such a line is rare outside /etc/ssh

        self.stamps.append(_stamp(str(Path(pattern).parent)))
        for name in sorted(glob.glob(pattern)):  # noqa: PTH207 -- the pattern is absolute
            self.at(Path(name), is_system=is_system, depth=depth)


def _words(text: str) -> list[str]:
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|([^\s"#]+)', text)]


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 -- a night asks it for each host
    except OSError:
        return Stamp(path, 0, 0, 0)
    return Stamp(path, status.st_mtime_ns, status.st_size, status.st_ino)
