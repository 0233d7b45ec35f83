"""The command place: where VMs that do not exist yet would get their vGPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import candidates, choosing, rows, wishes
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.numbers import Whole
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.profiles import PLACES
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings


@click.command()
@wishes.options
@click.option("--count", type=Whole(1, 1000), default=1, metavar="N", help="How many vGPUs (default: 1).")
@choosing.on("Only these hosts (default: all hosts).")
@click.option(
    "--policy",
    metavar="NAME|all",
    shell_complete=candidates.policies,
    help="The policy that chooses a GPU; all: what each built-in policy would do. Default: the hosts' own if they all have the same one, else least-fragmentation.",
)
@click.option("--hold", type=Duration(), metavar="TIME", help="Keep the places for this time, as `reserve` does: 30m.")
@rows.options(PLACES)
@common_options
def place(
    settings: Settings,
    *,
    count: int,
    on: str | None,
    policy: str | None,
    hold: float | None,
    **asked: str | bool | None,
) -> int:
    """Where VMs that do not exist yet would get their vGPUs: host, GPU and place of each, in order. Nothing is
    changed without --hold.

    \b
      vgpumgr place --profile 8Q --count 3
      vgpumgr place --gpu-memory 8G --on rack1 -o json
      vgpumgr place --profile 4Q --count 8 --policy all
      vgpumgr place --profile 8Q --count 3 --hold 30m

    Each vGPU gets a place in the room that those before it leave. Make the VM on that host, then attach: it gets the
    same GPU if nobody else has taken the place in between. With --hold nobody can: the last line names the reservation
    for attach. If fewer than N find a place, exit 5.
    """
    if hold is not None:
        return _held(settings, asked, () if on is None else (on,), policy, count, hold=hold)
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.core.report import capacity
    from vgpumgr.core.report import place as core
    from vgpumgr.documents import offer as documents

    wish, conditions = wishes.read("place", asked)
    context = build_context(settings)
    hosts = () if on is None else (on,)
    policies = report.policies(context, hosts, policy)
    fleet = report.look_for_room(context, hosts, lambda view: view)
    places = [one for policy in policies for one in core.places(fleet.views, wish, conditions, policy, count)]
    question = capacity.Question(wish=wish, conditions=conditions)
    if places or not settings.for_people:
        printing.print_rows(settings, PLACES, documents.place(fleet, question.described, count, places))
    unknown = None if places else capacity.nobody_has(fleet.views, fleet.errors, question, context.catalogue)
    short = [core.short(places, policy, count, question) for policy in policies] if fleet.views else []
    return output.end(settings, fleet, (), [unknown] if unknown is not None else [*filter(None, short)])


def _held(
    settings: Settings,
    asked: dict[str, str | bool | None],
    hosts: tuple[str, ...],
    policy: str | None,
    count: int,
    *,
    hold: float,
) -> int:
    import secrets
    import time

    from vgpumgr import errors
    from vgpumgr.cli.commands import reserve
    from vgpumgr.cli.text import reservation_text
    from vgpumgr.controller import report
    from vgpumgr.core.driver import asking
    from vgpumgr.documents import offer as documents

    if policy == report.ALL_POLICIES:
        raise errors.UsageError("--hold and --policy all cannot be combined", hint="name the policy to place by")
    start = time.monotonic()
    request = reserve.asked_for(asked, owner=None, name=f"place-{secrets.token_hex(4)}", ttl=hold)
    changed = reserve.make(settings, request, hosts, policy, count)
    words = asking.describe(request.wish, request.conditions)
    document = documents.place(changed.fleet, words, count, changed.places, held=(request.name, changed.outcome))
    printing.print_rows(settings, PLACES, document)
    return reserve.end(settings, changed, reservation_text.reserved(request, changed, time.monotonic() - start))
