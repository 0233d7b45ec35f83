"""This machine's cron and systemd files: `vgpumgr install` prints or writes them, `install remove` removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import asking
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.things import FILES
from vgpumgr.cli.text import output
from vgpumgr.controller import install_files
from vgpumgr.controller.install_files import FileState
from vgpumgr.documents import offline as documents
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.install_files import InstallFile

_TOLD = {
    FileState.ABSENT: "would be written",
    FileState.SAME: "is up to date",
    FileState.OURS: "would be rewritten",
    FileState.EDITED: "was edited by hand: overwritten only with --yes",
}


def install(settings: Settings, texts: Mapping[Path, str], *, write: bool, then: str) -> int:
    """Print the files, report what would change, or write them. The exit code is 3 if --check finds a change."""
    files = [install_files.look(path, text) for path, text in texts.items()]
    if not (write or settings.check):
        if settings.for_people:
            _print(files)
        return _end(settings, files, Outcome.UNCHANGED)
    changes = [file for file in files if file.state != FileState.SAME]
    diffs = changes if settings.diff else _edited(changes)
    if settings.check or not changes:
        for file in changes:
            install_files.guard_folder(file)
        _tell(settings, files, diffs)
        return _end(settings, files, Outcome.WOULD_CHANGE if changes else Outcome.UNCHANGED)
    _tell(settings, (), diffs)
    _put(settings, changes, "Overwrite it?", "--yes overwrites it, --dir writes elsewhere", "nothing was written")
    if settings.for_people and not settings.quiet:
        output.echo(f"written: {', '.join(str(file.path) for file in changes)}")
        output.echo(then)
    return _end(settings, files, Outcome.DONE)


def _tell(settings: Settings, files: Sequence[InstallFile], diffs: Sequence[InstallFile]) -> None:
    """Print a line per file, and the diff if it was requested or a manual edit would be lost."""
    if settings.for_people:
        for file in files:
            output.echo(f"{file.path}: {_TOLD[file.state]}")
        for file in diffs:
            output.block("\n".join(file.diff))


def remove(settings: Settings, paths: Sequence[Path]) -> int:
    """Remove the files at these paths that are ours. The exit code is 3 if --check finds any."""
    files = [install_files.look(path, None) for path in paths]
    ours = [file for file in files if file.state in (FileState.OURS, FileState.EDITED)]
    units = [file.path.name for file in ours if file.links]
    outcome = Outcome.UNCHANGED
    if ours and settings.check:
        outcome = Outcome.WOULD_CHANGE
    elif ours:
        _put(settings, ours, "Remove it?", "--yes removes it", "nothing was removed")
        outcome = Outcome.DONE
    if settings.for_people:
        for file in files:
            if file.state == FileState.FOREIGN:
                output.print_warning(settings, f"{file.path} was not written by vgpumgr, so it stays")
        if not settings.quiet:
            _tell_removed(ours, units, outcome)
    return _end(settings, files, outcome)


def _tell_removed(ours: Sequence[InstallFile], units: Sequence[str], outcome: Outcome) -> None:
    if not ours:
        output.echo("nothing of vgpumgr is installed there")
    verb = "would remove" if outcome == Outcome.WOULD_CHANGE else "removed"
    for file in ours:
        output.echo(f"{verb}: {file.path}" + (" (edited by hand)" if file.state == FileState.EDITED else ""))
    if units and outcome == Outcome.DONE:
        output.echo(f"next: systemctl daemon-reload && systemctl stop {' '.join(units)}")


def _print(files: Sequence[InstallFile]) -> None:
    """Print one file unchanged, for redirection; several files get their paths above them, as with `systemctl cat`."""
    for number, file in enumerate(files):
        if len(files) > 1:
            output.block(("\n" if number else "") + f"# {file.path}")
        click.echo(file.text, nl=False)


def _put(settings: Settings, files: Sequence[InstallFile], question: str, hint: str, after_no: str) -> None:
    """Write or remove the files, after a question if a manual edit would be lost."""
    edits = _edited(files)
    if edits:
        why = f"{', '.join(str(file.path) for file in edits)} was edited by hand"
        asking.confirm(settings, f"{why}. {question}", why=why, hint=hint, after_no=after_no)
    for file in files:
        install_files.put(file)


def _edited(files: Sequence[InstallFile]) -> list[InstallFile]:
    return [file for file in files if file.state == FileState.EDITED]


def _end(settings: Settings, files: Sequence[InstallFile], outcome: Outcome) -> int:
    if not settings.for_people:
        printing.print_rows(settings, FILES, documents.install(files, outcome))
    return 3 if outcome == Outcome.WOULD_CHANGE else 0
