"""install-1.json: the files of a job on the controller's own machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.install_files import InstalledFile, InstallFile
    from vgpumgr.errors import Outcome

SCHEMA = "vgpumgr.install/1"


def document(files: Iterable[InstallFile], outcome: Outcome) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "changed": outcome.changed,
        **common.frame([outcome]),
        "files": [{"path": str(file.path), "state": common.plain(file.state), "text": file.text} for file in files],
    }


def removal(files: Iterable[InstalledFile], outcome: Outcome) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "changed": outcome.changed,
        **common.frame([outcome]),
        "files": [{"path": str(file.path), "state": common.plain(file.state), "text": None} for file in files],
    }
