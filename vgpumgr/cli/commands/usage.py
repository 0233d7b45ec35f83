"""`vgpumgr usage`: what every vGPU actually used, from the samples that `collect` stored."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import click

from vgpumgr import errors, names
from vgpumgr.cli.params import candidates
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.usage import UsageReport
    from vgpumgr.store.sql.samples import Samples

_CSV = (
    "vm", "slot", "host", "gpu", "type_name", "state", "entitled_percent", "used_of_share", "coverage_percent", "samples",
    *(f"{engine}_{what}" for engine in ("sm", "memory", "encoder", "decoder") for what in ("mean", "p50", "p95", "max")),
    "framebuffer_used_bytes", "framebuffer_max_bytes", "framebuffer_size_bytes", "framebuffer_headroom_bytes", "last_at",
    "origin", "vm_uuid",
)  # fmt: skip


@click.command()
@click.argument("vm", required=False, metavar="[VM]", shell_complete=candidates.vms)
@click.option(
    "--since", type=Duration(), default="24h", show_default=True, metavar="AGE", help="How far back: 7d, 12h, 30m."
)
@click.option("--on", metavar="HOST", shell_complete=candidates.hosts, help="Only this host.")
@common_options
def usage(settings: Settings, *, vm: str | None, since: float, on: str | None) -> int:
    """What every VM actually used of its GPU, next to its guaranteed share, from the samples that `collect` stored.

    \b
      vgpumgr usage
      vgpumgr usage vm01 --since 7d
      vgpumgr usage -o json | jq '.vgpus[] | select(.sm.p95 < 10)'

    SM, P50, P95 and MAX are percent of the whole GPU over the time that was measured (COVERAGE of the window). OF SHARE is SM
    relative to the share that the vGPU's type or the scheduler guarantees. Times begin at a quarter of an hour. A question
    mark means that the VM was off the whole time or the driver did not report the value. The command contacts no host and
    writes nothing.
    """
    gc.disable()  # a tenth of the time goes into searching for garbage that does not exist; the process ends soon
    from vgpumgr.controller import environment
    from vgpumgr.controller import usage as use_case
    from vgpumgr.core.usage import histogram
    from vgpumgr.store import place
    from vgpumgr.store.sql.samples import Samples

    if since > histogram.MAX_DAYS * 86400:
        raise errors.UsageError(f"--since: at most {histogram.MAX_DAYS}d")
    store = Samples(place.samples_beside(environment.store_path()))
    report = use_case.report(store, now_s=time.time(), since_s=since, vm=names.as_uuid(vm) or vm, host=on)
    if (vm is not None or on is not None) and not report.rows:
        _must_be_known(settings, store, vm, on)
    if settings.for_people:
        _print(settings, report, store, of_one=vm is not None)
    else:
        from vgpumgr.documents import usage as documents

        document = documents.document(report, store.path)
        rows = [_flat(documents.vgpu(row)) for row in report.rows] if settings.output in ("csv", "name") else []
        output.print_rows(settings, document, rows, columns=(), wide=_CSV, name="vm")
    output.print_findings(settings, report.findings)
    return 0


def _print(settings: Settings, report: UsageReport, store: Samples, *, of_one: bool) -> None:
    from vgpumgr.cli.text import sparkline, usage_text

    if not report.rows:
        if not report.collected:
            output.echo(
                f"no samples yet ({store.path}): `vgpumgr collect` takes one, `vgpumgr collect --every 10s` keeps collecting"
            )
        else:
            output.echo(f"no vGPU existed, or was measured, {usage_text.span(report)}")
        return
    bars = sparkline.bars_of_stdout()
    if of_one and settings.output == "table":
        for number, row in enumerate(report.rows):
            if number:
                output.echo()
            for line in usage_text.of_one(row, report):
                output.echo(line)
            output.echo()
            output.print_table(usage_text.engines(row, bars), usage_text.OF_ONE)
    else:
        shown = [usage_text.cells(row, bars) for row in report.rows]
        output.print_rows(settings, {}, shown, columns=usage_text.COLUMNS, wide=usage_text.WIDE, name="vm")
    output.progress(settings, usage_text.foot(report))


def _flat(row: dict[str, object]) -> dict[str, object]:
    """A row for csv: each of an engine's numbers is a separate column; the series is dropped."""
    flat: dict[str, object] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}_{what}": number for what, number in value.items() if what != "series"}
        else:
            flat[name] = value
    return flat


def _must_be_known(settings: Settings, store: Samples, vm: str | None, host: str | None) -> None:
    """Refuse names that nothing knows. A VM or host of the inventory that was not sampled yet is fine."""
    from vgpumgr.controller import environment

    vms, hosts = store.names()
    try:
        for declared in environment.load_inventory(settings.inventory, settings.group).hosts.values():
            hosts |= {declared.name}
            vms |= set(declared.vms)
    except errors.InventoryError:
        pass  # samples can be read without any inventory
    if host is not None and host not in hosts:
        near = names.nearest(host, hosts)
        raise errors.UnknownHost(
            f"neither the samples nor the inventory knows a host {host!r}",
            hint=f"did you mean {near}?" if near else "`vgpumgr usage` lists all of them",
        )
    if vm is not None and (names.as_uuid(vm) or vm) not in vms:
        near = names.nearest(vm, vms)
        raise errors.UnknownName(
            f"neither the samples nor the inventory knows a VM {vm!r}",
            hint=f"did you mean {near}?" if near else "`vgpumgr usage` lists all of them",
        )
