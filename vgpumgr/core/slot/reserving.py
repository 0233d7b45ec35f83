"""Reservations: places on a host's GPUs that are kept for VMs which do not exist yet. How they are made, taken, ended.

A reserved place takes room like the vGPU that it is kept for. Its reservation ends when a VM takes the place, when the
reservation is cancelled, or when its time is over by the host's clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vgpumgr import errors, names
from vgpumgr.core import simulate
from vgpumgr.core.evidence import sharing
from vgpumgr.core.model.reservation import Reservation, Terms
from vgpumgr.core.placing import division, new_vgpu, placement, resolve
from vgpumgr.core.slot import detach, how_many
from vgpumgr.core.slot import plan as plans
from vgpumgr.core.step import SetReservation
from vgpumgr.names import Slot, VmName
from vgpumgr.wording import Command, Option, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.asking import Conditions
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.placing.resolve import Ask
    from vgpumgr.names import GpuUuid, HostName

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
LONGEST_S = 366 * 86400
LIST: Final = Command("vgpumgr", "reserve", "list")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveRequest:
    """`places`: each place's number within the reservation, from 0, and its GPU. `ttl_s`: for how many seconds."""

    name: str
    wish: Wish
    conditions: Conditions
    places: tuple[tuple[int, GpuUuid], ...]
    owner: str | None
    ttl_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationPlan(plans.AnyPlan):
    """Steps that reserve or give up places of one reservation on a host. `name`: the reservation's name."""

    host: HostName
    name: str

    @property
    def kept(self) -> tuple[Reservation, ...]:
        """The places that the plan reserves."""
        steps = [step for step in self.steps if isinstance(step, SetReservation)]
        return tuple(Reservation(vgpu=step.vgpu, terms=step.terms) for step in steps if step.terms is not None)

    @property
    def about(self) -> str:
        return f"reservation {self.name}"

    @property
    def gpus(self) -> tuple[str, ...]:
        return ()  # nothing is written to a GPU

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        return plans.of_host(view)


def parse_name(text: str) -> str:
    """Check the name of a reservation. Raises BadName."""
    if _NAME.fullmatch(text) is None:
        raise errors.BadName(
            f"not a name of a reservation: {text[:60]!r}",
            hint=say("1 to 40 of a-z 0-9 -, for example {}", Option("--name", "team-a")),
        )
    return text


def slot_of(number: int) -> Slot:
    """The slot that stands for the place with this number (from 0) in a reservation."""
    return Slot(f"vgpu{number}")


def named(facts: HostSnapshot, name: str) -> tuple[Reservation, ...]:
    """The places of a reservation on a host."""
    return tuple(one for one in facts.reservations if one.name == name)


def plan_reserve(view: HostView, request: ReserveRequest, *, by: str, at: str) -> ReservationPlan:
    """Plan to keep the places, each on what those before it leave. Raises NoCapacity, RequestError or LedgerBroken."""
    detach.guard_ledger(view)
    slots = {slot_of(number) for number, _ in request.places}
    if any(one.vgpu.slot in slots for one in named(view.snapshot, request.name)):
        raise exists(request.name, view.snapshot.host)
    ask = resolve.Ask.at_host(view, request.wish, request.conditions)
    terms = Terms(owner=request.owner, by=by, at=at, left_s=request.ttl_s)
    steps: list[SetReservation] = []
    for number, gpu_uuid in request.places:
        only = [gpu for gpu in view.snapshot.gpus if gpu.uuid == gpu_uuid]
        step = keep(view, ask, (request.name, slot_of(number)), only, terms)
        steps.append(step)
        view = simulate.apply_one(view, step)
    return ReservationPlan(host=view.snapshot.host, name=request.name, steps=tuple(steps), findings=())


def keep(
    view: HostView, ask: Ask, place: tuple[str, Slot], among: Sequence[Gpu] | None, terms: Terms
) -> SetReservation:
    """The step that keeps a place, as attach would find it `among` these GPUs, or all. Raises NoCapacity.

    `place`: the reservation's name, and the slot that stands for the place.
    """
    facts, (name, slot) = view.snapshot, place
    found = placement.consider(facts, ask, among=among, barred=sharing.barred_functions(view))
    spot = next(iter(found.candidates), None)
    shut = spot and how_many.shut_to_every_vm(view, spot.gpu, spot.parent)
    if spot is None or shut is not None:
        why = shut.why if shut else found.refused[0][1].text if found.refused else "it is gone"
        where = ", ".join(gpu.pci for gpu in among or facts.gpus) or "it"
        raise errors.NoCapacity(
            say("GPU {} of {} takes no more of it: {}", where, facts.host, why),
            hint="something changed there meanwhile: run the command again",
        )
    mode, kind = division.of(spot.gpu), spot.choice.type
    vgpu = new_vgpu.spec(
        new_vgpu.Owner(vm=names.compute_reservation_uuid(name), vm_name=VmName(name), slot=slot, generation=0),
        spot.gpu,
        spot.parent,
        kind,
        placement_id=mode.placement_id(facts, spot.gpu, kind, before=None),
        home=mode.home(facts, spot.gpu, kind, before=None),
    )
    return SetReservation(host=facts.host, vgpu=vgpu, terms=terms, before=None)


