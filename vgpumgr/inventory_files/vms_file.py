"""Reads a file of VMs for one command, or stdin, as an inventory's files are read."""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING

from vgpumgr import files
from vgpumgr.core.inventory import Location, Value
from vgpumgr.core.inventory.report import Report
from vgpumgr.core.inventory.vms_file import read_vms_file
from vgpumgr.errors import InventoryError, UsageError
from vgpumgr.inventory_files.reader import MAX_BYTES, read_yaml
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from vgpumgr.core.inventory import Finding, VmDeclaration

STDIN = "-"
_FILE = Option("-f")


def load_vms(path: str) -> tuple[tuple[VmDeclaration, ...], tuple[Finding, ...]]:
    """The VMs in the file, sorted by name, and findings. Raises UsageError, or InventoryError with every problem."""
    file = "<stdin>" if path == STDIN else path
    report = Report()
    content = _content(_text(path, file), file, report)
    vms = {} if content is None else read_vms_file(content, report)
    problems = report.problems()
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise InventoryError(
            f"{count} in {file}; nothing was changed",
            hint="correct the lines above; `vgpumgr docs inventory` has every key of vgpumgr_vms",
            details=[str(problem) for problem in problems],
        )
    return tuple(vms.values()), report.findings()


def _text(path: str, file: str) -> str:
    if path == STDIN and sys.stdin is None:  # <&-
        raise UsageError(say("{}: stdin is closed", _FILE), hint="name a file of VMs, or give one to stdin")
    try:
        if path == STDIN:
            data = files.bounded(sys.stdin.buffer.read(MAX_BYTES + 1), MAX_BYTES)
        else:
            data = files.read_bytes(path, MAX_BYTES)
    except OSError as error:
        large = error.errno == errno.EFBIG
        hint = "split it into several files" if large else "name a file of VMs, or - for stdin"
        raise UsageError(say("{}: {} cannot be read: {}", _FILE, file, error.strerror), hint=hint) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(say("{}: {}: not UTF-8 text", _FILE, f"{file}:{line}"), hint="save it as UTF-8") from error


def _content(text: str, file: str, report: Report) -> Value | None:
    """The YAML's content. If it is not YAML, reports that and returns None."""
    if text.startswith("$ANSIBLE_VAULT;"):
        raise UsageError(
            say("{}: {} is encrypted with ansible-vault, which is not decrypted here", _FILE, file),
            hint="write it in plain text",
        )
    content, problems = read_yaml(text, file)
    report.extend(problems, ())
    if content is None and not problems:  # nothing at all, or only comments
        return Value(where=Location(file=file, line=1), data=None)
    return content
