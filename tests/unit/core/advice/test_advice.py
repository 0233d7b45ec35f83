"""Advice: it never asks for less than was used, says nothing of what is not known, and frees what it says it frees."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.law import LAW
from tests.unit.core.reconcile.host_plans import RUN
from vgpumgr.core import simulate
from vgpumgr.core.advice import rules
from vgpumgr.core.advice.advice import Advice, Held, HostAdvice, Verdict
from vgpumgr.core.advice.gain import Room
from vgpumgr.core.advice.of_host import Advisor
from vgpumgr.core.driver import modes
from vgpumgr.core.driver.scheduler import BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE
from vgpumgr.core.model.snapshot import MDEV_VF
from vgpumgr.core.report import capacity, listing
from vgpumgr.core.usage.tally import ENGINES
from vgpumgr.core.usage.usage_rows import EngineUse, UsageRow
from vgpumgr.core.usage.usage_window import window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.report.listing import VgpuRow

GIB = 1 << 30
DAY_US = 86_400 * 1_000_000
ATTACHED_US = int(datetime.fromisoformat(builders.AT).timestamp()) * 1_000_000
WEEK = window(ATTACHED_US + DAY_US, ATTACHED_US + 8 * DAY_US)
PCI = ("0000:41:00.0", "0000:51:00.0")
SIZES = ("1Q", "2Q", "4Q", "8Q", "16Q", "48Q")


def host(
    *layouts: Sequence[str], runs: Sequence[str] = (), mode: modes.Mode = modes.MIXED_SIZE, vfs: int = 8
) -> HostView:
    """A host of A40s with vGPUs of these profiles, one for each of vm01…; those of `runs` run."""
    cards = [simulate.in_mode(builders.gpu(MDEV_VF, "A40", pci, vfs=vfs), mode) for pci in PCI[: len(layouts)]]
    view = builders.host(*cards, vms=sum(map(len, layouts)) + 1)
    wanted = [(pci, profile) for pci, layout in zip(PCI, layouts, strict=False) for profile in layout]
    for number, (pci, profile) in enumerate(wanted, 1):
        plan = builders.plan_attach(view, f"vm{number:02}", profile, gpus=(builders.gpu_uuid(pci),))
        view = simulate.apply(view, plan.steps)
    for vm in runs:
        view = builders.running(view, vm)
    return view


def used(row: VgpuRow, sm: int | None = 30, gib: float | None = 1.0, *, coverage: float = 1.0, **said: Any) -> UsageRow:
    """What a vGPU used: its peaks, in percent of the GPU and in GiB."""
    size = (row.framebuffer_mib or 0) << 20
    known = 0.0 if sm is None else coverage
    engine = EngineUse(mean=sm, p50=sm, p95=sm, max=sm, series=(), coverage=known)
    whole = dict[str, Any](
        vm=row.vm,
        vm_uuid=row.vm_uuid,
        slot=row.slot,
        host=row.host,
        gpu=row.gpu,
        type_name=row.type_name,
        origin="ours",
        state="running",
        entitled=None,
        used_of_share=None,
        coverage=coverage,
        samples=1,
        engines=dict.fromkeys(ENGINES, engine),
        framebuffer_used_bytes=None,
        framebuffer_max_bytes=None if gib is None else int(gib * GIB),
        framebuffer_size_bytes=size,
        framebuffer_headroom_bytes=None,
        framebuffer_series=(),
        last_us=None,
    )
    return UsageRow(**whole | said)


OFF: dict[str, Any] = {"sm": None, "gib": None, "coverage": 0.0, "off": 1.0, "off_since": 1.0, "state": "off"}


def advise(view: HostView, rows: Sequence[UsageRow], declared: HostDeclaration | None = None) -> HostAdvice:
    room = Room(view=view, declared=declared or declares(), author=RUN)
    return Advisor(room=room, window=WEEK, used=tuple(rows)).advise()


def told(view: HostView, *uses: dict[str, Any] | None, **of: Any) -> HostAdvice:
    """The advice where vm01… used that; None: there is no sample."""
    rows = [used(row, **use) for row, use in zip(listing.rows(view), uses, strict=False) if use is not None]
    return advise(view, rows, **of)


def kinds(found: HostAdvice) -> dict[str | None, str]:
    return {one.row.vm: one.verdict.kind for one in found.advice}


def silent(found: HostAdvice) -> list[str]:
    """Why there is no advice about a vGPU, for each."""
    return [one.text.partition(": ")[2] for one in found.findings]


def advised(one: Advice) -> str | None:
    return None if one.verdict.to is None else one.verdict.to.type_name


def held(profile: str, use: dict[str, Any], policy: Policy | None = None, crowd: float = 0.0) -> Held:
    view = host([profile])
    (row,) = listing.rows(view)
    scheduler = None if policy is None else builders.scheduler_state(policy)
    gpu = replace(view.snapshot.gpus[0], scheduler=scheduler)
    kind = gpu.type_of(row.type_id)
    assert kind is not None
    return Held(row=row, gpu=gpu, type=kind, runs=True, use=used(row, **use), crowd=crowd)


PEAKS = {"sm": st.integers(0, 100), "gib": st.floats(0, 48)}


@LAW
@given(st.sampled_from(SIZES), st.fixed_dictionaries(PEAKS))
def test_a_smaller_type_has_a_fifth_more_than_the_peaks_and_none_smaller_would_do(profile: str, use: Any) -> None:
    one = held(profile, use)
    verdict = rules.judge(one, WEEK)
    if isinstance(verdict, Verdict) and verdict.kind == "too-big":
        assert verdict.to is not None
        assert verdict.to.size_mib is not None
        assert verdict.to.size_mib < (one.type.size_mib or 0)
        assert verdict.to.parsed.series == "Q"
        assert use["gib"] * 1024 <= verdict.to.size_mib * 0.8
        assert use["sm"] <= 80 / (verdict.to.max or 1)
        smaller = [kind for kind in (one.gpu.types or {}).values() if kind.parsed.series == "Q"]
        smaller = [kind for kind in smaller if (kind.size_mib or 0) < verdict.to.size_mib]
        assert not any(use["gib"] * 1024 <= (k.size_mib or 0) * 0.8 and use["sm"] <= 80 / (k.max or 1) for k in smaller)


@LAW
@given(
    st.sampled_from(SIZES),
    st.fixed_dictionaries({**PEAKS, "used_of_share": st.floats(0, 2)}),
    st.sampled_from([BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE]),
    st.floats(0, 100),
)
def test_no_vgpu_is_both_too_small_and_too_big(profile: str, use: Any, policy: Policy, crowd: float) -> None:
    one = held(profile, use, policy, crowd)
    verdict = rules.judge(one, WEEK)
    small = rules.too_small(one)
    assert small is None or verdict == small or (isinstance(verdict, Verdict) and verdict.kind == "idle")
    if use["gib"] * GIB >= 0.95 * (one.use.framebuffer_size_bytes or 0):
        assert rules.too_big(one) is None


@pytest.mark.parametrize(
    ("policy", "of_share", "crowd", "says"),
    [
        (FIXED_SHARE, 0.95, 30, "6Q"),
        (EQUAL_SHARE, 0.95, 30, None),
        (BEST_EFFORT, 1.4, 95, "6Q"),
        (BEST_EFFORT, 1.4, 60, ""),
        (FIXED_SHARE, 0.8, 95, ""),
        (None, 0.95, 95, ""),
    ],
)
def test_it_waits_for_time_at_the_end_of_its_share_and_under_best_effort_on_a_busy_gpu(
    policy: Policy | None, of_share: float, crowd: float, says: str | None
) -> None:
    verdict = rules.too_small(held("4Q", {"used_of_share": of_share}, policy, crowd))
    if says == "":
        assert verdict is None
    else:
        assert verdict is not None
        assert (verdict.to and verdict.to.short) == says


def test_a_full_framebuffer_wants_the_next_type_and_the_largest_has_none() -> None:
    for profile, to in (("4Q", "6Q"), ("48Q", None)):
        verdict = rules.too_small(held(profile, {"gib": 0.96 * int(profile[:-1])}, EQUAL_SHARE))
        assert verdict is not None
        assert (verdict.to and verdict.to.short) == to


NOT_KNOWN: dict[str, dict[str, Any]] = {
    "only 90% of the window is known": {"coverage": 0.9},
    "measured for 16.8 h only": {"coverage": 0.1},
    "the driver does not report what it uses": {"sm": None},
    "its samples are of another VM of that name": {"vm_uuid": builders.vm_uuid("vm09")},
}


@pytest.mark.parametrize(("why", "use"), NOT_KNOWN.items())
def test_where_too_little_is_known_nothing_is_said_but_why(why: str, use: dict[str, Any]) -> None:
    found = told(host(["8Q"], runs=["vm01"]), use)
    assert (found.advice, silent(found)) == ((), [why])


def test_a_vgpu_attached_in_the_window_and_one_without_samples_are_not_known() -> None:
    view = host(["8Q", "8Q"], runs=["vm01", "vm02"])
    assert silent(told(view, {"gib": 1.0})) == ["there is no sample of it"]
    room = Room(view=view, declared=declares(), author=RUN)
    early = Advisor(
        room=room, window=window(ATTACHED_US - DAY_US, ATTACHED_US + DAY_US), used=(used(listing.rows(view)[0]),)
    )
    assert silent(early.advise())[0] == "it was attached within the window"


def test_each_kind_of_unused_vgpu_has_its_advice() -> None:
    view = host(["4Q", "4Q", "4Q", "4Q"], runs=["vm03", "vm04"])
    idle = {"sm": 1, "gib": 0.5}
    found = told(view, OFF, {**OFF, "ever_measured": False}, idle, {"sm": 7, "gib": 2.7})
    assert kinds(found) == {"vm01": "off", "vm02": "never-used", "vm03": "idle"}
    assert found.findings == ()
    first = {one.row.vm: one.first for one in found.advice}
    assert first == {"vm01": None, "vm02": None, "vm03": "shut vm03 down"}
    assert found.advice[0].command == "vgpumgr detach vm01 --slot vgpu0 --on kvm01"


def test_a_declared_slot_is_changed_in_the_inventory() -> None:
    found = told(host(["8Q"], runs=["vm01"]), {"gib": 1.0, "sm": 3}, declared=declares(vm01="8Q"))
    (one,) = found.advice
    assert (one.first, one.command) == ("shut vm01 down; ask for 2Q in hosts.yml:1", "vgpumgr reconcile kvm01")


def carried_out(view: HostView, one: Advice) -> HostView:
    """The host once a person has followed the advice, planned by the tests' own means."""
    vm = one.row.vm or ""
    view = builders.change_domain(view, vm, lambda found: replace(found, active=False, live=None))
    if one.verdict.to is None:
        return builders.detached(view, vm)
    profile = one.verdict.to.short
    return simulate.apply(view, builders.plan_attach(view, vm, profile, replace_it=True).steps)


