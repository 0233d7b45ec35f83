"""The command doctor: what is wrong, and what mends it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import choosing, rows
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.doctor import DOCTOR
from vgpumgr.cli.settings import FORMATS, NAGIOS
from vgpumgr.cli.text import output
from vgpumgr.errors import UsageError, VgpumgrError, worst_exit

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import Fleet
    from vgpumgr.core.doctor.illness import Illness

_ILL = 5


@click.command()
@choosing.hosts()
@click.option("--self", "own", is_flag=True, help="Say what this machine lacks instead. No host is contacted.")
@rows.options(DOCTOR)
@functools.partial(common_options, formats=(*FORMATS, NAGIOS))
def doctor(settings: Settings, *, hosts: tuple[str, ...], own: bool) -> int:
    """Say what is wrong on the hosts, what shows it, what it leads to, and what mends it. Exit 5 if anything is wrong.

    \b
      vgpumgr doctor
      vgpumgr doctor kvm01
      vgpumgr doctor --self
      vgpumgr doctor -o nagios

    It only reads. With -o nagios it is a monitoring plugin: one line with perfdata, exit 0, 1, 2 or 3. `vgpumgr docs
    doctor` has the list of illnesses.
    """
    if own and hosts:
        raise UsageError("--self and hosts cannot be combined", hint="--self is about this machine alone")
    if settings.output == NAGIOS:
        return _plugin(settings, hosts, own=own)
    from vgpumgr.documents import doctor as documents

    fleet, found = _examine(settings, hosts, own=own)
    where = "this machine" if fleet is None else _number(len(fleet.views))
    document = documents.of_controller(found) if fleet is None else documents.of_hosts(fleet, found)
    printing.print_rows(settings, DOCTOR, document, none=where and f"nothing is wrong on {where}")
    for one in found if settings.output == "table" else ():
        output.echo()
        on = "" if one.host is None or one.host in one.what else f" on {one.host}"
        output.echo(f"{one.kind}{on}: {one.what}")
        for label, text in (("seen in", one.evidence), ("harm", one.harm), ("mend", one.mend)):
            output.echo(f"  {label}: {text}")
    ill = _ILL if any(one.is_wrong for one in found) else 0
    return ill if fleet is None else worst_exit([ill, output.end(settings, fleet)])


def _plugin(settings: Settings, hosts: tuple[str, ...], *, own: bool) -> int:
    """Print the line of a monitoring plugin (Nagios). Returns the plugin's exit status."""
    from vgpumgr.core.doctor import nagios

    try:
        fleet, found = _examine(settings, hosts, own=own)
        unread = [host for host, _ in fleet.errors] if fleet else []
        answer = nagios.answer(found, hosts=len(fleet.views) if fleet else 1, unread=unread)
    except VgpumgrError as error:
        answer = nagios.unknown(error.message)
    output.echo(answer.line)
    return answer.status


def _examine(
    settings: Settings, hosts: tuple[str, ...], *, own: bool
) -> tuple[Fleet[tuple[Illness, ...]] | None, tuple[Illness, ...]]:
    """Return what was read of the hosts (None with --self), and all illnesses, the worst first."""
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import doctor as controller
    from vgpumgr.controller import environment, own_machine
    from vgpumgr.core.doctor import diagnosis

    if own:
        return None, own_machine.examine(lambda: environment.load_inventory(settings.inventory, settings.group))
    fleet = controller.examine(build_context(settings), hosts)
    return fleet, diagnosis.in_order(one for of_host in fleet.views for one in of_host)


def _number(hosts: int) -> str:
    return f"{hosts} host{'' if hosts == 1 else 's'}" if hosts else ""
