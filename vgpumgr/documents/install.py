"""install-1.json: the files of a job on the controller's own machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.job_files import JobFile

SCHEMA = "vgpumgr.install/1"


def document(files: Iterable[JobFile], outcome: str) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "changed": outcome != "unchanged",
        "outcomes": [outcome],
        "files": [{"path": str(file.path), "state": common.plain(file.state), "text": file.text} for file in files],
    }
