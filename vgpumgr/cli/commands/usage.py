"""`vgpumgr usage`: what every vGPU actually used, from the samples that `collect` stored."""

from __future__ import annotations

import functools
import gc
import time
from typing import TYPE_CHECKING

import click

from vgpumgr import errors, names
from vgpumgr.cli.params import choosing, rows, stored
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.options import common_options, is_given
from vgpumgr.cli.params.percents import Percent
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.usage import IDLE, OWNERS, USAGE
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.cli.rows.column import View
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.usage import UsageReport
    from vgpumgr.core.usage.usage_rows import UsageRow
    from vgpumgr.store.sql.samples import Samples

_DAY_S = 86400.0
_BARS = "sm.series"


@click.command()
@choosing.vms_or_hosts()
@click.option("--since", type=Duration(), metavar="AGE", help="How far back: 7d, 12h, 30m.  [default: 24h]")
@click.option(
    "--idle",
    type=Duration(),
    metavar="AGE",
    help="Only vGPUs that did nothing for that time: their VM was off, or no engine was above --idle-limit in any sample.",
)
@click.option(
    "--idle-limit",
    type=Percent(),
    default="1%",
    show_default=True,
    metavar="PCT",
    help="Highest percentage that still counts as idle.",
)
@click.option(
    "--over",
    type=Percent(most=10_000),
    metavar="PCT",
    help="Only vGPUs that used more than this of their guaranteed share (OF SHARE) or of their framebuffer.",
)
@click.option(
    "--by", type=click.Choice(["owner"]), help="For a bill: each owner's GPU hours, used GPU hours and GiB hours."
)
@choosing.on("Only what was on these hosts.")
@rows.options(USAGE, OWNERS)
@common_options
def usage(
    settings: Settings,
    *,
    chosen: tuple[str, ...],
    since: float | None,
    idle: float | None,
    idle_limit: int,
    over: int | None,
    by: str | None,
    on: str | None,
) -> int:
    """What every VM actually used of its GPU, next to its guaranteed share, from the samples that `collect` stored.

    \b
      vgpumgr usage --sort -of_share
      vgpumgr usage vm01 --since 7d
      vgpumgr usage 'web*' '!web03'
      vgpumgr usage --idle 7d -o name
      vgpumgr usage --over 90%
      vgpumgr usage --by owner --since 30d -o csv
      vgpumgr usage -o json | jq '.vgpus[] | select(.sm.p95 != null and .sm.p95 < 10) | .vm'

    SM, P50, P95 and MAX are percent of the whole GPU over the time that was measured (COVERAGE of the window). OF SHARE
    is SM relative to the share that the vGPU's type or the scheduler guarantees. The window begins at a quarter of an
    hour. A question mark means that the VM was off the whole time or the driver did not report the value. With --idle,
    a vGPU of which less than 95 % of the time is known does not count as idle; a line below the table names it. OFF
    SINCE is when `collect` first saw its VM off. The command contacts no host and writes nothing.
    """
    _rest_the_collector(click.get_current_context())
    from vgpumgr.controller import environment
    from vgpumgr.controller import usage as use_case
    from vgpumgr.documents import usage as documents
    from vgpumgr.store import place
    from vgpumgr.store.sql.samples import Samples

    store = Samples(place.samples_beside(environment.store_path()))
    ask = functools.partial(
        use_case.report,
        store,
        now_s=time.time(),
        since_s=_window(since, idle),
        only=_only(idle, idle_limit, over),
    )
    report = _report(settings, store, ask, chosen, on)
    if by is not None:
        return _print_owners(settings, report, store)
    view = USAGE if idle is None else IDLE
    if settings.for_people:
        condition = "be idle" if idle is not None else f"use more than {over}% of its share or framebuffer"
        of_one = _one(chosen, on) is not None and not report.is_of_host
        _print(settings, view, report, store, of_one=of_one, condition=condition)
    else:
        printing.print_rows(settings, view, documents.usage(report, store.path))
    output.print_findings(settings, report.findings)
    return 0


def _report(
    settings: Settings, store: Samples, ask: Callable[..., UsageReport], chosen: tuple[str, ...], on: str | None
) -> UsageReport:
    one = _one(chosen, on)
    report = None if one is None and (chosen or on is not None) else ask(named=one)
    if (
        report is not None
        and one is not None
        and (not (report.rows or report.not_judged) or (on and not report.is_of_host))
    ):
        report = None  # no VM or host has that name, or it is a group
    if report is not None:
        return report
    vms, hosts = store.names()
    vms, roster = stored.known(settings, vms, hosts)
    return ask(shows=stored.chosen(chosen, vms, roster, "samples", on=on).shows)


