"""Every way to ask, resolved on one host: what it comes to, why it does not, and the laws of the answer."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from tests.unit.core.slot.test_laws import check_capacity
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver import asking, profiles, scheduler
from vgpumgr.core.driver.asking import Conditions, FgpuMemory
from vgpumgr.core.driver.framebuffer import guest_at_least_mib
from vgpumgr.core.driver.modes import MIXED_SIZE
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.core.placing import fits, placement, resolve
from vgpumgr.core.placing.no_place import Cause
from vgpumgr.core.slot import attach
from vgpumgr.names import GpuUuid

if TYPE_CHECKING:
    from vgpumgr.core.driver.asking import FgpuUnits
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.model.snapshot import FrameworkName, Gpu, VgpuType
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.core.slot.request import AttachRequest

FIRST, SECOND = "0000:41:00.0", "0000:81:00.0"


class Card(NamedTuple):
    """A board as it stands in a host."""

    board: str
    framework: FrameworkName = MDEV_VF
    mixed: bool = False


def asked(**given: str | bool) -> tuple[Wish, Conditions]:
    return asking.read(given, about="vm01", spelt=str)


def fleet(*boards: str | Card, units: FgpuUnits | None = None, vms: int = 3, vfs: int | None = None) -> HostView:
    """A host with these boards."""
    cards = []
    for at, board in enumerate(boards):
        card = board if isinstance(board, Card) else Card(board)
        gpu = builders.gpu(card.framework, card.board, f"0000:{0x41 + 0x40 * at:02x}:00.0", vfs=vfs)
        cards.append(simulate.in_mode(gpu, MIXED_SIZE) if card.mixed else gpu)
    return replace(builders.host(*cards, vms=vms), fgpu_per_gpu=units or {})


def request(vm: str = "vm01", /, **given: str | bool) -> AttachRequest:
    wish, conditions = asked(**given)
    return replace(builders.ask(vm), wish=wish, conditions=conditions)


def plan(view: HostView, vm: str = "vm01", /, **given: str | bool) -> Plan:
    return attach.plan_attach(view, request(vm, **given))


def grants(view: HostView, /, **given: str | bool) -> str:
    """The type that a wish comes to."""
    return builders.created(plan(view, **given)).vgpu.type_name


@pytest.mark.parametrize(
    ("board", "given", "type_name", "waste"),
    [
        ("A40", {"profile": "4Q"}, "A40-4Q", 0),
        ("A40", {"gpu_memory": "4G"}, "A40-4C", 0),
        ("A40", {"gpu_memory": "4G", "series": "Q"}, "A40-4Q", 0),
        ("A40", {"gpu_memory": "5G"}, "A40-6C", 16.67),
        ("A40", {"gpu_memory": "512M", "series": "Q"}, "A40-1Q", 50),
        ("A40", {"gpu": "0.2"}, "A40-12C", 20),
        ("A40", {"gpu": "0.25"}, "A40-12C", 0),
        ("A40", {"gpu": "1"}, "A40-48C", 0),
        ("A40", {"fgpu": "0.5"}, "A40-12C", 0),
        ("A40", {"fgpu": "2"}, "A40-48C", 0),
        ("L40S", {"fgpu": "0.5"}, "L40S-6C", 0),
        ("A100", {"fgpu": "0.5"}, "A100-10C", 0),
        ("A40", {"gpu_memory": "4G", "usable": True}, "A40-6C", 23.35),
        ("H100L", {"gpu_memory": "94G"}, "H100L-94C", 0),
        ("H100L", {"gpu": "0.25"}, "H100L-23C", 0),
        ("H200", {"gpu": "0.5"}, "H200-70C", 0),
    ],
)
def test_what_a_wish_comes_to(board: str, given: dict[str, str | bool], type_name: str, waste: float) -> None:
    made = plan(fleet(board, units={"A40": 2, "L40S": 4, "A100": FgpuMemory(mib=20 * 1024)}), **given)
    assert builders.created(made).vgpu.type_name == type_name
    assert made.placed is not None
    assert made.placed.grant is not None
    assert made.placed.grant.waste_pct == waste


def test_the_claim_says_what_was_asked_and_what_it_came_to() -> None:
    view = simulate.apply(fleet("A40"), plan(fleet("A40"), gpu="0.2", max_waste="30").steps)
    claim = builders.claim_of(view)
    assert claim.asked == "--gpu 0.2 --max-waste 30"
    assert claim.grant == asking.Grant(asked_mib=9831, framebuffer_mib=12288, guest_mib=10704, waste_pct=20)


def test_too_much_waste_is_refused_with_the_number() -> None:
    with pytest.raises(errors.NoCapacity) as refused:
        plan(fleet("A40"), gpu="0.2", max_waste="10")
    assert refused.value.details == (f"{FIRST}  A40  12C would waste 20 % (at most 10 %)",)


def test_an_emptier_gpu_with_a_closer_fit_comes_first_and_says_why() -> None:
    view = builders.attached(fleet("A40", "A40"), "vm02", "8Q")
    made = plan(view, gpu_memory="5G")
    assert (made.placed and made.placed.gpu.pci) == SECOND
    assert grants(view, gpu_memory="5G") == "A40-6C"
    assert made.placed is not None
    assert made.placed.why == f"the closest fit: {FIRST} holds 8Q and would give 8C, 37.5 % waste"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"gpu_memory": "64G"}, "has no C type of 64 GiB or more: its largest is 48C"),
        ({"mig_profile": "2g.10gb"}, "is not in MIG mode"),
        ({"profile": "4Q", "only": "mig"}, "is not in MIG mode"),
        ({"gpu_memory": "48G", "usable": True}, "has no C type of 48 GiB or more: its largest is 48C, of which a guest sees 42864 MiB"),
        ({"fgpu": "3"}, "is less than 72 GiB: a vGPU is of one GPU"),
        ({"profile": "4Q", "compute": "fixed-share"}, "its scheduler is best-effort, not fixed-share"),
    ],
)  # fmt: skip
def test_why_a_gpu_serves_no_wish(given: dict[str, str | bool], why: str) -> None:
    with pytest.raises(errors.NoCapacity) as refused:
        plan(fleet("A40", units={"A40": 2}), **given)
    assert refused.value.details == (f"{FIRST}  A40  {why}",)


def test_without_a_unit_there_is_no_fgpu() -> None:
    with pytest.raises(
        errors.UsageError, match="--fgpu 1 for vm01 cannot be served on kvm01: vgpumgr_fgpu_per_gpu is not set for A40"
    ) as refused:
        plan(fleet("A40", units={"L40S": 2}), fgpu="1")
    assert "vgpumgr_fgpu_per_gpu: {A40: 2}" in (refused.value.hint or "")


def test_a_board_of_which_the_inventory_knows_the_unit_serves_where_another_cannot() -> None:
    assert grants(fleet("L40S", "A40", units={"A40": 2}), fgpu="1") == "A40-24C"


def test_compute_takes_a_gpu_whose_scheduler_has_the_policy() -> None:
    view = fleet("A40", "A40")
    shared = builders.scheduler_state(scheduler.FIXED_SHARE)
    view = builders.change_gpus(view, lambda gpu: replace(gpu, scheduler=shared) if gpu.pci == SECOND else gpu)
    made = plan(view, gpu_memory="4G", compute="fixed-share")
    assert (made.placed and made.placed.gpu.pci) == SECOND


def test_a_scheduler_that_cannot_be_read_meets_no_condition() -> None:
    view = builders.change_gpus(fleet("A40"), lambda gpu: replace(gpu, scheduler=None))
    with pytest.raises(errors.NoCapacity) as refused:
        plan(view, profile="4Q", compute="best-effort")
    assert "its scheduler cannot be read" in refused.value.details[0]


# The same slot again


def served(view: HostView, /, **given: str | bool) -> HostView:
    return simulate.apply(view, plan(view, **given).steps)


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ({"gpu_memory": "4G"}, {"gpu_memory": "4096M", "series": "C"}),
        ({"gpu": "0.5"}, {"gpu": "0.500"}),
        ({"fgpu": "1"}, {"fgpu": "1.0"}),
        ({"gpu": "0.2", "max_waste": "30"}, {"gpu": ".2", "max_waste": "30%"}),
    ],
)
def test_another_spelling_of_the_same_amount_changes_nothing(
    first: dict[str, str | bool], again: dict[str, str | bool]
) -> None:
    view = served(fleet("A40", units={"A40": 2}), **first)
    assert plan(view, **again).steps == ()


def test_what_is_compared_is_the_wish_and_not_what_it_came_to() -> None:
    view = served(fleet("A40"), gpu="0.25")
    with pytest.raises(errors.ConflictingClaim, match=r"requested as --gpu 0\.25"):
        plan(view, gpu_memory="12G")
    with pytest.raises(errors.ConflictingClaim, match=r"requested as --gpu 0\.25"):
        plan(view, profile="12C")


def test_conditions_that_the_vgpu_does_not_meet_are_a_conflict() -> None:
    view = served(fleet("A40"), gpu="0.2")
    with pytest.raises(errors.ConflictingClaim, match="20 % of it wasted, more than --max-waste 10"):
        plan(view, gpu="0.2", max_waste="10")
    with pytest.raises(errors.ConflictingClaim, match="a GPU whose scheduler is best-effort, not fixed-share"):
        plan(view, gpu="0.2", compute="fixed-share")
    with pytest.raises(errors.ConflictingClaim, match="a time-sliced vGPU"):
        plan(view, gpu="0.2", only="mig")
    assert [step.verb for step in plan(view, gpu="0.2", max_waste="25").steps] == ["put_claim", "bind_claim"]
    kept = served(view, gpu="0.2", max_waste="25")
    assert builders.entry_of(kept) == builders.entry_of(view)
    assert plan(kept, gpu="0.2", max_waste="25").steps == ()


def test_conditions_that_held_once_are_not_judged_again() -> None:
    view = served(fleet("A40"), gpu="0.2", compute="best-effort")
    shared = builders.scheduler_state(scheduler.FIXED_SHARE)
    view = builders.change_gpus(view, lambda gpu: replace(gpu, scheduler=shared))
    assert plan(view, gpu="0.2", compute="best-effort").steps == ()


@pytest.mark.parametrize("units", [{"A40": 4}, {"A40": 1}, {}, {"A40": FgpuMemory(mib=1024)}])
def test_another_unit_leaves_every_vgpu_as_it_is(units: FgpuUnits) -> None:
    view = replace(served(fleet("A40", units={"A40": 2}), fgpu="0.5"), fgpu_per_gpu=units)
    assert plan(view, fgpu="0.5").steps == ()
    again = plan(builders.rebooted(view), fgpu="0.5")
    assert builders.created(again).vgpu == builders.entry_of(view).vgpu
    lost = builders.with_snapshot(builders.rebooted(view), ledger=())
    assert builders.created(plan(lost, fgpu="0.5")).vgpu.type_name == "A40-12C"


def test_an_entry_without_a_claim_serves_an_amount_that_its_type_is() -> None:
    view = builders.without_claims(served(fleet("A40"), gpu_memory="5G"))
    assert not any(step.verb == "create_vgpu" for step in plan(view, gpu_memory="5G").steps)
    with pytest.raises(errors.ConflictingClaim, match="ledger holds A40-6C"):
        plan(view, gpu_memory="5G", max_waste="10")
    with pytest.raises(errors.ConflictingClaim, match="ledger holds A40-6C"):
        plan(view, gpu_memory="7G")


# Laws

BOARDS = st.one_of(
    st.just(Card("T4", MDEV_PF)),
    st.builds(
        Card,
        st.sampled_from(["A40", "L40S", "A100", "H100", "H200", "RTXPRO6000"]),
        st.sampled_from([MDEV_VF, VENDOR_VFIO]),
        st.booleans(),
    ),
)
UNITS: FgpuUnits = {"A40": 2, "L40S": 4, "A100": FgpuMemory(mib=10 * 1024), "H100": 5, "T4": 1}
SHARES = st.integers(1, 40).map(lambda number: number / 40)
SERIES = st.sampled_from(["C", "Q"])
GIVEN = st.one_of(
    st.builds(lambda mib, series: {"gpu_memory": f"{mib}M", "series": series}, st.integers(1, 50 * 1024), SERIES),
    st.builds(lambda share, series: {"gpu": f"{share:.6f}", "series": series}, SHARES, SERIES),
    st.builds(lambda share: {"fgpu": f"{share * 3:.6f}"}, SHARES),
    st.builds(lambda gib: {"gpu_memory": f"{gib}G", "usable": True}, st.integers(1, 40)),
    st.sampled_from(["4Q", "8C", "16Q"]).map(lambda text: {"profile": text}),
)


@st.composite
def filled(draw: st.DrawFn) -> HostView:
    """A host of one to three boards after some attaches."""
    view = fleet(
        *draw(st.lists(BOARDS, min_size=1, max_size=3)), units=UNITS, vms=5, vfs=draw(st.sampled_from([3, None]))
    )
    for number, wanted in enumerate(draw(st.lists(GIVEN, max_size=4))):
        try:
            view = simulate.apply(view, plan(view, f"vm{number + 2:02}", **wanted).steps)
        except errors.RequestError:
            continue
    return view


def ask_of(view: HostView, given: dict[str, str | bool]) -> resolve.Ask:
    wish, conditions = asked(**given)
    return resolve.Ask(wish=wish, conditions=conditions, units=view.fgpu_per_gpu)


def enough(gpu: Gpu, vgpu_type: VgpuType, given: dict[str, str | bool]) -> bool:
    """Whether a type serves a wish, said anew: sizes in MiB and shares of the largest type."""
    parsed = vgpu_type.parsed
    if "profile" in given:
        return parsed.short == given["profile"]
    if parsed.slices is not None or parsed.series != given.get("series", "C"):
        return False
    size, board = parsed.size_gb * 1024, max(one.parsed.size_gb for one in (gpu.types or {}).values() if one.parsed.slices is None) * 1024  # fmt: skip
    if "gpu_memory" in given:
        mib = profiles.parse_memory(str(given["gpu_memory"]))
        return (guest_at_least_mib(size, maximum=vgpu_type.max, board=gpu.board) if "usable" in given else size) >= mib
    if "gpu" in given:
        share = Fraction(str(given["gpu"]))
    else:
        unit = UNITS.get(gpu.board or "")
        if unit is None:
            return False
        if isinstance(unit, FgpuMemory):
            return size >= Fraction(str(given["fgpu"])) * unit.mib
        share = Fraction(str(given["fgpu"])) / unit
    return share <= 1 and (Fraction(size, board) >= share or Fraction(1, board // size) >= share)


@LAW
@given(filled(), GIVEN)
def test_no_smaller_type_that_was_possible_would_have_served(view: HostView, given: dict[str, str | bool]) -> None:
    verdict = placement.place(view.snapshot, ask_of(view, given))
    possible = [
        (gpu, fit.type)
        for gpu in view.snapshot.gpus
        for fit in fits.fits(view.snapshot, gpu)
        if enough(gpu, fit.type, given)
    ]
    if isinstance(verdict, placement.NoPlace):
        assert possible == []
        return
    assert enough(verdict.gpu, verdict.type, given)
    here = [kind.size_mib or 0 for gpu, kind in possible if gpu.pci == verdict.gpu.pci]
    assert (verdict.type.size_mib or 0) == min(here)
    if "gpu_memory" in given:
        assert (verdict.type.size_mib or 0) == min(kind.size_mib or 0 for _, kind in possible)


@LAW
@given(filled(), GIVEN)
def test_asking_twice_changes_nothing_and_nothing_is_overcommitted(
    view: HostView, given: dict[str, str | bool]
) -> None:
    try:
        after = served(view, **given)
    except errors.RequestError:
        return
    assert plan(after, **given).steps == ()
    check_capacity(after)
    claim = builders.claim_of(after)
    assert claim.grant is not None
    assert 0 <= claim.grant.waste_pct < 100
    assert claim.grant.guest_mib < claim.grant.framebuffer_mib


def test_a_gpu_that_is_named_is_the_only_candidate() -> None:
    view = builders.attached(fleet("A40", "A40"), "vm02", "8Q")
    only = replace(request(gpu_memory="5G"), gpus=(GpuUuid(builders.gpu_uuid(FIRST)),))
    assert builders.created(attach.plan_attach(view, only)).vgpu.type_name == "A40-8C"


def test_the_reason_of_a_full_gpu_is_that_of_the_size_that_it_is_bound_to() -> None:
    view = fleet("A40", vms=7)
    for number in range(2, 8):
        view = builders.attached(view, f"vm{number:02}", "8Q")
    verdict = placement.place(view.snapshot, ask_of(view, {"gpu_memory": "5G"}))
    assert isinstance(verdict, placement.NoPlace)
    assert verdict.reasons[0][2].cause is Cause.FULL


@pytest.mark.parametrize(
    ("asked", "number"), [("NVIDIA RTX Odd A", 1), ("GRID RTX Odd A", 1), ("NVIDIA Even A", 2), ("NVIDIA A", None)]
)
def test_names_of_no_known_form_are_compared_in_full_but_for_their_first_word(asked: str, number: int | None) -> None:
    """The last word alone, by which the ledger names a type, may be another type's, too."""
    gpu = builders.gpu()
    kind = builders.type_of(gpu, "4Q")
    names = {1: "NVIDIA RTX Odd A", 2: "NVIDIA Even A", 3: "NVIDIA Odd 4Q"}
    odd = {
        key: replace(kind, id=key, name=name, type_name=name.split()[-1], parsed=profiles.name_of(name))
        for key, name in names.items()
    }
    found = resolve.find_type(replace(gpu, types=odd), profiles.parse_profile(asked))
    assert (None if found is None else found.id) == number
    assert resolve.find_type(replace(gpu, types=odd), profiles.parse_profile("4Q")) is None