def left(view: HostView, type_name: str) -> int:
    return next(row.left.fits_now or 0 for row in capacity.overview(view).rows if row.type_name == type_name)


LAYOUT = st.one_of(st.just(["16Q"]), st.lists(st.sampled_from(["2Q", "4Q", "8Q"]), min_size=1, max_size=3))
USES = st.lists(
    st.one_of(st.just(OFF), st.fixed_dictionaries({"sm": st.integers(0, 8), "gib": st.floats(0, 4)})),
    min_size=6,
    max_size=6,
)


@settings(LAW, max_examples=dose(5, 40))
@given(LAYOUT, LAYOUT, USES, st.integers(0, 9), st.sampled_from([modes.MIXED_SIZE, modes.EQUAL_SIZE]))
def test_what_it_says_it_frees_is_what_capacity_gains_in_whatever_order_the_samples_come(
    one: list[str], other: list[str], uses: list[Any], seed: int, mode: modes.Mode
) -> None:
    if mode == modes.EQUAL_SIZE:
        one, other = one[:1] * len(one), other[:1] * len(other)
    runs = [f"vm{at:02}" for at, use in enumerate(uses[: len(one) + len(other)], 1) if use is not OFF]
    view = host(one, other, runs=runs, mode=mode)
    rows = [used(row, **use) for row, use in zip(listing.rows(view), uses, strict=False)]
    found = advise(view, rows)
    random.Random(seed).shuffle(rows)
    assert advise(view, rows) == found
    assert len({one.row.vm for one in found.advice}) == len(found.advice)
    for advice in found.advice:
        assert advice.gain is not None or advice.verdict.kind == "too-small"
        if advice.gain is not None and advice.verdict.kind != "empties-gpu":
            after = carried_out(view, advice)
            assert left(after, advice.gain.type_name) - left(view, advice.gain.type_name) == advice.gain.more
            assert left(after, "A40-48Q") >= left(view, "A40-48Q")
            size = {kind.type_name: kind.full_mib for kind in (view.snapshot.gpus[0].types or {}).values()}
            assert advice.gain.mib == size[advice.row.type_name or ""] - size.get(advised(advice) or "", 0)


