"""`vgpumgr install remove`: takes away the files of jobs that `install … --write` wrote on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.params import asking
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.things import FILES
from vgpumgr.cli.text import output
from vgpumgr.controller import install_files
from vgpumgr.controller.install_files import FileState
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.install_files import InstalledFile, InstallFile


def run(settings: Settings, paths: Sequence[Path]) -> int:
    """Remove the files at these paths that are ours; exit 3 with --check if there are any."""
    files = [install_files.look_at(path) for path in paths]
    ours = [file for file in files if file.state in (FileState.OURS, FileState.EDITED)]
    edited = [file for file in ours if file.state == FileState.EDITED]
    outcome = Outcome.UNCHANGED
    if ours and settings.check:
        outcome = Outcome.WOULD_CHANGE
    elif ours:
        if edited:
            ask(settings, edited, "Remove", hint="--yes removes it", after_no="nothing was removed")
        for file in ours:
            install_files.remove(file)
        outcome = Outcome.DONE
    if settings.for_people:
        _tell(settings, files, ours, outcome)
    else:
        from vgpumgr.documents import offline as documents

        printing.print_rows(settings, FILES, documents.install(files, outcome))
    return 3 if outcome == Outcome.WOULD_CHANGE else 0


def ask(
    settings: Settings, edited: Sequence[InstallFile | InstalledFile], verb: str, *, hint: str, after_no: str
) -> None:
    """Ask before what somebody wrote by hand is lost."""
    why = f"{', '.join(str(file.path) for file in edited)} was edited by hand"
    asking.confirm(settings, f"{why}. {verb} it?", why=why, hint=hint, after_no=after_no)


def _tell(settings: Settings, files: Sequence[InstalledFile], ours: Sequence[InstalledFile], outcome: Outcome) -> None:
    for file in files:
        if file.state == FileState.FOREIGN:
            output.print_warning(settings, f"{file.path} was not written by vgpumgr, so it stays")
    if settings.quiet:
        return
    if not ours:
        output.echo("nothing of vgpumgr is installed there")
        return
    verb = "would remove" if outcome == Outcome.WOULD_CHANGE else "removed"
    for file in ours:
        output.echo(f"{verb}: {file.path}" + (" (edited by hand)" if file.state == FileState.EDITED else ""))
    started = [file.path.name for file in ours if file.link is not None]
    if started and outcome == Outcome.DONE:
        output.echo(f"next: systemctl daemon-reload && systemctl stop {' '.join(started)}")
