"""A wish explained: the resolver's own answers for each GPU, in its own order; and each mechanism's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver import asking, scheduler
from vgpumgr.core.gpu import mode_plan, size_mode
from vgpumgr.core.model.snapshot import MDEV_VF
from vgpumgr.core.policies import known
from vgpumgr.core.report import explained
from vgpumgr.core.slot import attach

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.report.explained import Compared, HostAnswer
    from vgpumgr.core.slot.plan import Plan

FIRST, SECOND, THIRD = "0000:41:00.0", "0000:81:00.0", "0000:c1:00.0"


def fleet(*boards: str) -> HostView:
    return builders.host(
        *(builders.gpu(MDEV_VF, board, pci) for board, pci in zip(boards, (FIRST, SECOND, THIRD), strict=False)), vms=4
    )


def explain(view: HostView, gpu_id: str | None = None, /, **asked: str | bool) -> HostAnswer:
    wish, conditions = asking.read(asked, about="explain", spelt=str)
    return explained.of_host(view, explained.Asked(wish=wish, conditions=conditions, gpu_id=gpu_id))


def plan(view: HostView, **asked: str | bool) -> Plan:
    wish, conditions = asking.read(asked, about="explain", spelt=str)
    return attach.plan_attach(view, replace(builders.ask("vm04"), wish=wish, conditions=conditions))


def compared(view: HostView, **asked: str | bool) -> dict[str, Compared]:
    return {one.mechanism.key: one for one in explained.compare([explain(view, **asked)])}


def with_policy(view: HostView, pci: str, policy: scheduler.Policy) -> HostView:
    def change(gpu: Gpu) -> Gpu:
        return replace(gpu, scheduler=builders.scheduler_state(policy)) if gpu.pci == pci else gpu

    return builders.change_gpus(view, change)


def mixed(view: HostView, pci: str) -> HostView:
    request = mode_plan.ModeRequest(gpu_uuid=builders.gpu_uuid(pci), mode="mixed-size")
    return simulate.apply(view, size_mode.plan_mode(view, request).steps)


def rows(answer: HostAnswer) -> list[tuple[str, int | None, str | None]]:
    return [(gpu.gpu, gpu.rank, gpu.type_name) for gpu in answer.gpus]


def test_gpus_come_in_the_order_in_which_they_would_be_taken() -> None:
    answer = explain(builders.attached(fleet("A40", "A40", "A100"), "vm02", "8Q"), gpu_memory="5G")
    assert rows(answer) == [(THIRD, 1, "A100-5C"), (SECOND, 2, "A40-6C"), (FIRST, 3, "A40-8C")]
    first, second, third = answer.gpus
    assert first.why == f"the closest fit: {SECOND} would give 6C, 16.7 % waste"
    assert second.why == "further from the wish: 16.7 % waste, not 0 %"
    (passed,) = third.passed
    assert passed.type_name == "A40-6C"
    assert passed.why == "holds 8Q (vm02): equal-size mode takes only 8 GiB types until it is empty"
    assert (third.allocated, third.grant and third.grant.waste_pct) == (Fraction(1, 6), 37.5)


def test_why_an_equally_close_one_comes_after_it() -> None:
    view = builders.spreading(builders.attached(fleet("A40", "A40", "A40"), "vm02", "4Q"))
    _, second, third = explain(view, profile="4Q").gpus
    assert second.why == "as good as the first, which has the lower address"
    assert third.why == "spread: 8% of it is allocated"
    first, second, _ = explain(replace(view, policy=known.DEFAULT), profile="4Q").gpus
    assert first.why == "it has 1 of this size"
    assert second.why == "it is empty"


def test_a_gpu_that_cannot_says_why_and_comes_last() -> None:
    view = builders.attached(fleet("A40", "A40"), "vm02", "8Q")
    answer = explain(view, profile="4Q")
    assert rows(answer) == [(SECOND, 1, "A40-4Q"), (FIRST, None, None)]
    assert answer.gpus[1].why == "holds 8Q (vm02): equal-size mode takes only 8 GiB types until it is empty"


def test_one_gpu_can_be_named() -> None:
    assert rows(explain(fleet("A40", "A40"), SECOND, profile="4Q")) == [(SECOND, 1, "A40-4Q")]
    assert rows(explain(fleet("A40", "A40"), builders.gpu_uuid(FIRST), profile="4Q")) == [(FIRST, 1, "A40-4Q")]
    assert rows(explain(fleet("A40"), THIRD, profile="4Q")) == []


@LAW
@given(
    there=st.lists(st.sampled_from(["4Q", "8Q", "8C", "24Q", "5C"]), max_size=3),
    asked=st.sampled_from(
        [{"gpu_memory": "5G"}, {"gpu": "0.2"}, {"gpu": "0.2", "max_waste": "10"}, {"profile": "4Q"}, {"profile": "5C"}]
    ),
)
def test_the_first_is_what_attach_takes(there: list[str], asked: dict[str, str | bool]) -> None:
    view = fleet("A40", "A40", "A100")
    for number, profile in enumerate(there, 1):
        try:
            view = builders.attached(view, f"vm{number:02}", profile)
        except errors.NoCapacity:
            continue
    answers = explain(view, **asked).gpus
    if answers[0].rank is None:
        with pytest.raises(errors.NoCapacity) as refused:
            plan(view, **asked)
        assert refused.value.details == tuple(f"{one.gpu}  {one.board:<4}  {one.why}" for one in answers)
        return
    placed = plan(view, **asked).placed
    assert placed is not None
    assert (answers[0].rank, answers[0].gpu, answers[0].type_name) == (1, placed.gpu.pci, placed.type.type_name)
    assert (answers[0].why, answers[0].grant) == (placed.why, placed.grant)


def test_each_mechanism_has_the_gpus_that_are_set_to_it_or_says_why_it_has_none() -> None:
    view = with_policy(mixed(fleet("A40", "A40", "A40"), THIRD), SECOND, scheduler.FIXED_SHARE)
    found = compared(view, gpu_memory="5G")
    assert {key: [fit.gpu for fit in one.fits] for key, one in found.items()} == {
        "best-effort": [FIRST],
        "equal-share": [],
        "fixed-share": [SECOND],
        "mixed-size": [THIRD],
        "mig": [],
        "mig-time-sliced": [],
        "whole-gpu": [THIRD],
    }
    assert found["whole-gpu"].fits[0].type_name == "A40-48C"
    assert found["equal-share"].why_not == "no GPU has this policy"
    assert found["mig"].why_not == "no GPU has this mode"
    assert found["best-effort"].why_not is None
    full = compared(builders.attached(fleet("A40"), "vm01", "48Q"), gpu_memory="5G")
    assert (full["best-effort"].why_not, full["whole-gpu"].why_not) == ("no GPU can take it", "no GPU can take it")


def test_instances_that_several_vgpus_share_are_a_way_of_their_own() -> None:
    found = compared(builders.host(builders.mig_gpu("RTXPRO6000")), gpu_memory="8G")
    kinds = {key: [fit.type_name for fit in one.fits] for key, one in found.items() if key.startswith("mig")}
    assert kinds == {"mig": ["DC-1-24C"], "mig-time-sliced": ["DC-1-8C"]}
    alone = compared(builders.host(builders.mig_gpu("A100")), gpu_memory="5G")
    assert [fit.type_name for fit in alone["mig"].fits] == ["A100-1-5C"]
    assert alone["mig-time-sliced"].why_not == "no GPU in MIG mode has more than one vGPU in an instance"


def test_the_comparison_leaves_out_what_the_wish_says_of_the_mechanism() -> None:
    """--compute and --only choose one of them; the table compares them all. --max-waste counts, but not for a whole GPU."""
    view = fleet("A40")
    assert compared(view, gpu_memory="4G", compute="fixed-share", only="time-sliced")["best-effort"].fits != ()
    wasteful = compared(view, gpu="0.2", max_waste="10")
    assert (wasteful["best-effort"].fits, wasteful["whole-gpu"].fits != ()) == ((), True)
    assert compared(view, gpu_memory="60G")["whole-gpu"].fits == ()


def test_a_whole_gpu_is_of_the_series_that_was_asked_for() -> None:
    assert compared(fleet("A40"), profile="4Q")["whole-gpu"].fits[0].type_name == "A40-48Q"
    assert compared(fleet("A40"), gpu_memory="4G")["whole-gpu"].fits[0].type_name == "A40-48C"
    assert compared(fleet("A40"), mig_profile="1g.5gb")["whole-gpu"].fits == ()


def test_hosts_are_compared_together() -> None:
    here = explain(fleet("A40"), gpu_memory="4G")
    there = explain(builders.attached(fleet("A40"), "vm01", "8Q"), gpu_memory="4G")
    (best, *_) = explained.compare([here, there])
    assert [fit.type_name for fit in best.fits] == ["A40-4C", "A40-8C"]


def test_where_no_gpu_offers_vgpus_no_mode_or_policy_is_blamed() -> None:
    view = builders.change_gpus(fleet("A40"), lambda gpu: replace(gpu, framework=None, types=None))
    assert {one.why_not for one in compared(view, gpu_memory="5G").values()} == {"no GPU offers vGPUs now"}
