"""The command report: the state of a site as a page, as Markdown, or as rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr import errors, files
from vgpumgr.cli.params import choosing, rows, stored
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.report import REPORT
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings

_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


@click.command()
@choosing.hosts()
@choosing.on("Only these hosts; the same as the arguments.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write the page here, in one file. `-` is standard output.")
@click.option("--markdown", type=_FILE, metavar="FILE", help="Write Markdown here. `-` is standard output.")
@click.option(
    "--since", type=Duration(), default="7d", show_default=True, metavar="AGE", help="What was used since then."
)
@rows.options(REPORT)
@common_options
def report(
    settings: Settings,
    *,
    hosts: tuple[str, ...],
    on: str | None,
    html: Path | None,
    markdown: Path | None,
    since: float,
) -> int:
    """The state of the site: each GPU and who has which part of it, who waits, what was used, owners, advice, findings.

    \b
      vgpumgr report
      vgpumgr report --html report.html
      vgpumgr report kvm01 --markdown - --since 30d
      vgpumgr report --html report.html && mail -A report.html -s GPUs boss@example.com </dev/null

    The page is one file without scripts: it opens from disk and in a mail, without network. What was used comes from
    the samples that `collect` stored. The hosts are only read.
    """
    from vgpumgr.cli.rows import page
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import environment, site_report
    from vgpumgr.documents import report as documents
    from vgpumgr.store import place
    from vgpumgr.store.sql.samples import Samples

    stored.guard_age("--since", since)
    _guard_formats(settings, html, markdown)
    hosts = choosing.either(hosts, (on,) if on is not None else (), "--on")
    store = Samples(place.samples_beside(environment.store_path()))
    found = site_report.look(build_context(settings), store, hosts, now_s=time.time(), since_s=since)
    document = documents.report(found)
    if html is None and markdown is None:
        read = sorted({card.host for host in found.fleet.views for card in host.cards})
        printing.print_rows(settings, REPORT, document, none=output.none_on("no NVIDIA GPU", read))
        return output.end(settings, found.fleet, found.findings)
    written = [
        _write(settings, file, make(document))
        for file, make in ((html, page.html), (markdown, page.markdown))
        if file is not None
    ]
    return errors.worst_exit([*written, output.end(settings, found.fleet)])


def _guard_formats(settings: Settings, html: Path | None, markdown: Path | None) -> None:
    """Raises UsageError if two formats are asked for in one place."""
    if html is None and markdown is None:
        return
    option = "--markdown" if html is None else "--html"
    if not settings.for_people or settings.columns is not None or settings.sorted_by is not None:
        raise errors.UsageError(
            f"{option} does not go with -o, --columns or --sort, which are about rows",
            hint="run the command once for each",
        )
    if html is not None and html == markdown:
        raise errors.UsageError(f"--html and --markdown both name {html}", hint="name a file for each")


def _write(settings: Settings, file: Path, text: str) -> int:
    """Write the file, or standard output for `-`; with --check only say so. Returns the exit code.

    Raises UsageError if the file cannot be written.
    """
    if str(file) == "-":
        output.write(text)
        return 0
    if settings.check:
        output.progress(settings, f"would write {len(text.encode())} bytes to {file}")
        return 3
    try:
        files.replace(file, text.encode())
    except OSError as error:
        hint = "name a file in a folder that exists and that you may write to"
        raise errors.UsageError(f"{file} cannot be written: {error.strerror}", hint=hint) from error
    output.progress(settings, f"written: {file}")
    return 0
