"""`vgpumgr inventory check`: read the whole inventory and report its problems. No host is contacted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import rows
from vgpumgr.cli.params.options import common_options, root_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.hosts import INVENTORY
from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import counted

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.inventory import Inventory


@click.group()
@root_options
def inventory() -> None:
    """The declared hosts, GPUs and VMs."""


@inventory.command()
@rows.options(INVENTORY)
@common_options
def check(settings: Settings) -> int:
    """Read the inventory and report every problem with its file and line; exit 2 if there is one.

    A request for a type that NVIDIA's list lacks is reported, but is no error. GPU instances that a board of
    `vgpumgr_boards` cannot hold together are a problem. If the last `reconcile` or `plan --record` here met another
    inventory on a host, and no vgpumgr_site tells the two apart, that is reported, too. No host is contacted.
    """
    from vgpumgr import resources
    from vgpumgr.controller import environment, recording
    from vgpumgr.core.driver import catalogue
    from vgpumgr.core.inventory import report, unserved
    from vgpumgr.core.usage import runs
    from vgpumgr.documents import inventory as documents

    site = environment.load_inventory(settings.inventory, settings.group)
    types = catalogue.parse(resources.catalogue_text())
    impossible = unserved.problems(site, types)
    if impossible:
        raise report.refusal(site.root, impossible)
    others = runs.without_site(site, recording.last().hosts)
    site = replace(site, findings=(*site.findings, *unserved.findings(site, types), *others))
    if settings.output != "table" or settings.columns is not None:
        printing.print_rows(settings, INVENTORY, documents.document(site))
    if not settings.for_people:
        for finding in site.findings:
            output.print_warning(settings, str(finding))
        return 0
    for finding in site.findings:
        output.echo(str(finding))
    output.echo(hypervisors(site))
    output.echo(summary(site))
    return 0


def hypervisors(found: Inventory) -> str:
    """One line: which of the inventory's hosts are ours, and which are not."""
    from vgpumgr.core.inventory.whose import listed

    left_out = found.whose.left_out
    return f"hypervisors: {found.whose}" + (f"; left out: {listed(left_out)}" if left_out else "")


def summary(found: Inventory) -> str:
    """One line: how much was read, and that it has no problems."""
    vms = sum(len(host.vms) for host in found.hosts.values())
    findings = len(found.findings)
    suffix = f", {counted(findings, 'finding')}" if findings else ""
    return f"{counted(len(found.hosts), 'host')}, {counted(vms, 'VM')} declared; no problems{suffix}"
