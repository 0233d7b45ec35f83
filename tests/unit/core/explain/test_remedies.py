"""What NoCapacity offers instead: each command of its hint is carried out, and the wish is granted then."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver import asking, scheduler
from vgpumgr.core.evidence import sharing
from vgpumgr.core.explain import remedies
from vgpumgr.core.gpu import mode_plan, size_mode
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.model import claims
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.core.model.view import HostView
from vgpumgr.core.placing import resolve
from vgpumgr.core.slot import attach, detach, how_many
from vgpumgr.core.slot.no_room import Shortage
from vgpumgr.core.slot.plan import Plan
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.model.snapshot import FrameworkName
    from vgpumgr.core.policies.policy import Candidate, Fleet
    from vgpumgr.core.slot.request import AttachRequest

FIRST, SECOND = "0000:41:00.0", "0000:81:00.0"
ASKER = "vm40"
OFFERED = re.compile(r"It would fit (.*?)\. See `vgpumgr capacity`")


def fleet(*boards: str) -> HostView:
    frameworks: dict[str, FrameworkName] = {"T4": MDEV_PF, "A40": MDEV_VF, "L40S": VENDOR_VFIO, "A100": MDEV_VF}
    cards = [builders.gpu(frameworks[board], board, pci) for board, pci in zip(boards, (FIRST, SECOND), strict=False)]
    return builders.host(*cards, vms=40)


def request(gpu: str | None = None, /, **asked: str | bool) -> AttachRequest:
    wish, conditions = asking.read(asked, about=ASKER, spelt=str)
    gpus = None if gpu is None else (builders.gpu_uuid(gpu),)
    return replace(builders.ask(ASKER), wish=wish, conditions=conditions, gpus=gpus)


def as_read(view: HostView) -> HostView:
    """What planning has made, read from the host."""
    return replace(view, planned=frozenset())


def refused(view: HostView, wanted: AttachRequest) -> errors.VgpumgrError:
    with pytest.raises(errors.NoCapacity) as caught:
        attach.plan_attach(view, wanted)
    return remedies.explained(caught.value)


def offers(error: errors.VgpumgrError) -> list[list[str]]:
    """The commands of each way that a hint offers."""
    found = OFFERED.search(error.hint or "")
    return [re.findall(r"`([^`]+)`", way) for way in found[1].split("; or ")] if found else []


def carry_out(view: HostView, command: str) -> HostView | Plan:
    """A command as it stands in a hint. An attach's plan, which is the wish itself."""
    match shlex.split(command):
        case ["vgpumgr", "mode", "set", ("mixed-size" | "equal-size") as wanted, "--on", "kvm01", "--gpu-id", pci]:
            asked = mode_plan.ModeRequest(gpu_uuid=builders.gpu_uuid(pci), mode=wanted)
            return simulate.apply(view, size_mode.plan_mode(view, asked).steps)
        case ["vgpumgr", "scheduler", "set", "--on", "kvm01", "--gpu-id", pci, "--policy", "fixed-share"]:
            wish = scheduler.SchedulerWish(policy="fixed-share")
            shares = scheduler_plan.SchedulerRequest(gpu_uuid=builders.gpu_uuid(pci), wish=wish)
            return simulate.apply(view, scheduler_plan.plan_scheduler(view, shares).steps)
        case ["vgpumgr", "detach", vm, *slot]:
            domain = builders.find(view, vm)
            assert domain.claims is not None
            slots = [slot[1]] if slot else [one.slot for one in domain.claims.claims]
            assert len(slots) == 1, "detach wants --slot where a VM has several"
            return builders.detached(view, vm, *slots)
        case ["vgpumgr", "attach", vm, *words]:
            assert vm == ASKER
            pairs = dict(zip(words[::2], words[1::2], strict=True))
            gpu = pairs.pop("--gpu-id")
            asked_again = {key.removeprefix("--").replace("-", "_"): value for key, value in pairs.items()}
            return attach.plan_attach(view, request(gpu, **asked_again))
        case _:
            raise AssertionError(command)


def test_another_gpu_of_the_host() -> None:
    view = builders.attached(fleet("A40", "A40"), "vm01", "8Q")
    error = refused(as_read(view), request(FIRST, profile="4Q"))
    assert offers(error) == [
        [f"vgpumgr attach {ASKER} --profile 4Q --gpu-id {SECOND}"],
        [f"vgpumgr mode set mixed-size --on kvm01 --gpu-id {FIRST}"],
        ["vgpumgr detach vm01"],
    ]
    assert error.hint is not None
    assert f"on {FIRST} after `vgpumgr detach vm01` (frees A40-8Q of vm01)" in error.hint


class Nothing:
    """A policy that uses no GPU."""

    name = "nothing"

    def order(self, _candidates: Sequence[Candidate], _fleet: Fleet) -> Sequence[Candidate]:
        return ()

    def why(self, _candidate: Candidate) -> str:
        return "is kept"


