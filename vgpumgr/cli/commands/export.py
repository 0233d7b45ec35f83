"""`vgpumgr export textfile|prometheus|rules|dashboard`: what `collect` has stored, as metrics. No host is contacted."""

from __future__ import annotations

import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr import __version__, errors
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.options import common_options, root_options
from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.usage.metrics import Family

_AGAIN_S = 3600.0
_DASHBOARDS = ("fleet", "host", "vm", "owners")
_MAX_AGE = click.option(
    "--max-age",
    type=Duration(),
    metavar="AGE",
    help="Omit data older than this (default: three collector intervals; 15m when cron starts it).",
)


@click.group()
@root_options
def export() -> None:
    """Export what `collect`, plan and reconcile have stored as Prometheus metrics. No host is contacted.
    `vgpumgr docs metrics` explains each metric.
    """


@export.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@_MAX_AGE
@common_options
def textfile(settings: Settings, *, file: Path, max_age: float | None) -> int:
    """Write FILE for node_exporter's textfile collector, atomically by renaming, mode 0644. `-` is standard output.

    \b
      vgpumgr collect -q; vgpumgr export textfile /var/lib/prometheus/node-exporter/vgpumgr.prom
      vgpumgr export textfile - | promtool check metrics
    """
    from vgpumgr.metrics import page
    from vgpumgr.metrics import textfile as files

    to_stdout = str(file) == "-"
    if not to_stdout and file.suffix != files.SUFFIX:
        raise errors.UsageError(
            f"{file} does not end in {files.SUFFIX}", hint="node_exporter's textfile collector reads no other files"
        )
    text = page.text(_families(max_age))
    if to_stdout:
        click.echo(visible(text.decode()) if output.is_terminal(sys.stdout) else text, nl=False)
        return 0
    if settings.check:
        output.progress(settings, f"would write {len(text)} bytes to {file}")
        return 3
    files.write(file, text)
    return 0


@export.command()
@click.option("--socket", "path", type=click.Path(path_type=Path), metavar="PATH", help="Serve on this unix socket.")
@click.option("--listen", metavar="ADDRESS:PORT", help="Serve on TCP instead: 127.0.0.1:9836, [::1]:9836.")
@_MAX_AGE
@common_options
def prometheus(settings: Settings, *, path: Path | None, listen: str | None, max_age: float | None) -> int:
    """Serve /metrics until a signal ends it. The default is a unix socket (0660), with no port open.

    \b
      vgpumgr export prometheus --listen 127.0.0.1:9836
      vgpumgr export prometheus --socket /run/vgpumgr/metrics.sock

    The default socket is /run/vgpumgr/metrics.sock for root, $XDG_RUNTIME_DIR/vgpumgr/metrics.sock for everybody else.
    There is no password and no TLS: put a web server in front of it if others can reach it.
    """
    from vgpumgr.metrics import page, server

    if path is not None and listen is not None:
        raise errors.UsageError(
            "--socket and --listen cannot be combined", hint="two exporters can serve the same store"
        )
    tell = _once(settings)
    place = (
        server.on_socket(path or _socket_path()) if listen is None else server.on_address(server.parse_address(listen))
    )
    if settings.check:
        output.progress(settings, f"would serve {path or _socket_path() if listen is None else listen}")
        return 3
    with place as (listener, where):
        output.progress(settings, f"serving {where}")
        try:
            _families(max_age)
        except errors.StoreError as error:
            tell(error)  # at startup, not at the first scrape; the store may be readable by then
        server.serve(listener, lambda accept: page.negotiated(_families(max_age), accept), failed=tell)
    return 0


@export.command()
@common_options
def rules(_settings: Settings) -> int:
    """Print alert rules for Prometheus: drift, runs that fail or are missing, hosts that are not read, idle vGPUs.

    \b
      vgpumgr export rules > /etc/prometheus/rules/vgpumgr.yml
      vgpumgr export rules | promtool check rules /dev/stdin

    `vgpumgr docs metrics` says what to do about each of them. Keep changes of yours in a file of their own.
    """
    from vgpumgr import resources

    click.echo(resources.alert_rules(), nl=False)
    return 0


@export.command()
@click.argument("name", type=click.Choice(_DASHBOARDS), metavar="|".join(_DASHBOARDS))
@common_options
def dashboard(_settings: Settings, *, name: str) -> int:
    """Print a dashboard for Grafana 11 or later, as JSON to import: the fleet, a host, a VM, or the VMs' owners.

    \b
      vgpumgr export dashboard fleet > fleet.json
      vgpumgr export dashboard vm > /var/lib/grafana/dashboards/vgpumgr-vm.json

    Its queries are for the metrics of `vgpumgr export prometheus` and `textfile`.
    """
    from vgpumgr.metrics import dashboards

    click.echo(dashboards.text(name))
    return 0


def _families(max_age: float | None) -> tuple[Family, ...]:
    """The metrics of what the store holds now. Raises StoreError."""
    from vgpumgr.controller import environment
    from vgpumgr.core.usage import metrics, readings
    from vgpumgr.store import place
    from vgpumgr.store.sql import runs
    from vgpumgr.store.sql.samples import Samples

    store = Samples(place.samples_beside(environment.store_path()))
    if max_age is None:
        max_age = readings.outdated_after_s(store.every_s())
    build = metrics.Build(version=__version__, python=platform.python_version())
    return metrics.families(store.latest(), now=time.time(), max_age_s=max_age, build=build, runs=runs.last(store.path))


def _socket_path() -> Path:
    from vgpumgr.metrics import socket_place

    return socket_place.default("metrics.sock", hint="use --socket PATH, or --listen 127.0.0.1:9836")


def _once(settings: Settings) -> Callable[[errors.VgpumgrError], None]:
    """A function that prints an error. It prints the same one again only after an hour, whatever it printed since."""
    told: dict[str, float] = {}

    def tell(error: errors.VgpumgrError) -> None:
        now = time.monotonic()
        for message, at in [*told.items()]:
            if now - at >= _AGAIN_S:
                told.pop(message, None)
        if error.message not in told:
            told[error.message] = now
            output.print_error(settings, error)

    return tell
