"""The nvidia module's load options: those in /etc/modprobe.d, and those that the loaded module reports.

Others write these files, too. Their content is only data here, and no file is read beyond a limit.
"""

import os
import re
import stat
from typing import List, Optional

from ..files import Root, Unknowns, directory, read_all
from ..protocol.snapshot import ModprobeFact, ModuleFact
from ..refusal import reason

FOLDER = "/etc/modprobe.d"
PARAMS = "/proc/driver/nvidia/params"
MOST_BYTES = 256 * 1024

# modprobe.d(5): blanks between words, a backslash before the newline joins two lines, "nvidia-drm" is another module
_OPTIONS = re.compile(rb"^[ \t]*options[ \t]+nvidia(?=[ \t]|$)", re.MULTILINE)
_JOINT = b"\\\n"
_OURS = b"vgpumgr.conf"  # reported even if its line was commented out: otherwise it could not be rewritten
# NONBLOCK: otherwise a fifo would block us until somebody writes to it
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotText(Exception):
    """The file is too large, or not UTF-8: it cannot be reported in full, and so could not be restored."""


def read_modprobe(root: Root, unknown: Unknowns) -> Optional[List[ModprobeFact]]:
    """The files with an `options nvidia` line, and ours, in modprobe's order. None if one of them is not reportable."""
    files: List[ModprobeFact] = []
    try:
        with directory(root.path(FOLDER)) as folder:
            for name in sorted(map(os.fsencode, os.listdir(folder))):
                if name.startswith(b".") or not name.endswith(b".conf"):
                    continue  # modprobe does not read these
                path = "{}/{}".format(FOLDER, name.decode("utf-8", "replace"))
                try:
                    data = read_regular(name, folder)
                    if data is not None and (name == _OURS or _OPTIONS.search(data.replace(_JOINT, b""))):
                        files.append({"path": path, "text": decode(data)})
                except FileNotFoundError:  # a dangling link, or just removed: modprobe skips it
                    continue
                except OSError as error:
                    unknown.add("modprobe", "{}: {}".format(path, reason(error)))
                    return None
                except NotText as error:
                    unknown.add("modprobe", "{}: {}".format(path, error))
                    return None
    except FileNotFoundError:
        return []
    except OSError as error:
        unknown.failed("modprobe", error)
        return None
    return files


def read_regular(name: bytes, folder: Optional[int] = None) -> Optional[bytes]:
    """The file's bytes; None if it is not a regular file (a link to /dev/null masks one). Raises OSError, NotText."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        return read_bounded(descriptor) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def read_bounded(descriptor: int) -> bytes:
    """The open file's bytes. Raises OSError, NotText beyond MOST_BYTES."""
    data = b""
    while True:
        piece = os.read(descriptor, MOST_BYTES + 1)
        if not piece:
            return data
        data += piece
        if len(data) > MOST_BYTES:
            raise NotText("larger than {} KiB".format(MOST_BYTES // 1024))


def decode(data: bytes) -> str:
    """The text, which encodes to exactly these bytes. Raises NotText."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotText("not UTF-8 text") from error


def read_module(root: Root, unknown: Unknowns) -> Optional[ModuleFact]:
    """The two registry lines of the loaded module's parameters; null, and noted, if they cannot be read."""
    try:
        text = read_all(root.path(PARAMS)).decode("utf-8", "replace")
    except OSError as error:
        unknown.failed("module", error)
        return None
    values = dict(_parameter(line) for line in text.splitlines() if ":" in line)
    dwords, per_device = values.get("RegistryDwords"), values.get("RegistryDwordsPerDevice")
    if dwords is None or per_device is None:
        unknown.add("module", "{} has no RegistryDwords lines".format(PARAMS))
        return None
    return {"registry_dwords": dwords, "registry_dwords_per_device": per_device}


def _parameter(line: str) -> "tuple[str, str]":
    """The key and value of a line such as `RegistryDwords: "RmPVMRL=0x11"`, with or without the quotes."""
    key, _, value = line.partition(":")
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return key.strip(), value