def _print_owners(settings: Settings, report: UsageReport, store: Samples) -> int:
    from vgpumgr import resources
    from vgpumgr.cli.text import usage_text
    from vgpumgr.cli.wiring import load_inventory
    from vgpumgr.controller import usage as use_case
    from vgpumgr.core.driver import catalogue
    from vgpumgr.documents import usage as documents

    inventory = load_inventory(settings)
    owners = use_case.owners(report, inventory, catalogue.parse(resources.catalogue_text()))
    printing.print_rows(settings, OWNERS, documents.usage(report, store.path, owners))
    output.progress(settings, f"hours from {usage_text.span(report)}; ? is unknown")
    output.print_findings(settings, report.findings)
    return 0


def _rest_the_collector(command: click.Context) -> None:
    """Stop the garbage collector until the command ends: it would take a tenth of that time and find nothing."""
    if gc.isenabled():
        gc.disable()
        command.call_on_close(gc.enable)


def _one(chosen: Sequence[str], on: str | None) -> str | None:
    """The name, if the user gave only one and it is no pattern; a UUID in its canonical form."""
    patterns = (*chosen, *(() if on is None else (on,)))
    if len(patterns) != 1 or not stored.is_plain(patterns[0]):
        return None
    return names.as_uuid(patterns[0]) or patterns[0]


def _window(since: float | None, idle: float | None) -> float:
    """How far the report goes back, in seconds. Raises UsageError."""
    if since is not None and idle is not None:
        raise errors.UsageError("--since cannot be combined with --idle", hint="--idle says how far back by itself")
    for option, seconds in (("--since", since), ("--idle", idle)):
        stored.guard_age(option, seconds)
    return since or idle or _DAY_S


def _only(idle: float | None, idle_limit: int, over: int | None) -> Callable[[UsageRow], bool | None] | None:
    from vgpumgr.core.usage import selection

    if idle is None and is_given("idle_limit"):
        raise errors.UsageError(
            "--idle-limit is for --idle", hint="add --idle with a time, such as 7d, or leave both out"
        )
    if idle is not None and over is not None:
        raise errors.UsageError("--idle cannot be combined with --over", hint="give one of them")
    if idle is not None:
        return functools.partial(selection.idle, most=idle_limit)
    return None if over is None else functools.partial(selection.over, percent=over)


def _print(
    settings: Settings, view: View, report: UsageReport, store: Samples, *, of_one: bool, condition: str
) -> None:
    """Print the report. `condition`: the filter in words."""
    from vgpumgr.cli.text import usage_text
    from vgpumgr.documents import usage as documents

    has_bars = True
    if not report.rows:
        for line in _nothing(report, store, condition):
            output.echo(line)
    elif of_one and settings.output == "table" and settings.columns is None:
        for number, row in enumerate(report.rows):
            if number:
                output.echo()
            _print_one(settings, row, report)
    else:
        columns = printing.print_rows(settings, view, documents.usage(report, store.path))
        has_bars = any(column.key == _BARS for column in columns)
    for line in usage_text.not_judged(report):
        output.progress(settings, line)
    if report.rows:
        output.progress(settings, usage_text.foot(report, has_bars=has_bars))


def _nothing(report: UsageReport, store: Samples, condition: str) -> list[str]:
    from vgpumgr.cli.text import usage_text

    if not report.collected:
        again = ["`vgpumgr collect` takes one", "`vgpumgr collect --every 10s` keeps collecting"]
        return [f"no samples yet in {store.path}", *again]
    if report.not_judged is not None:
        return [f"no vGPU is known to {condition}, {usage_text.span(report)}"]
    return [f"no vGPU existed, or was measured, {usage_text.span(report)}"]


def _print_one(settings: Settings, row: UsageRow, report: UsageReport) -> None:
    from vgpumgr.cli.text import chart, sparkline, usage_text

    for line in (*usage_text.of_one(row, report), ""):
        output.echo(line)
    bars = sparkline.bars_of_stdout()
    printing.print_table(settings, usage_text.engines(row, bars), usage_text.OF_ONE)
    plots = [*usage_text.plots(row, report, output.width() or chart.IN_A_PIPE, bars)]
    if plots:
        output.write_lines(["", *plots])
