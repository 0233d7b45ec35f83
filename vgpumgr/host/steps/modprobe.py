"""The step write_modprobe: one file of /etc/modprobe.d gets a text, completely or not at all.

The text is written to a file next to it, which is then renamed: every reader, above all modprobe, finds the old file or
the new one. A killed run leaves a file whose name modprobe does not read, and the step's next run removes it.
"""

import errno
import os
import stat
from contextlib import suppress
from typing import Callable, NamedTuple, Optional

from ..facts.module import NotText, decode, read_bounded
from ..fields import refuse
from ..files import Root, sync_folder, write_whole
from ..protocol.session import SYSFS_REFUSED
from ..protocol.steps import ModprobeStep
from ..refusal import Refusal, errno_name, reason
from .hardware import changed
from .module_options import why_not

_MODE = 0o644
_ASIDE = ".vgpumgr-new"  # modprobe reads only names that end in .conf
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _File(NamedTuple):
    """The current file: its text, its mode and its owner. Without a text there is no file."""

    text: Optional[str]
    mode: int = _MODE
    uid: int = -1  # for chown: leave it unchanged
    gid: int = -1


def write_modprobe(root: Root, step: ModprobeStep, at: Callable[[str], None]) -> None:
    """Carry out the step. The caller holds the host's exclusive lock. Raises Refusal."""
    path = root.path(step["path"])
    why = why_not(step["path"], step["expect"], step["text"])
    if why is not None:
        refuse("step.text of {}: {}".format(step["path"], why))
    try:
        _write(path, step, at)
    except NotText as error:
        raise changed("a text file {}".format(step["path"]), str(error)) from error
    except OSError as error:
        name = errno_name(error.errno or errno.EIO)
        why = "it is a symbolic link" if error.errno == errno.ELOOP else reason(error)
        raise Refusal(
            SYSFS_REFUSED, "{}: {}".format(step["path"], why), path=step["path"], errno=name, read_back=None
        ) from error


def _write(path: str, step: ModprobeStep, at: Callable[[str], None]) -> None:
    folder, aside, text = os.path.dirname(path), path + _ASIDE, step["text"]
    with suppress(FileNotFoundError):
        os.unlink(aside)
    file = _read(path)
    if file.text == text:  # a killed run may have left it: it may not have reached the disk yet
        sync_folder(folder)
        return
    if file.text != step["expect"]:
        raise _changed(step, file.text)
    if text is None:
        os.unlink(path)
    else:
        _put_aside(aside, text, file)
        at("aside")
        latest = _read(path)
        if latest.text != step["expect"]:  # somebody edited it while ours went to the disk
            os.unlink(aside)
            raise _changed(step, latest.text)
        os.rename(aside, path)
    at("in-place")
    sync_folder(folder)
    if _read(path).text != text:
        raise _changed(step, "something else")
    at("read-back")


def _read(path: str) -> _File:
    """The file at that path. Raises NotText, or OSError (ELOOP for a link: its target is not ours to write)."""
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return _File(None)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotText("not a regular file")
        text = decode(read_bounded(descriptor))
        return _File(text, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    finally:
        os.close(descriptor)


def _put_aside(aside: str, text: str, file: _File) -> None:
    """Write a durable file with the owner and mode of the one that it will replace."""
    descriptor = os.open(aside, _CREATE, 0o600)
    try:
        write_whole(descriptor, text.encode("utf-8"))
        os.fchown(descriptor, file.uid, file.gid)
        os.fchmod(descriptor, file.mode)
        os.fsync(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise
    finally:
        os.close(descriptor)


def _changed(step: ModprobeStep, text: Optional[str]) -> Refusal:
    """The refusal. It does not quote the texts, which may be long, and belong to others."""
    expected = "no {}" if step["expect"] is None else "{} as it was read"
    return changed(expected.format(step["path"]), "no such file" if text is None else "another text there")
