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
    from collections.abc import Sequence

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import Fleet
    from vgpumgr.core.doctor.illness import Illness

_ILL = 5


@click.command()
@choosing.hosts()
@click.option("--self", "own", is_flag=True, help="What this machine lacks. No host is contacted.")
@rows.options(DOCTOR)
@functools.partial(common_options, formats=(*FORMATS, NAGIOS))
def doctor(settings: Settings, *, hosts: tuple[str, ...], own: bool) -> int:
    """What is wrong on the hosts: what shows it, what it leads to, and what mends it. Read-only; exit 5 if anything is.

    \b
      vgpumgr doctor
      vgpumgr doctor kvm01
      vgpumgr doctor --self
      vgpumgr doctor -o nagios

    With -o nagios it is a monitoring plugin: one line with perfdata, exit 0, 1, 2 or 3. `vgpumgr docs doctor` has the
    list of illnesses.
    """
    if own and hosts:
        raise UsageError("--self and hosts cannot be combined", hint="--self is about this machine alone")
    if settings.output != NAGIOS:
        return _tell_own(settings) if own else _tell(settings, hosts)
    from vgpumgr.core.doctor import nagios

    try:
        if own:
            answer = nagios.answer(_examine_own(settings), hosts=1, unread=())
        else:
            fleet = _examine(settings, hosts)
            unread = [host for host, _ in fleet.errors]
            answer = nagios.answer(_all(fleet), hosts=len(fleet.views), unread=unread)
    except VgpumgrError as error:
        answer = nagios.unknown(error.message)
    output.echo(answer.line)
    return answer.status


def _tell(settings: Settings, hosts: tuple[str, ...]) -> int:
    from vgpumgr.documents import doctor as documents

    fleet = _examine(settings, hosts)
    found = _all(fleet)
    none = f"nothing is wrong on {len(fleet.views)} host{'' if len(fleet.views) == 1 else 's'}" if fleet.views else ""
    _print(settings, documents.of_hosts(fleet, found), found, none)
    return worst_exit([_exit(found), output.end(settings, fleet)])


def _tell_own(settings: Settings) -> int:
    from vgpumgr.documents import doctor as documents

    found = _examine_own(settings)
    _print(settings, documents.of_controller(found), found, "nothing is wrong on this machine")
    return _exit(found)


def _examine_own(settings: Settings) -> tuple[Illness, ...]:
    from vgpumgr.controller import environment, own_machine

    return own_machine.examine(lambda: environment.load_inventory(settings.inventory, settings.group))


def _examine(settings: Settings, hosts: tuple[str, ...]) -> Fleet[tuple[Illness, ...]]:
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import doctor as controller

    return controller.examine(build_context(settings), hosts)


def _all(fleet: Fleet[tuple[Illness, ...]]) -> tuple[Illness, ...]:
    from vgpumgr.core.doctor import diagnosis

    return diagnosis.in_order(one for of_host in fleet.views for one in of_host)


def _exit(found: Sequence[Illness]) -> int:
    return _ILL if any(one.is_wrong for one in found) else 0


def _print(settings: Settings, document: dict[str, object], found: Sequence[Illness], none: str) -> None:
    """The rows, and for people each illness in words."""
    printing.print_rows(settings, DOCTOR, document, none=none)
    for one in found if settings.output == "table" else ():
        output.echo()
        for line in (
            f"{one.kind}{_where(one)}: {one.what}",
            f"  seen in: {one.evidence}",
            f"  harm: {one.harm}",
            f"  mend: {one.mend}",
        ):
            output.echo(line)


def _where(one: Illness) -> str:
    """The host, unless the text names it."""
    return "" if one.host is None or one.host in one.what else f" on {one.host}"