@pytest.mark.parametrize(
    ("origin", "way"),
    [(claims.ATTACH, "--policy names another. "), (claims.INVENTORY, "`policy` in the inventory names another. ")],
)
def test_what_only_the_policy_leaves_out_does_not_fit_now_but_fits_where_it_is_not_asked(
    origin: claims.Origin, way: str
) -> None:
    error = refused(fleet("A40", "A40"), replace(request(profile="4Q"), policy=Nothing(), origin=origin))
    assert error.hint is not None
    assert error.hint.startswith(f"the policy nothing leaves out a GPU that has room; {way}It would fit on {FIRST}")
    where = f"gpu_id: '{FIRST}'" if origin == claims.INVENTORY else f"--profile 4Q --gpu-id {FIRST}`"
    assert where in error.hint
    assert "fits now" not in error.hint


def test_a_gpu_that_the_policy_leaves_out_beside_a_full_one_is_named() -> None:
    view = builders.attached(fleet("A40", "A40"), "vm01", "48Q")
    error = refused(view, replace(request(profile="4Q"), policy=Nothing()))
    assert offers(error)[0] == [f"vgpumgr attach {ASKER} --profile 4Q --gpu-id {SECOND}"]
    half = refused(
        builders.attached(fleet("A40", "A40"), "vm01", "24Q"), replace(request(profile="4Q"), policy=Nothing())
    )
    assert half.hint is not None
    assert f"--policy names another. fits now: A40-24Q on {FIRST} (1 left). It would fit on {SECOND}" in half.hint


def test_of_a_vm_that_is_to_come_no_command_is_offered() -> None:
    asked = request(profile="4Q")
    view = replace(fleet("A40"), policy=Nothing())
    assert remedies.of_one_more(view, asked.wish, asked.conditions, by="me", at="now") == ""


def test_an_amount_says_as_what_it_would_fit() -> None:
    error = refused(builders.attached(fleet("A40"), "vm01", "4Q"), request(gpu_memory="5G"))
    assert f"on {FIRST} in mixed-size mode, as 6C: `vgpumgr mode set" in (error.hint or "")


@pytest.mark.parametrize(
    ("there", "commands"),
    [
        ([("vm01", "8Q"), ("vm02", "8Q")], ["detach vm01"]),
        ([("vm01", "4Q"), ("vm02", "4Q")], ["detach vm01", "detach vm02"]),
        ([(f"vm{number:02}", "4Q") for number in range(1, 5)], [f"detach vm{number:02}" for number in range(1, 5)]),
        ([("vm01", "8Q"), ("vm01", "8Q")], ["detach vm01 --slot big"]),
    ],
    ids=["only room is missing: any one", "another size: all of it", "another size, and full", "one of several slots"],
)
def test_what_has_to_go_for_an_8q_is_named(there: list[tuple[str, str]], commands: list[str]) -> None:
    view = fleet("T4")
    for vm, profile in there:
        taken = builders.find(view, vm).claims is not None
        view = builders.attached(view, vm, profile, slot="big" if taken else DEFAULT_SLOT)
    assert offers(refused(as_read(view), request(profile="8Q"))) == [[f"vgpumgr {command}" for command in commands]]


def test_neighbours_go_in_mixed_size_mode() -> None:
    """The fewest that leave a hole of that size."""
    view = fleet("A40")
    wanted = mode_plan.ModeRequest(gpu_uuid=builders.gpu_uuid(FIRST), mode="mixed-size")
    view = simulate.apply(view, size_mode.plan_mode(view, wanted).steps)
    for number, profile in enumerate(("12Q", "12Q", "12Q", "12Q"), 1):
        view = builders.attached(view, f"vm{number:02}", profile)
    (commands,) = offers(refused(as_read(view), request(profile="24Q")))
    assert len(commands) == 2


def test_what_is_used_declared_foreign_or_only_planned_does_not_have_to_go() -> None:
    full = as_read(builders.attached(fleet("T4"), "vm01", "16Q"))
    assert offers(refused(full, request(profile="16Q"))) == [["vgpumgr detach vm01"]]
    used = builders.running(full, "vm01")
    declared = builders.change_claim(full, lambda claim: replace(claim, origin=claims.INVENTORY))
    own = builders.attached(fleet("T4"), "vm01", "16Q")  # the plan of this run, and nothing that was read
    foreign = builders.with_foreign(fleet("T4"), "16Q")
    for view in (used, declared, own, foreign):
        assert offers(refused(view, request(profile="16Q"))) == []


def test_a_gpu_with_another_policy_can_be_set_to_it() -> None:
    view = as_read(builders.attached(fleet("A40"), "vm01", "4Q"))
    error = refused(view, request(gpu_memory="4G", compute="fixed-share"))
    assert offers(error) == [[f"vgpumgr scheduler set --on kvm01 --gpu-id {FIRST} --policy fixed-share"]]
    assert f"on {FIRST} with the scheduler fixed-share, as 4C: " in (error.hint or "")
    assert "`, which is then the scheduler of vm01, too" in (error.hint or "")


