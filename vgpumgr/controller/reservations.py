"""Reservations: keep places for VMs that are to come, list what is kept, give it up."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller import report
from vgpumgr.controller.engine.change import change_host
from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import Consent, Fleet, Reserved
from vgpumgr.core.driver import asking
from vgpumgr.core.reconcile.tasks import CancelReservation, Reserve
from vgpumgr.core.report import capacity, place
from vgpumgr.core.slot import detach, reserving
from vgpumgr.core.slot.reserving import ReservationPlan, ReserveRequest
from vgpumgr.errors import Outcome
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import ChangeResult, Planned
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.policies.policy import Policy
    from vgpumgr.core.report.place import Place
    from vgpumgr.names import GpuUuid, HostName


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The places that a command reserved or gave up, and how it ended. `fleet`: the hosts that it read.

    `places`: where new vGPUs would get them, in order.
    """

    rows: tuple[Reserved, ...]
    outcome: Outcome
    fleet: Fleet[HostName]
    places: tuple[Place, ...] = ()


def reservations(context: Context, hosts: Sequence[str] = ()) -> Fleet[tuple[Reserved, ...]]:
    """The reservations of hosts (all if none is named), without libvirt. Raises UnknownHost."""

    def read(declaration: HostDeclaration) -> tuple[tuple[Reserved, ...], errors.VgpumgrError | None]:
        with open_session(context, declaration) as session:
            facts = session.link.observe(wait_s=context.timing.lock_wait_s).snapshot
        rows = sorted(facts.reservations, key=lambda one: one.vgpu.key[:2])
        return tuple(Reserved(host=facts.host, reservation=one) for one in rows), detach.ledger_broken(facts)

    declarations = context.inventory.chosen(hosts)
    context.say_reading(declarations)
    return read_fleet(declarations, read, context)


def reserve(
    context: Context,
    request: ReserveRequest,
    hosts: Sequence[str],
    consent: Consent[Planned[ReservationPlan]],
    *,
    policy: Policy,
    count: int,
) -> Changed:
    """Keep `count` places for the request, as `place` finds them: all or none. `request.places` does not count.

    Raises NoCapacity, UnknownProfile, ConflictingClaim if there is a reservation of that name, HostError, ApplyError.
    """
    fleet = report.observe_fleet(context, hosts)
    if not fleet.views and fleet.errors:
        raise fleet.errors[0][1]
    there = [view.snapshot.host for view in fleet.views if reserving.named(view.snapshot, request.name)]
    if there:
        raise reserving.exists(request.name, there)
    found = _found(context, fleet, request, policy, count)
    by_host: dict[HostName, list[tuple[int, GpuUuid]]] = defaultdict(list)
    for one in found:
        assert one.gpu_uuid is not None  # without it a GPU takes nothing
        by_host[one.host].append((one.number - 1, one.gpu_uuid))
    done: list[ChangeResult[ReservationPlan]] = []
    try:
        for host, places in by_host.items():
            task = Reserve(request=replace(request, places=tuple(places)))
            done.append(change_host(context, host, task, consent, ReservationPlan, asks=False, name=request.name))
    except errors.VgpumgrError as error:
        _give_up(context, request.name, [one.planned.host for one in done], error)
        raise
    plans = [result.planned.plan for result in done]
    rows = [Reserved(host=plan.host, reservation=one) for plan in plans for one in plan.kept]
    outcome = Outcome.WOULD_CHANGE if consent.check else Outcome.DONE
    return Changed(rows=tuple(rows), outcome=outcome, fleet=_names(fleet), places=found)


def _found(
    context: Context, fleet: Fleet[HostView], request: ReserveRequest, policy: Policy, count: int
) -> tuple[Place, ...]:
    """The places to keep. Raises NoCapacity or UnknownProfile if they are too few."""
    found = place.places(fleet.views, request.wish, request.conditions, policy, count)
    question = capacity.Question(wish=request.wish, conditions=request.conditions)
    unknown = None if found else capacity.nobody_has(fleet.views, fleet.errors, question, context.catalogue)
    if unknown is not None:
        raise unknown
    words = asking.describe(request.wish, request.conditions)
    if (short := place.short(found, policy, count, words)) is not None:
        short.details = (*short.details, *(error.message for _, error in fleet.errors))
        raise short
    return tuple(found)


def _give_up(context: Context, name: str, hosts: Iterable[HostName], error: errors.VgpumgrError) -> None:
    """Cancel what was reserved before an error, and say so in it."""
    left = []
    for host in hosts:
        with contextlib.suppress(errors.VgpumgrError):
            task = CancelReservation(name=name)
            change_host(context, host, task, _silent(), ReservationPlan, asks=False, name=name)
            continue
        left.append(host)
    if left:
        error.details = (*error.details, say("its places on {} stay reserved", ", ".join(left)))
        error.hint = say("`{}` gives them up", reserving.cancel(name))


def _silent() -> Consent[Planned[ReservationPlan]]:
    return Consent(check=False, show=lambda _plan: None, ask=lambda _plan: None, given=True)


def cancel(context: Context, name: str, hosts: Sequence[str], consent: Consent[Planned[ReservationPlan]]) -> Changed:
    """Give up every place of a reservation on the hosts. Raises UnknownName if no host that answers has it."""
    fleet = reservations(context, hosts)
    rows = [one for rows in fleet.views for one in rows if one.reservation.name == name]
    if not rows:
        if fleet.errors:
            raise fleet.errors[0][1]
        raise errors.UnknownName(
            f"no host has a reservation {name!r}", hint=say("`{}` shows what there is", reserving.LIST)
        )
    for host in dict.fromkeys(one.host for one in rows):
        task = CancelReservation(name=name)
        change_host(context, host, task, consent, ReservationPlan, asks=True, name=name)
    outcome = Outcome.WOULD_CHANGE if consent.check else Outcome.DONE
    read = Fleet(views=tuple(dict.fromkeys(one.host for one in rows)), errors=fleet.errors)
    return Changed(rows=tuple(rows), outcome=outcome, fleet=read)


def _names(fleet: Fleet[HostView]) -> Fleet[HostName]:
    return Fleet(views=tuple(view.snapshot.host for view in fleet.views), errors=fleet.errors)
