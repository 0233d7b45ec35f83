"""The forced command: it runs the host program as root, and nothing else. `vgpumgr host install` installs this file.

It uses only the standard library and is installed as text, so that an administrator can read it. Its input is what the
shell of any other login gets: a line with a length, then that many bytes, which are the compressed program. An
installed program is named after the SHA-256 of these bytes. A program that is not installed yet is an update, which is
refused where versions are pinned. An installed program runs only if its contents still match its name.

Python 3.9: this file runs on the hypervisor.
"""

import hashlib
import importlib
import os
import stat
import sys
import time
import zlib
from contextlib import suppress
from typing import List, NoReturn

FOLDER = "/opt/vgpumgr-host"
PROGRAMS = FOLDER + "/programs"
DISPATCHER = FOLDER + "/dispatcher"
PIN = FOLDER + "/pinned"
RESTORE = FOLDER + "/restore"  # a program, which the files of restoring/unit.py run after a boot, by these words
WORDS = ("restore", "hold")
HELD = 3  # the exit status that has the hook hold a VM back
BY_DISPATCHER = "VGPUMGR_BY_DISPATCHER"  # set for the program, which tells how it was started
KEPT = 8  # programs; several controllers may be of different versions
UNFINISHED = ".new-"  # begins the name of a file that is being written
SAYS = "vgpumgr dispatcher: "
REFUSED = 126

# What begins the line of a refusal.
NOTHING_ELSE = "runs nothing else"
PINNED = "pinned"
ALTERED = "altered"
NOT_ROOTS = "not root's"

_LONG_S = 3600.0  # no writer takes that long
_MOST_DIGITS = 8
_MOST_BYTES = 16 * 1024 * 1024


class Refused(Exception):
    """Why nothing was run."""


def main() -> NoReturn:
    word = next(iter(sys.argv[1:]), None)  # sudo and sshd pass no argument on
    try:
        if word in WORDS:
            check_owner(RESTORE, is_file=True)
            with open(RESTORE, "rb") as file:
                program = file.read()
        else:
            sent = read_input()
            check_owner(DISPATCHER, is_file=True)
            program = find_program(sent)
    except (Refused, OSError) as error:
        sys.stderr.write("{}{}\n".format(SAYS, error))
        sys.exit(REFUSED)
    run(program, "restoring.{}".format(word) if word in WORDS else "program")


def read_input() -> bytes:
    """The program as it was sent. Raises Refused if it is something else. What comes behind it is not read."""
    digits = b""
    while not digits.endswith(b"\n"):
        byte = os.read(0, 1)
        digits += byte
        if not byte or len(digits) > _MOST_DIGITS + 1 or not (byte.isdigit() or (byte == b"\n" and len(digits) > 1)):
            raise Refused("{}: this login is for vgpumgr's host program".format(NOTHING_ELSE))
    rest = int(digits)
    if rest > _MOST_BYTES:
        raise Refused("{}: {} bytes are no program of vgpumgr's".format(NOTHING_ELSE, rest))
    pieces: List[bytes] = []
    while rest:
        piece = os.read(0, min(rest, 65536))
        if not piece:
            raise Refused("{}: the program was cut short".format(NOTHING_ELSE))
        pieces.append(piece)
        rest -= len(piece)
    return b"".join(pieces)


def find_program(sent: bytes, top: str = "") -> bytes:
    """The installed program with the hash of `sent`, which is installed first if allowed. Raises Refused, OSError."""
    name = hashlib.sha256(sent).hexdigest()
    path = "{}{}/{}".format(top, PROGRAMS, name)
    check_owner(PROGRAMS, top)
    if not os.path.lexists(path):
        if os.path.lexists(top + PIN):
            raise Refused("{}: the program {} is not installed here".format(PINNED, name[:12]))
        try:
            zlib.decompress(sent)
        except zlib.error:
            raise Refused("{}: what was sent is no program of vgpumgr's".format(NOTHING_ELSE)) from None
        try:
            write(path, sent, 0o644)
        except OSError:
            return sent  # a disk that is full or read-only: the next start tries it again
        prune(top)
    check_owner("{}/{}".format(PROGRAMS, name), top, is_file=True)
    with open(path, "rb") as file:
        installed = file.read()
    if hashlib.sha256(installed).hexdigest() != name:
        raise Refused("{}: {}/{} is not what its name says".format(ALTERED, PROGRAMS, name))
    return installed


def check_owner(path: str, top: str = "", *, is_file: bool = False) -> None:
    """Raises Refused unless only root can change the path, and each folder above it. Raises OSError."""
    parts = path.split("/")
    for end in range(1, len(parts) + 1):
        at = "/".join(parts[:end]) or "/"
        status = os.lstat(top + at)
        is_kind = stat.S_ISREG if is_file and end == len(parts) else stat.S_ISDIR
        if status.st_uid != 0 or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or not is_kind(status.st_mode):
            raise Refused("{}: {} can be changed by others".format(NOT_ROOTS, at))


def write(path: str, content: bytes, mode: int) -> None:
    """Write a file that is there as a whole or not at all. Raises OSError."""
    folder, name = os.path.split(path)
    new = "{}/{}{}.{}".format(folder, UNFINISHED, os.getpid(), name)
    with suppress(FileNotFoundError):
        os.unlink(new)  # of a process with this number that was killed
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.rename(new, path)
    except BaseException:
        os.unlink(new)
        raise


def prune(top: str = "") -> None:
    """Leave the newest programs, and no file whose writer was killed. Raises OSError."""
    folder = top + PROGRAMS
    files = sorted((entry.stat(follow_symlinks=False).st_mtime, entry.name) for entry in os.scandir(folder))
    whole = [name for _, name in files if not name.startswith(UNFINISHED)]
    old = [name for at, name in files if name.startswith(UNFINISHED) and at < time.time() - _LONG_S]
    for name in whole[:-KEPT] + old:
        with suppress(FileNotFoundError):  # somebody else was quicker
            os.unlink("{}/{}".format(folder, name))


def run(program: bytes, module: str) -> NoReturn:
    """Import it from memory, run that module of it, and never come back."""
    descriptor = os.memfd_create("vgpumgr")
    with open(descriptor, "wb", closefd=False) as memory:
        memory.write(zlib.decompress(program))
    sys.path.insert(0, "/proc/self/fd/{}".format(descriptor))
    os.environ[BY_DISPATCHER] = "1"
    importlib.import_module("vgpumgr_host." + module).main()
    sys.exit(1)  # main never returns


if __name__ == "__main__":
    main()
