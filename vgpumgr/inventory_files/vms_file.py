"""Reads a file of VMs for one command, or stdin, as an inventory's files are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.inventory.report import Report
from vgpumgr.core.inventory.vms_file import read_vms_file
from vgpumgr.inventory_files.one_file import NamedFile
from vgpumgr.wording import Option

if TYPE_CHECKING:
    from vgpumgr.core.inventory import Finding, VmDeclaration

_FILE = Option("-f")


def load_vms(path: str) -> tuple[tuple[VmDeclaration, ...], tuple[Finding, ...]]:
    """The VMs in the file, sorted by name, and findings. Raises UsageError, or InventoryError with every problem."""
    file = NamedFile(path=path, option=_FILE, what="a file of VMs")
    report = Report()
    content = file.content(report)
    vms = {} if content is None else read_vms_file(content, report)
    file.guard(report, "nothing was changed", "`vgpumgr docs inventory` has every key of vgpumgr_vms")
    return tuple(vms.values()), report.findings()
