"""What the driver says about itself: its lines in the kernel's log, and those of its two daemons in the journal.

The kernel's lines are records of /dev/kmsg (the kernel's Documentation/ABI/testing/dev-kmsg). Only a reader that was at
the end of /dev/kmsg before a write can tell the new lines from older ones. A host whose journal is missing or cannot be
read gives fewer lines, never an error. VMs can influence these texts: they are shown, and never interpreted.
"""

import json
import os
import re
import time
from contextlib import contextmanager, suppress
from typing import Callable, Iterable, Iterator, List, Optional

from ..files import Root

KMSG = "/dev/kmsg"
JOURNALCTL = "/usr/bin/journalctl"
_LICENCE = "vGPU license state: "
_UNITS = ("nvidia-vgpud", "nvidia-vgpu-mgr")
_OF_THE_DRIVER = re.compile(r"NVRM|nvidia|vfio|mdev", re.IGNORECASE)
_MOST = 10  # lines of each of the two, about one step
_MOST_IN_BOOT = 200
_LONGEST = 400  # characters of a line
_RECORD = 8192  # what a read of /dev/kmsg must have room for: the largest record
_MOST_BYTES = 4 * 1024 * 1024
_JOURNAL_S = 2.0


@contextmanager
def from_now(root: Root) -> Iterator[Callable[[], List[str]]]:
    """A function that reads the newest different lines since the block began, the kernel's first."""
    with _log(root, os.SEEK_END) as descriptor:
        since = "--since=@{:.6f}".format(time.time())
        yield lambda: [*_kernel(descriptor, _MOST), *_daemons(root, since, _MOST)]


def of_this_boot(root: Root) -> List[str]:
    """The newest different lines since the host's boot, the kernel's first; also those on running guests' licences."""
    with _log(root, os.SEEK_SET) as descriptor:
        return [*_kernel(descriptor, _MOST_IN_BOOT), *_daemons(root, "--boot", _MOST_IN_BOOT, licences=True)]


@contextmanager
def _log(root: Root, whence: int) -> Iterator[Optional[int]]:
    """The kernel's log, open at its start or end; None if it cannot be read."""
    descriptor = None
    try:
        with suppress(OSError):
            descriptor = os.open(root.path(KMSG), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            os.lseek(descriptor, 0, whence)
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _kernel(descriptor: Optional[int], most: int) -> List[str]:
    """The driver's lines from the descriptor's position on."""
    data = bytearray()
    while descriptor is not None and len(data) < _MOST_BYTES:
        try:
            piece = os.read(descriptor, _RECORD)
        except BrokenPipeError:  # the next record was overwritten meanwhile: the read after it goes on
            continue
        except OSError:  # EAGAIN: there are no more
            break
        if not piece:
            break
        data += piece
    records = (line.partition(";") for line in data.decode("utf-8", "replace").split("\n"))
    # A record's further lines name its device: they begin with a space, and have no prefix.
    texts = (text for prefix, _, text in records if prefix[:1].isdigit())
    return _newest(("kernel: " + text for text in texts if _OF_THE_DRIVER.search(text)), most)


def _daemons(root: Root, since: str, most: int, *, licences: bool = False) -> List[str]:
    import subprocess  # seldom needed, and it takes 10 ms

    command = [root.path(JOURNALCTL), "--quiet", "--no-pager", "--output=json", "--lines=1000", since]
    command += [
        "--output-fields=MESSAGE,SYSLOG_IDENTIFIER,_PID",
        *("--unit={}.service".format(unit) for unit in _UNITS),
    ]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_JOURNAL_S,
            check=False,
        )
        messages = (_message(line, root if licences else None) for line in done.stdout.splitlines())
        return _newest(filter(None, messages), most)
    return []


def _message(line: bytes, root: Optional[Root] = None) -> str:
    """One journal entry as `who: text`; empty if it has no text, or is only a notice (a dozen for each VM that starts).

    With `root`, a running plugin's notices about its guest's licence count, too, and `who` has the plugin's pid.
    """
    try:
        entry = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return ""
    text = entry.get("MESSAGE") if isinstance(entry, dict) else None
    if not isinstance(text, str):
        return ""
    who = entry.get("SYSLOG_IDENTIFIER")
    if text.startswith("notice:"):
        pid = str(entry.get("_PID"))
        if root is None or _LICENCE not in text or not (pid.isdigit() and os.path.exists(root.path("/proc/" + pid))):
            return ""
        who = "{}[{}]".format(who, pid)
    return "{}: {}".format(who, text)


def _newest(lines: Iterable[str], most: int) -> List[str]:
    """The last of the different lines, in the order in which they last occur."""
    backwards = reversed([line[:_LONGEST] for line in lines])
    return list(dict.fromkeys(backwards))[:most][::-1]
