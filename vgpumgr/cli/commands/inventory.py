"""`vgpumgr inventory check`: read the whole inventory and say what is wrong with it. Reaches no host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params.options import common_options, root_options
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.inventory import GpuDeclaration, HostDeclaration, Inventory, SlotDeclaration, VmDeclaration

SCHEMA = "vgpumgr.inventory/1"
_COLUMNS = ("host", "address", "port", "user", "policy", "gpus", "vms")


@click.group()
@root_options
def inventory() -> None:
    """The declared hosts, GPUs and VMs."""


@inventory.command()
@common_options
def check(settings: Settings) -> int:
    """Read the inventory and report every problem with its file and line; exit 2 where there is one.

    What is declared and not built yet is told too, and is no error. No host is reached.
    """
    from vgpumgr.cli.wiring import load_inventory

    found = load_inventory(settings)
    if not settings.for_people:
        rows = [_row(host) for host in found.hosts.values()]
        output.print_rows(settings, as_document(found), rows, columns=_COLUMNS, wide=_COLUMNS, name="host")
        return 0
    if settings.output == "wide":
        output.print_table([_row(host) for host in found.hosts.values()], _COLUMNS)
    for finding in found.findings:
        output.echo(str(finding))
    output.echo(summary(found))
    return 0


def summary(found: Inventory) -> str:
    """One line: what was read, and that nothing is wrong with it."""
    vms = sum(len(host.vms) for host in found.hosts.values())
    findings = len(found.findings)
    told = f", {_count(findings, 'finding')}" if findings else ""
    return f"{_count(len(found.hosts), 'host')}, {_count(vms, 'VM')} declared; no problems{told}"


def as_document(found: Inventory) -> dict[str, object]:
    """The inventory as `-o json` prints it. Every key is always there; what is not declared is null."""
    return {
        "schema": SCHEMA,
        "root": found.root,
        "hosts": [_host(host) for host in found.hosts.values()],
        "findings": [
            {"where": str(finding.where) if finding.where else None, "text": finding.text} for finding in found.findings
        ],
    }


def _row(host: HostDeclaration) -> dict[str, object]:
    return {
        "host": host.name,
        "address": host.endpoint.address,
        "port": host.endpoint.port,
        "user": host.endpoint.user,
        "policy": host.policy,
        "even_if_it_will_not_start": host.even_if_it_will_not_start,
        "gpus": len(host.gpus),
        "vms": len(host.vms),
    }


def _host(host: HostDeclaration) -> dict[str, object]:
    endpoint = host.endpoint
    return {
        "name": host.name,
        "address": endpoint.address,
        "port": endpoint.port,
        "user": endpoint.user,
        "key_file": endpoint.key_file,
        "known_hosts": endpoint.known_hosts,
        "site": host.site,
        "policy": host.policy,
        "even_if_it_will_not_start": host.even_if_it_will_not_start,
        "fgpu_per_gpu": dict(host.fgpu_per_gpu),
        "gpus": [_gpu(gpu) for gpu in host.gpus],
        "vms": [_vm(vm) for vm in host.vms.values()],
        "where": str(host.where),
    }


def _gpu(gpu: GpuDeclaration) -> dict[str, object]:
    scheduler = gpu.scheduler.wish if gpu.scheduler else None
    return {
        "gpu": gpu.gpu,
        "mode": gpu.mode,
        "scheduler": {
            "policy": scheduler.policy,
            "time_slice_ms": scheduler.time_slice_ns // 1_000_000 if scheduler.time_slice_ns else None,
            "frequency_hz": scheduler.frequency_hz,
            "averaging_factor": scheduler.averaging_factor,
        }
        if scheduler
        else None,
        "exclude_vfs": list(gpu.exclude_vfs),
        "where": str(gpu.where),
    }


def _vm(vm: VmDeclaration) -> dict[str, object]:
    return {"name": vm.name, "slots": [_slot(slot) for slot in vm.slots.values()], "where": str(vm.where)}


def _slot(slot: SlotDeclaration) -> dict[str, object]:
    wish = slot.wish
    return {
        "slot": slot.slot,
        "profile": wish.profile.text if wish.profile else None,
        "mig_profile": wish.mig_profile,
        "gpu_memory_mib": wish.gpu_memory_mib,
        "gpu": wish.gpu,
        "fgpu": wish.fgpu,
        "series": wish.series,
        "policy": slot.policy,
        "gpu_id": slot.gpu_id,
        "prefer": slot.prefer,
        "only": slot.only,
        "compute": slot.compute,
        "max_waste_pct": slot.max_waste_pct,
        "usable": slot.usable,
        "where": str(slot.where),
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