def plan_cancel(view: HostView, name: str) -> ReservationPlan:
    """Plan to give up every place of a reservation on a host. Raises LedgerBroken."""
    detach.guard_ledger(view)
    return ReservationPlan(
        host=view.snapshot.host,
        name=name,
        steps=tuple(ended(view.snapshot, one) for one in named(view.snapshot, name)),
        findings=(),
    )


def ended(facts: HostSnapshot, one: Reservation) -> SetReservation:
    """The step that ends the reservation of a place."""
    return SetReservation(host=facts.host, vgpu=one.vgpu, terms=None, before=one.terms)


def taker(domain: Domain, slot: Slot) -> str:
    """How a reserved place records the slot whose vGPU is being made there (Terms.taker): VM UUID/slot."""
    return f"{domain.uuid}/{slot}"


def marked(facts: HostSnapshot, one: Reservation, domain: Domain, slot: Slot) -> tuple[SetReservation, ...]:
    """The step that records who takes a place; none if its virtual function shows that, or if it is on record."""
    terms = replace(one.terms, taker=taker(domain, slot))
    if one.vgpu.vf_index is not None or terms == one.terms:
        return ()
    return (SetReservation(host=facts.host, vgpu=one.vgpu, terms=terms, before=one.terms),)


def without(view: HostView, one: Reservation) -> HostView:
    """The host as if that place were not reserved."""
    return simulate.apply_one(view, ended(view.snapshot, one))


def serving(view: HostView, name: str, ask: Ask) -> tuple[Reservation, ...]:
    """The places of a reservation that serve a wish, in their order. Raises RequestError or NoCapacity if none does."""
    facts = view.snapshot
    there = named(facts, name)
    if not there:
        raise errors.UnknownName(
            say("{} has no reservation {}", facts.host, repr(name)),
            hint=say("`{}` shows those of all hosts; it may have ended", LIST),
        )
    found = tuple(one for one in there if fits_wish(facts, one.vgpu, ask))
    if not found:
        types = ", ".join(sorted({one.vgpu.type_name for one in there}))
        raise errors.NoCapacity(
            say("the reservation {} on {} keeps {}, which does not serve this", name, facts.host, types),
            hint=say("ask for what it keeps, or leave {} out", Option("--reservation")),
        )
    return found


def fits_wish(facts: HostSnapshot, vgpu: VgpuSpec, ask: Ask) -> bool:
    """Whether a vGPU, or a place that is reserved for one, serves a wish."""
    gpu = facts.gpu_by_uuid(vgpu.gpu_uuid)
    choices = resolve.choices(gpu, ask) if gpu is not None and resolve.unmet(gpu, ask.conditions) is None else ()
    return isinstance(choices, tuple) and any(choice.type.type_name == vgpu.type_name for choice in choices)


def cancel(name: str) -> Command:
    """The command that gives a reservation up."""
    return Command("vgpumgr", "reserve", "cancel", name)


def guard_count(name: str, there: int, count: int) -> None:
    """Raise ConflictingClaim if a reservation has more places than `count`."""
    if there > count:
        raise errors.ConflictingClaim(
            say("the reservation {} keeps {} places, not {}", name, there, count),
            hint=say("`{}` shows them; to keep fewer, first `{}`, then reserve again", LIST, cancel(name)),
        )


def exists(name: str, host: HostName) -> errors.RequestError:
    """The error if another reservation has that name."""
    return errors.ConflictingClaim(
        say("there is another reservation {} on {}", name, host),
        hint=say("give another name ({}), or first `{}`", Option("--name"), cancel(name)),
    )


def unplaced(name: str) -> errors.NoCapacity:
    """The error if none of a reservation's places can be taken."""
    return errors.NoCapacity(
        say("no place of the reservation {} can be taken now", name),
        hint=say("`{}` shows them; after a reboot `vgpumgr reconcile` first gives their GPUs their modes again", LIST),
    )