def test_a_smaller_type_that_would_take_an_empty_gpu_is_not_advised() -> None:
    small = {"gib": 1.0, "sm": 3}
    view = host(["8Q", "8Q"], [], runs=["vm01"], mode=modes.EQUAL_SIZE)
    found = told(view, small, {"gib": 6.5, "sm": 9})
    assert found.advice == ()
    assert silent(found)[0].endswith("but that would take an empty GPU")
    (one,) = told(
        host(["8Q", "8Q"], ["2Q"], runs=["vm01", "vm03"], mode=modes.EQUAL_SIZE), small, {"gib": 6.5, "sm": 9}
    ).advice
    assert (advised(one), one.gain and (one.gain.type_name, one.gain.more)) == ("A40-2Q", ("A40-8Q", 1))


def test_one_move_that_empties_a_gpu_is_advised_with_the_command_of_defrag() -> None:
    view = host(["8Q", "8Q"], ["8Q"], runs=["vm01", "vm02"], mode=modes.EQUAL_SIZE)
    (one,) = advise(view, []).advice
    assert (one.verdict.kind, one.row.vm, one.row.gpu, one.gain and one.gain.more) == ("empties-gpu", "vm03", PCI[1], 1)
    assert one.command == "vgpumgr defrag kvm01 --profile A40-48Q --count 1 --max-moves 1"
    for there in (host(["8Q"], ["8Q"], runs=["vm01", "vm02"]), host(["48Q"], ["8Q"]), host(["8Q"], [])):
        assert "empties-gpu" not in kinds(advise(there, [])).values()


