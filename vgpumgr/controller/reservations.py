"""Reservations: keep places for VMs that are to come, list what is kept, give it up."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller import report
from vgpumgr.controller.engine.change import change_host
from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.lately import with_history
from vgpumgr.controller.results import Fleet, Reserved
from vgpumgr.core.placing import resolve
from vgpumgr.core.reconcile.tasks import CancelReservation, Reserve
from vgpumgr.core.report import capacity, place
from vgpumgr.core.slot import detach, reserving, to_come
from vgpumgr.core.slot.reserving import ReservationPlan, ReserveRequest
from vgpumgr.errors import Outcome
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, Planned
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.policies.policy import Policy
    from vgpumgr.core.report.place import Place
    from vgpumgr.names import GpuUuid, HostName


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The places that a command reserved or gave up, and how it ended. `fleet`: the hosts that it read.

    `places`: the places that were found for a new reservation, in order. `declared`: the lines of the inventory that
    declare the name, where it was to be given up.
    """

    rows: tuple[Reserved, ...]
    outcome: Outcome
    fleet: Fleet[HostName]
    places: tuple[Place, ...] = ()
    declared: tuple[str, ...] = ()


def reservations(context: Context, hosts: Sequence[str] = ()) -> Fleet[tuple[Reserved, ...]]:
    """The reservations of hosts (all if none is named), the declared ones last. Raises UnknownHost.

    If a host has declared ones, its libvirt is asked, too: what the owners' VMs have already counts as theirs.
    """

    def read(declaration: HostDeclaration) -> tuple[tuple[Reserved, ...], errors.VgpumgrError | None]:
        with open_session(context, declaration) as session:
            view = session.observe() if declaration.reservations else None
            facts = view.snapshot if view else session.link.observe(wait_s=context.timing.lock_wait_s).snapshot
        kept = sorted(facts.reservations, key=lambda one: one.vgpu.key[:2])
        declared = to_come.declared_places(view, declaration) if view else ()
        rows = [Reserved(host=facts.host, reservation=one) for one in kept]
        rows += [Reserved(host=facts.host, reservation=one, declared=True) for one in declared]
        return tuple(rows), detach.ledger_broken(facts)

    declarations = context.inventory.chosen(hosts)
    if any(one.reservations for one in declarations):
        context = with_history(context)
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
    """Keep `count` places for the request, as `place` finds them, or none. Places that are already kept under its name
    stay, and count. `request.places` is not used.

    Raises NoCapacity, UnknownProfile, ConflictingClaim if the name keeps something else or more places, HostError,
    ApplyError.
    """
    fleet = report.look_for_room(context, hosts, lambda view: view)
    if not fleet.views and fleet.errors:
        raise fleet.errors[0][1]
    kept = [one for view in fleet.views for one in _kept(view, request)]
    reserving.guard_count(request.name, len(kept), count)
    slots = {one.reservation.vgpu.slot for one in kept}
    free = (number for number in itertools.count() if reserving.slot_of(number) not in slots)
    missing = [*itertools.islice(free, count - len(kept))]
    found = _found(context, fleet, request, policy, len(missing))
    numbered = zip(missing, found, strict=True)
    plans = _reserve_each(context, request, numbered, consent, kept)
    rows = [*kept, *(Reserved(host=plan.host, reservation=one) for plan in plans for one in plan.kept)]
    outcome = Outcome.UNCHANGED if not missing else Outcome.WOULD_CHANGE if consent.check else Outcome.DONE
    read = Fleet(views=tuple(view.snapshot.host for view in fleet.views), errors=fleet.errors)
    return Changed(rows=tuple(rows), outcome=outcome, fleet=read, places=found)


def _reserve_each(
    context: Context,
    request: ReserveRequest,
    numbered: Iterable[tuple[int, Place]],
    consent: Consent[Planned[ReservationPlan]],
    kept: Iterable[Reserved],
) -> list[ReservationPlan]:
    """Reserve the places, host by host. An error says where places are reserved by then."""
    by_host: dict[HostName, list[tuple[int, GpuUuid]]] = defaultdict(list)
    for number, one in numbered:
        assert one.gpu_uuid is not None  # without it a GPU takes nothing
        by_host[one.host].append((number, one.gpu_uuid))
    done: list[ReservationPlan] = []
    for host, places in by_host.items():
        task = Reserve(request=replace(request, places=tuple(places)))
        try:
            changed = change_host(context, host, task, consent, ReservationPlan, asks=False, name=request.name)
        except errors.VgpumgrError as error:
            hosts = dict.fromkeys([*(one.host for one in kept), *(plan.host for plan in done)])
            if there := ", ".join(hosts):
                text = say("places on {} are reserved; `{}` gives them up", there, reserving.cancel(request.name))
                error.details = (*error.details, text)
            raise
        done.append(changed.planned.plan)
    return done


def _kept(view: HostView, request: ReserveRequest) -> list[Reserved]:
    """What a host keeps under the request's name. Raises ConflictingClaim if that is for somebody or something else."""
    there = reserving.named(view.snapshot, request.name)
    ask = resolve.Ask.at_host(view, request.wish, request.conditions)
    if any(one.terms.owner != request.owner or not reserving.fits_wish(view.snapshot, one.vgpu, ask) for one in there):
        raise reserving.exists(request.name, view.snapshot.host)
    return [Reserved(host=view.snapshot.host, reservation=one) for one in there]


def _found(
    context: Context, fleet: Fleet[HostView], request: ReserveRequest, policy: Policy, count: int
) -> tuple[Place, ...]:
    """The places to keep. Raises NoCapacity or UnknownProfile if they are too few."""
    found = place.places(fleet.views, request.wish, request.conditions, policy, count) if count else []
    question = capacity.Question(wish=request.wish, conditions=request.conditions)
    unknown = (
        None if found or not count else capacity.nobody_has(fleet.views, fleet.errors, question, context.catalogue)
    )
    if unknown is not None:
        raise unknown
    if (short := place.short(found, policy, count, question)) is not None:
        short.details = (*short.details, *(error.message for _, error in fleet.errors))
        raise short
    return tuple(found)


def cancel(context: Context, name: str, hosts: Sequence[str], consent: Consent[Planned[ReservationPlan]]) -> Changed:
    """Give up every place of a reservation on the hosts that answer. Raises HostError or ApplyError."""
    fleet = reservations(context, hosts)
    there = [one for rows in fleet.views for one in rows if one.reservation.name == name]
    rows = [one for one in there if not one.declared]
    for host in dict.fromkeys(one.host for one in rows):
        task = CancelReservation(name=name)
        change_host(context, host, task, consent, ReservationPlan, asks=True, name=name)
    outcome = Outcome.UNCHANGED if not rows else Outcome.WOULD_CHANGE if consent.check else Outcome.DONE
    failed = {host for host, _ in fleet.errors}
    read = [one.name for one in context.inventory.chosen(hosts) if one.name not in failed]
    return Changed(
        rows=tuple(rows),
        outcome=outcome,
        fleet=Fleet(views=tuple(read), errors=fleet.errors),
        declared=tuple(dict.fromkeys(one.reservation.terms.by for one in there if one.declared)),
    )
