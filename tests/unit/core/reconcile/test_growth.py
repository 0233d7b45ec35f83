"""Planning a host takes as much for each of its VMs, however many they are: counted in lines that are run, not in time."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile import host_plans
from vgpumgr.core import simulate
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FrameworkName
from vgpumgr.core.reconcile import host_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan

FEW, MANY = 8, 16
BOARDS = dict(builders.FRAMEWORKS)


def operations(work: Callable[[], object]) -> int:
    """How many lines it runs, each turn of a loop and of a generator counted."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event in ("line", "call")
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def host(framework: FrameworkName, vms: int) -> HostView:
    """Two GPUs with room for MANY VMs; as many free VFs however many VMs there are."""
    return builders.host(
        *(builders.gpu(framework, BOARDS[framework], f"0000:{bus}:00.0") for bus in ("41", "81")), vms=vms
    )


def declared(vms: int) -> HostDeclaration:
    return declares(**{f"vm{number:02}": "1Q" for number in range(1, vms + 1)})


def made(view: HostView, declaration: HostDeclaration) -> HostPlan:
    return host_plan.plan_host(view, declaration, host_plans.RUN)


def first(framework: FrameworkName, vms: int) -> tuple[HostView, HostDeclaration]:
    return host(framework, vms), declared(vms)


def again(framework: FrameworkName, vms: int) -> tuple[HostView, HostDeclaration]:
    view, declaration = first(framework, vms)
    plan = made(view, declaration)
    assert sum(bool(planned.steps) for planned in plan.tasks) == vms
    return simulate.apply(view, plan.steps), declaration


def after_boot(framework: FrameworkName, vms: int) -> tuple[HostView, HostDeclaration]:
    view, declaration = again(framework, vms)
    return builders.rebooted(view), declaration


def undeclared(framework: FrameworkName, vms: int) -> tuple[HostView, HostDeclaration]:
    view, _ = again(framework, vms)
    return replace(view, saved={}), declared(0)


def without_ledger(framework: FrameworkName, vms: int) -> tuple[HostView, HostDeclaration]:
    view, declaration = again(framework, vms)
    return builders.without_ledger(view), declaration


def full(framework: FrameworkName, vms: int) -> tuple[HostView, HostDeclaration]:
    """Each VM asks for a type of another size than what is on the GPUs."""
    view = host(framework, MANY * 2)
    for vm in (f"vm{MANY * 2:02}", f"vm{MANY * 2 - 1:02}"):
        view = builders.attached(view, vm, profile="2Q")
    return view, declared(vms)


@pytest.mark.parametrize(
    ("framework", "state"),
    [
        *((MDEV_VF, state) for state in (first, again, after_boot, undeclared, without_ledger, full)),
        *((framework, after_boot) for framework in (MDEV_PF, VENDOR_VFIO)),
    ],
)
def test_twice_as_many_vms_take_twice_as_much(
    framework: FrameworkName, state: Callable[[FrameworkName, int], tuple[HostView, HostDeclaration]]
) -> None:
    counts = []
    # A refusal looks for every way out, which takes fifty times what a place takes: half as many of them show the same.
    for vms in (FEW // 2, MANY // 2) if state is full else (FEW, MANY):
        view, declaration = state(framework, vms)
        made(view, declaration)  # what is remembered from then on (parsed names) counts for neither
        counts.append(operations(partial(made, view, declaration)))
    assert counts[1] < 2.01 * counts[0], counts
