"""Reads the file of `fit --requests`, or stdin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.fitting import asked_file
from vgpumgr.core.inventory.report import Report
from vgpumgr.inventory_files.one_file import NamedFile
from vgpumgr.wording import Option

if TYPE_CHECKING:
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.fitting.asked import Pool


def load(path: str, catalogue: Catalogue) -> tuple[Pool, ...]:
    """The questions in the file. Raises UsageError, or InventoryError with every problem."""
    file = NamedFile(path=path, option=Option("--requests"), what="a file of requests")
    report = Report()
    content = file.content(report)
    pools = () if content is None else asked_file.read(content, catalogue, report)
    file.guard(report, "nothing was computed", "`vgpumgr docs placing` has an example")
    return pools
