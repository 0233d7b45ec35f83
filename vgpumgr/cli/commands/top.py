"""`vgpumgr top`: who uses how much of the GPUs now. Reads the hosts itself and stores nothing."""

from __future__ import annotations

import datetime
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import candidates
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.text import output
from vgpumgr.cli.top import frames, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.cli.settings import Settings
    from vgpumgr.cli.top.table import Row
    from vgpumgr.controller.sampling import Sampler
    from vgpumgr.core.usage.sampling import Round

SCHEMA = "vgpumgr.top/1"
_COLUMNS = tuple(name.lower().replace(" ", "_") for name in frames.COLUMNS)
_WIDE = (*_COLUMNS, "origin", "vf", "uuid", "vm_uuid")
_CSV = (
    "vm", "slot", "host", "gpu", "type_name", "state", "sm_percent", "memory_percent", "encoder_percent",
    "decoder_percent", "bought_percent", "framebuffer_used_bytes", "framebuffer_size_bytes", "sampled_at", "origin",
    "type_id", "uuid", "vf", "vm_uuid",
)  # fmt: skip


@click.command()
@click.argument("hosts", nargs=-1, metavar="[HOST]...", shell_complete=candidates.hosts)
@click.option(
    "--every", type=Duration(), default="2s", show_default=True, metavar="TIME", help="Read again after so long a rest."
)
@click.option("--sort", type=click.Choice(list(table.SORTS)), default="sm", show_default=True, help="What comes first.")
@click.option("--once", is_flag=True, help="One reading as a table, and leave; so too where there is no terminal.")
@common_options
def top(settings: Settings, *, hosts: tuple[str, ...], every: float, sort: str, once: bool) -> int:
    """Who uses how much of the GPUs now: shares of the whole GPU, measured by the driver since the reading before.

    Keys: q leaves, s sorts anew, / filters, o hides VMs that are off, arrows and PgUp PgDn scroll, h has them all. A VM
    that is off, and what the driver does not tell, is a question mark. Stores nothing; `usage` shows what `collect` stored.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller.sampling import Sampler

    live = (
        not once and settings.output == "table" and output.is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"
    )
    # On the other screen nothing may be told beside the frames.
    context = build_context(replace(settings, quiet=True) if live else settings)
    chosen = [context.inventory.host(name) for name in hosts] or list(context.inventory.hosts.values())
    with Sampler(context, chosen) as sampler:
        if not live:
            return _print(settings, sampler, len(chosen), sort)
        from vgpumgr.cli.top import display
        from vgpumgr.cli.top.view_state import View

        colour = settings.color == "always" or (settings.color == "auto" and not os.environ.get("NO_COLOR"))
        display.run(sampler.round, every_s=every, view=View(sort=sort), hosts=len(chosen), colour=colour)
    return 0


def _print(settings: Settings, sampler: Sampler, hosts: int, sort: str) -> int:
    output.progress(settings, f"reading {hosts} host{'' if hosts == 1 else 's'} …")
    rounds = sampler.round()
    errors = [one.failure for one in rounds if one.failure is not None]
    found = table.arranged(table.rows(rounds), sort)
    outcomes = {error.outcome for error in errors} | ({"done"} if any(one.reading for one in rounds) else set())
    document = {
        "schema": SCHEMA,
        "outcomes": sorted(outcomes),
        "unreached": [
            {"host": one.host, **output.error_json(one.failure)} for one in rounds if one.failure is not None
        ],
        "hosts": _hosts_json(rounds),
        "vgpus": [_row_json(row) for row in found],
    }
    if settings.for_people:
        for line in frames.heads([total for total in table.totals(rounds) if total.error is None]):
            output.echo(line.text)
        if found:
            shown = [{**_row_json(row), **frames.texts(row)} for row in found]
            output.echo()
            output.print_rows(settings, document, shown, columns=_COLUMNS, wide=_WIDE, name="vm")
    else:
        shown = [_row_json(row) for row in found]
        output.print_rows(settings, document, shown, columns=_COLUMNS, wide=_CSV, name="vm")
    output.print_errors(settings, errors)
    return output.worst_exit(error.exit_code for error in errors)


def _hosts_json(rounds: Sequence[Round]) -> list[dict[str, object]]:
    return [
        {
            "name": one.host,
            "at": _utc(one.at),
            "driver": one.reading.driver,
            "gpus": [
                {
                    "pci": gpu.pci,
                    "uuid": gpu.uuid,
                    "name": gpu.name,
                    "policy": gpu.policy,
                    "sm_percent": gpu.sm,
                    "memory_percent": gpu.memory,
                    "framebuffer_used_bytes": gpu.framebuffer_used_bytes,
                    "framebuffer_size_bytes": gpu.framebuffer_size_bytes,
                }
                for gpu in one.reading.gpus
            ],
            "unknown": [{"what": row.what, "why": row.why} for row in one.reading.unknown],
        }
        for one in rounds
        if one.reading is not None
    ]


def _row_json(row: Row) -> dict[str, object]:
    """A row as `-o json` prints it: every key is always there, unknown is null."""
    vgpu, load = row.vgpu, row.load
    return {
        "vm": vgpu.vm,
        "vm_uuid": vgpu.vm_uuid,
        "slot": vgpu.slot,
        "host": row.host,
        "gpu": row.gpu.pci,
        "type_id": vgpu.type_id,
        "type_name": vgpu.type_name,
        "uuid": vgpu.uuid,
        "vf": vgpu.vf,
        "origin": vgpu.origin,
        "state": vgpu.state,
        "sm_percent": load.sm if load else None,
        "memory_percent": load.memory if load else None,
        "encoder_percent": load.encoder if load else None,
        "decoder_percent": load.decoder if load else None,
        "bought_percent": None if vgpu.bought is None else round(float(vgpu.bought) * 100, 2),
        "framebuffer_used_bytes": vgpu.framebuffer_used_bytes,
        "framebuffer_size_bytes": vgpu.framebuffer_size_bytes,
        "sampled_at": None if vgpu.at_us is None else _utc(vgpu.at_us / 1e6),
    }


def _utc(seconds: float) -> str:
    """RFC 3339, to the millisecond."""
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