def test_who_has_to_be_shut_off_for_another_policy_is_named() -> None:
    wanted = request(gpu_memory="4G", compute="fixed-share")
    two = as_read(builders.attached(builders.attached(fleet("A40"), "vm01", "4Q"), "vm02", "4Q"))
    error = refused(builders.running(builders.running(two), "vm02"), wanted)
    assert f"on {FIRST} with the scheduler fixed-share, as 4C, once vm01 and vm02 are shut off: `" in (error.hint or "")
    assert "`, which is then the scheduler of vm01 and vm02, too" in (error.hint or "")
    foreign = as_read(builders.with_foreign(fleet("A40"), "4Q"))
    assert offers(refused(foreign, wanted)) == []


def test_the_gpu_that_disturbs_nobody_is_offered_first() -> None:
    view = as_read(builders.running(builders.attached(fleet("A40", "A40"), "vm01", "4Q")))
    error = refused(view, request(gpu_memory="4G", compute="fixed-share"))
    assert offers(error) == [[f"vgpumgr scheduler set --on kvm01 --gpu-id {SECOND} --policy fixed-share"]]


def test_a_declared_slot_is_told_what_to_declare() -> None:
    view = builders.attached(fleet("A40", "A40"), "vm01", "8Q")
    error = refused(as_read(view), replace(request(FIRST, profile="4Q"), origin=claims.INVENTORY))
    assert f"on {SECOND} (in the inventory, gpu_id: '{SECOND}')" in (error.hint or "")


@st.composite
def hosts(draw: st.DrawFn) -> HostView:
    """A host with vGPUs, some of which are in use."""
    boards = draw(st.lists(st.sampled_from(["T4", "A40", "L40S", "A100"]), min_size=1, max_size=2))
    mixed = draw(st.booleans())
    one = st.tuples(st.sampled_from(["4Q", "8Q", "16Q", "24C", "48Q", "10C", "1B"]), st.booleans())
    there = draw(st.lists(one, max_size=14))
    view = fleet(*boards)
    if mixed and boards[0] != "T4":
        wanted = mode_plan.ModeRequest(gpu_uuid=builders.gpu_uuid(FIRST), mode="mixed-size")
        view = simulate.apply(view, size_mode.plan_mode(view, wanted).steps)
    for number, (profile, runs) in enumerate(there, 1):
        try:
            view = builders.attached(view, f"vm{number:02}", profile)
        except errors.NoCapacity:
            continue
        view = builders.running(view, f"vm{number:02}") if runs else view
    return as_read(view)


WISHES = st.sampled_from(
    [
        {"profile": "8Q"},
        {"profile": "24C"},
        {"gpu_memory": "5G"},
        {"gpu": "0.5"},
        {"gpu": "0.2", "max_waste": "10"},
        {"gpu_memory": "4G", "compute": "fixed-share"},
    ]
)


@LAW
@given(view=hosts(), asked=WISHES, named=st.booleans())
def test_every_hint_is_true(view: HostView, asked: dict[str, str | bool], named: bool) -> None:
    wanted_by = request(FIRST if named else None, **asked)
    try:
        attach.plan_attach(view, wanted_by)
    except errors.NoCapacity as error:
        ways = offers(error)
    else:
        return
    for commands in ways:
        now: HostView | Plan = view
        for command in commands:
            assert not isinstance(now, Plan)
            now = carry_out(now, command)
        plan = now if isinstance(now, Plan) else attach.plan_attach(now, wanted_by)
        assert plan.placed is not None


def fits(view: HostView, wanted: AttachRequest) -> int:
    """How often a wish fits."""
    ask, barred = resolve.Ask.at_host(view, wanted.wish, wanted.conditions), sharing.barred_functions(view)
    return sum(how_many.how_many(view, gpu, ask, barred).count or 0 for gpu in view.snapshot.gpus)


@LAW
@given(view=hosts(), asked=WISHES)
def test_after_what_is_said_to_make_room_for_one_more_one_more_fits(
    view: HostView, asked: dict[str, str | bool]
) -> None:
    wanted = request(**asked)
    ways = remedies.of_one_more(view, wanted.wish, wanted.conditions, by="anna@ctl1", at="2026-11-22T12:00:00Z")
    for way in filter(None, ways.split("; or ")):
        now: HostView | Plan = view
        for command in re.findall(r"`([^`]+)`", way):
            assert not isinstance(now, Plan)
            now = carry_out(now, command)
        assert isinstance(now, HostView)
        assert fits(now, wanted) > fits(view, wanted), way


def test_an_odd_host_keeps_nobody_from_the_refusal_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    view = builders.attached(fleet("A40"), "vm01", "8Q")
    with pytest.raises(errors.NoCapacity) as caught:
        attach.plan_attach(as_read(view), request(profile="4Q"))

    def broken(*_: object) -> object:
        raise KeyError("a VM of a kind that nobody knows")

    monkeypatch.setattr(detach, "plan_detach", broken)
    assert remedies.explained(caught.value) is caught.value
    asked = caught.value.shortage
    assert isinstance(asked, Shortage)
    assert "detach" not in remedies.of_one_more(as_read(view), asked.ask.wish, asked.ask.conditions, by="", at="")