def test_a_unit_of_the_site_says_how_much_is_freed() -> None:
    view = replace(host(["16Q"], runs=["vm01"]), fgpu_per_gpu={"A40": 4})
    (one,) = told(view, {"gib": 3.0, "sm": 5}).advice
    assert one.gain is not None
    assert (advised(one), one.gain.mib, one.gain.fgpu) == ("A40-4Q", 12 * 1024, 1.0)


def test_a_larger_type_that_has_no_room_asks_for_it_first() -> None:
    full = {"gib": 8.0, "sm": 9}
    (one,) = told(host(["8Q"], mode=modes.EQUAL_SIZE), full).advice
    assert (advised(one), one.first, one.gain) == ("A40-12Q", None, None)
    (one,) = told(host(["8Q", "8Q"], mode=modes.EQUAL_SIZE), full).advice
    assert one.first is not None
    assert one.first.startswith("make room (no GPU of kvm01 can take")
    (one,) = told(host(["48Q"]), {"gib": 48.0}).advice
    assert (advised(one), one.command) == (None, "vgpumgr usage vm01 --on kvm01")


def test_a_smaller_type_after_which_no_more_fit_is_not_advised() -> None:
    found = told(host(["8Q"], vfs=1), {"gib": 1.0, "sm": 3})
    assert (found.advice, silent(found)[0].rpartition("; ")[2]) == ((), "but no more would fit then")


def test_foreign_lost_and_lazy_vgpus_get_no_advice() -> None:
    view = builders.with_foreign(host(["8Q"]))
    assert advise(builders.without_claims(view), []).findings == ()
    asleep = builders.change_entries(builders.without_vgpus(view, "gone"), lambda entry: replace(entry, lazy=True))
    assert advise(asleep, []).advice == ()
