"""The command reserve: keep places for VMs to come, list them, give them up."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.params import asking, choosing, rows, wishes
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.numbers import Whole
from vgpumgr.cli.params.options import common_options, is_given
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.profiles import RESERVATIONS
from vgpumgr.cli.text import output, reservation_text

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.reservations import Changed
    from vgpumgr.controller.results import Consent, Planned
    from vgpumgr.core.slot.reserving import ReservationPlan, ReserveRequest

_FORM = "give a wish (`vgpumgr reserve --profile 8Q --for team-a`), `list`, or `cancel NAME`"


@click.command()
@click.argument("what", nargs=-1, metavar="[list | cancel NAME]")
@wishes.options
@click.option("--count", type=Whole(1, 1000), default=1, metavar="N", help="How many vGPUs (default: 1).")
@click.option("--for", "owner", metavar="WHO", help="For whom; also the reservation's name, if --name gives none.")
@click.option("--name", metavar="NAME", help="The reservation's name, by which attach takes a place of it.")
@click.option("--ttl", type=Duration(), default="7d", show_default=True, metavar="TIME", help="How long: 30m, 12h, 7d.")
@choosing.on("Only these hosts (default: all hosts).")
@wishes.policy_option
@rows.options(RESERVATIONS)
@common_options
def reserve(
    settings: Settings,
    *,
    what: tuple[str, ...],
    count: int,
    owner: str | None,
    name: str | None,
    ttl: float,
    on: str | None,
    policy: str | None,
    **asked: str | bool | None,
) -> int:
    """Keep places for VMs that do not exist yet; list them; give them up.

    \b
      vgpumgr reserve --profile 8Q --count 4 --for team-a --ttl 7d
      vgpumgr reserve list
      vgpumgr attach vm05 --profile 8Q --reservation team-a
      vgpumgr reserve cancel team-a

    If fewer than N places are free, no place is kept. Repeating the command changes nothing. Each place is recorded on
    its host, so every controller honours it, also after a reboot: no other vGPU is placed there, and capacity does not
    count it as free. A place is kept until a VM takes it, until it is cancelled, or until TIME has passed by its host's
    clock. `list` also shows the places that the inventory declares. `list` and `cancel` accept no options that describe
    a reservation or its vGPUs.
    """
    hosts = () if on is None else (on,)
    match what:
        case ():
            if not any(asked.values()):
                raise errors.UsageError("nothing is asked for", hint=_FORM)
            if name is None and owner is None:
                raise errors.UsageError("the reservation has no name", hint="give it one with --for or --name")
            start = time.monotonic()
            request = asked_for(asked, owner=owner, name=name or owner or "", ttl=ttl)
            changed = make(settings, request, hosts, policy, count)
            return _end(settings, changed, reservation_text.reserved(request, changed, time.monotonic() - start))
        case ("list",) | ("cancel", _) if given := _given(*asked, "count", "owner", "name", "ttl", "policy"):
            raise errors.UsageError(f"reserve {what[0]} takes no {given[0]}", hint="only making a reservation takes it")
        case ("list",):
            return _list(settings, hosts)
        case ("cancel", which):
            return _cancel(settings, which, hosts)
        case ("cancel",):
            hint = "`vgpumgr reserve list` shows the names: vgpumgr reserve cancel NAME"
            raise errors.UsageError("reserve cancel needs the name of a reservation", hint=hint)
        case _:
            text = " ".join(what)
            hint = f"a reservation's name is given as --name {shlex.quote(text)}" if any(asked.values()) else _FORM
            raise errors.UsageError(f"reserve does not know {text!r}", hint=hint)


def _given(*names: str) -> list[str]:
    """Those of the command's options that the user gave."""
    options = click.get_current_context().command.params
    return [one.opts[-1] for one in options if one.name in names and is_given(one.name)]


def asked_for(asked: dict[str, str | bool | None], *, owner: str | None, name: str, ttl: float) -> ReserveRequest:
    """The request for a reservation. Raises UsageError and BadName."""
    from vgpumgr import names
    from vgpumgr.core.slot import reserving

    if ttl > reserving.LONGEST_S:
        raise errors.UsageError("a reservation ends within a year", hint="a GPU that stays free for good is cordoned")
    wish, conditions = wishes.read("reserve", asked)
    return reserving.ReserveRequest(
        name=reserving.parse_name(name),
        wish=wish,
        conditions=conditions,
        places=(),
        owner=None if owner is None else names.parse_owner(owner),
        ttl_s=int(ttl),
    )


def make(
    settings: Settings, request: ReserveRequest, hosts: tuple[str, ...], policy: str | None, count: int
) -> Changed:
    """Reserve what is asked for; `place --hold` does so, too."""
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report, reservations

    context = build_context(settings)
    consent: Consent[Planned[ReservationPlan]] = asking.consent_to(settings, lambda _plan: (), None)
    by = report.policies(context, hosts, policy)[0]
    return reservations.reserve(context, request, hosts, consent, policy=by, count=count)


def _list(settings: Settings, hosts: tuple[str, ...]) -> int:
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import reservations
    from vgpumgr.documents import offer as documents

    context = build_context(settings)
    fleet = reservations.reservations(context, hosts)
    found = [one for of_host in fleet.views for one in of_host]
    read = context.inventory.chosen(hosts)
    failed = {host for host, _ in fleet.errors}
    none = output.none_on("no reservation", [one.name for one in read if one.name not in failed])
    printing.print_rows(settings, RESERVATIONS, documents.reservations(fleet, found), none=none)
    return output.end(settings, fleet)


def _cancel(settings: Settings, name: str, hosts: tuple[str, ...]) -> int:
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import reservations
    from vgpumgr.core.slot import reserving

    consent: Consent[Planned[ReservationPlan]] = asking.consent(
        settings,
        "reserve cancel",
        lambda _planned: (),
        question=f"Give up the places of {name} on {{host}}?",
    )
    changed = reservations.cancel(build_context(settings), reserving.parse_name(name), hosts, consent)
    return _end(settings, changed, reservation_text.given_up(name, changed))


def _end(settings: Settings, changed: Changed, closing: str) -> int:
    from vgpumgr.documents import offer as documents

    document = documents.reservations(changed.fleet, changed.rows, changed.outcome)
    printing.print_rows(settings, RESERVATIONS, document, none="")
    return end(settings, changed, closing)


def end(settings: Settings, changed: Changed, closing: str) -> int:
    """Print the last line and what could not be read. Returns the exit code."""
    from vgpumgr.errors import Outcome, worst_exit

    if settings.for_people and closing:
        output.echo(closing)
    code = output.end(settings, changed.fleet)
    return worst_exit([code, 3 if changed.outcome == Outcome.WOULD_CHANGE else 0])
