"""`vgpumgr inventory check`: read the whole inventory and say what is wrong with it. Reaches no host."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from vgpumgr.core.inventory import GpuDeclaration, HostDeclaration, Inventory, SlotDeclaration, VmDeclaration

SCHEMA = "vgpumgr.inventory/1"


@click.group()
def inventory() -> None:
    """The declared hosts, GPUs and VMs."""


@inventory.command()
@click.option("-i", "--inventory", "folder", metavar="DIR", help="The inventory's folder.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def check(folder: str | None, output: str) -> None:
    """Read the inventory and report every problem with its file and line; exit 2 where there is one.

    What is declared and not built yet is told too, and is no error. No host is reached.
    """
    from vgpumgr.controller.inventory_files import find_inventory, load

    home = Path.home()
    path = find_inventory(folder, os.environ, Path.cwd(), home)
    found = load(path, home=home, environ=os.environ)
    if output == "json":
        click.echo(json.dumps(as_document(found), indent=2, ensure_ascii=False))
        return
    for finding in found.findings:
        click.echo(str(finding))
    click.echo(summary(found))


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


def _host(host: HostDeclaration) -> dict[str, object]:
    endpoint = host.endpoint
    return {
        "name": host.name,
        "address": endpoint.address,
        "port": endpoint.port,
        "user": endpoint.user,
        "key_file": endpoint.key_file,
        "known_hosts": endpoint.known_hosts,
        "policy": host.policy,
        "fgpu_per_gpu": dict(host.fgpu_per_gpu),
        "gpus": [_gpu(gpu) for gpu in host.gpus],
        "vms": [_vm(vm) for vm in host.vms.values()],
        "where": str(host.where),
    }


def _gpu(gpu: GpuDeclaration) -> dict[str, object]:
    scheduler = gpu.scheduler
    return {
        "gpu": gpu.gpu,
        "mode": gpu.mode,
        "scheduler": {
            "policy": scheduler.policy,
            "time_slice_ms": scheduler.time_slice_ms,
            "frequency_hz": scheduler.frequency_hz,
            "averaging_factor": scheduler.averaging_factor,
        }
        if scheduler
        else None,
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
