"""`vgpumgr collect`: sample what every VM uses and store it, once or as a service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.params import choosing, stored
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.params.sizes import Bytes
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.hosts import COLLECT
from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.collect import Retention
    from vgpumgr.controller.sampling import Sampler
    from vgpumgr.core.usage.readings import Round
    from vgpumgr.names import HostName
    from vgpumgr.store.sql.samples import Samples


@click.command()
@choosing.hosts()
@click.option(
    "--every",
    type=Duration(),
    metavar="TIME",
    help="Keep collecting at this interval, for example 10s; without it, collect once.",
)
@click.option("--for", "lasting", type=Duration(), metavar="TIME", help="With --every: stop after this time.")
@click.option(
    "--keep",
    type=Duration(least=3600),
    default="30d",
    show_default=True,
    metavar="AGE",
    help="Delete samples older than this.",
)
@click.option(
    "--max-size",
    type=Bytes(),
    default="450M",
    show_default=True,
    help="Delete the oldest samples once the file exceeds this size (binary units).",
)
@common_options
def collect(
    settings: Settings,
    *,
    hosts: tuple[str, ...],
    every: float | None,
    lasting: float | None,
    keep: float,
    max_size: int,
) -> int:
    """Sample what every VM uses of the hosts' GPUs, and store it for `usage` and `export`.

    \b
      vgpumgr collect                    (once; for cron, every 5 minutes or so)
      vgpumgr collect --every 10s        (a service, until a signal ends it)

    The driver reports means since the previous reading and remembers some 12 s, so --every 10s misses nothing. Without
    --every, each host is read twice, 2 s apart, and only the usage in between is known. A host that cannot be read is
    named (exit 4) and the others are stored; a service names such a host once when it fails and once when it is back.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import collect as use_case
    from vgpumgr.controller import environment
    from vgpumgr.controller.sampling import Sampler
    from vgpumgr.store import place

    stored.guard_age("--keep", keep)
    if lasting is not None and every is None:
        raise errors.UsageError("--for needs --every", hint="without --every, hosts are read once")
    context = build_context(settings)
    targets = context.inventory.chosen(hosts)
    path = place.samples_beside(environment.store_path())
    fleet = None if hosts else frozenset(context.inventory.hosts)
    retention = use_case.Retention(every_s=every, keep_s=keep, max_bytes=max_size, fleet=fleet)
    if settings.check:
        output.progress(settings, f"would read {counted(len(targets), 'host')} and store the samples in {path}")
        return 3
    from vgpumgr.store.only_one import COLLECTOR, only_one
    from vgpumgr.store.sql.samples import Samples

    store = Samples(path)
    with (
        only_one(path, context.by, name=COLLECTOR),
        Sampler(
            context, targets, store.cursors(), round_timeout_s=use_case.round_timeout_s(context.timing, every)
        ) as sampler,
    ):
        if every is None:
            return _once(settings, sampler, store, retention)
        output.progress(settings, f"reading {counted(len(targets), 'host')} every {every:g} s into {path}")
        until = None if lasting is None else time.monotonic() + lasting
        use_case.serve(sampler, store, retention, _Listener(settings), until=until)
    return 0


def _once(settings: Settings, sampler: Sampler, store: Samples, retention: Retention) -> int:
    from vgpumgr.controller import collect as use_case
    from vgpumgr.core.usage import live

    rounds = sampler.round()
    use_case.keep(store, rounds, retention)
    failures = [one.failure for one in rounds if one.failure is not None]
    findings = [*live.silent(rounds)]
    if settings.for_people:
        if not settings.quiet:
            for line in _lines(rounds):
                output.echo(line)
    else:
        from vgpumgr.documents import usage as documents

        printing.print_rows(settings, COLLECT, documents.collect(rounds, store.path, findings))
    output.print_findings(settings, findings)
    return output.print_errors(settings, failures)


class _Listener:
    """Prints a warning when a host or the store fails, and a line when it works again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def on_failure(self, host: HostName | None, what: str) -> None:
        output.print_warning(self._settings, what, host=host)

    def on_recovery(self, host: HostName | None, what: str) -> None:
        output.progress(self._settings, what, host=host)


def _lines(rounds: Sequence[Round]) -> list[str]:
    width = max((len(one.host) for one in rounds), default=0)
    lines = []
    for one in rounds:
        text = "not read"
        if one.reading is not None:
            text = f"{'?' if one.running is None else one.running} running, {one.distinct} measured"
        lines.append(f"{one.host:<{width}}  {text}, {one.seconds:.1f} s")
    return lines
