"""What a host needs after its GPUs' framework was changed: whatever ends a run, the next one has the same end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile.host_plans import RUN
from vgpumgr.core import simulate
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.core.reconcile import host_plan, migrating
from vgpumgr.core.report import findings

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import FrameworkName
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan

OTHER: dict[FrameworkName, FrameworkName] = {MDEV_VF: VENDOR_VFIO, VENDOR_VFIO: MDEV_VF}
both_ways = pytest.mark.parametrize("was", OTHER)


def changed(view: HostView) -> HostView:
    """The host booted with a kernel under which its GPUs make vGPUs in the other way."""
    return builders.change_gpus(
        builders.rebooted(view), lambda gpu: replace(gpu, framework=OTHER[gpu.framework or MDEV_VF])
    )


def plan(view: HostView) -> HostPlan:
    return host_plan.plan_work(view, declares(), migrating.todo(view, declares(), RUN), RUN)


def slots(view: HostView) -> list[tuple[object, ...]]:
    """What stays the same of each vGPU, and that its claim, definition and hardware agree."""
    found: list[tuple[object, ...]] = []
    for entry in view.snapshot.ledger or ():
        vgpu, domain = entry.vgpu, builders.find(view, entry.vgpu.vm_name)
        claim = domain.claim(vgpu.slot)
        assert claim is not None
        assert claim.binding.device == vgpu.device
        assert [one.slot for one in domain.inactive if one.source == vgpu.device] == [vgpu.slot]
        found.append((vgpu.vm, vgpu.slot, vgpu.gpu_uuid, vgpu.vf_index, vgpu.type_name, vgpu.placement_id, vgpu.mig))
        found.append((claim.state, claim.wish, claim.by, claim.at, claim.origin, claim.grant))
    return found


def three(was: FrameworkName, kind: str) -> HostView:
    if kind == "mig":
        gpus, profile = [builders.mig_gpu(framework=was)], "1-5C"
        view = builders.host(*gpus)
    else:
        view, profile = builders.host_of(was, mixed=kind == "mixed"), "4Q"
    for vm, slot in (("vm01", "vgpu0"), ("vm01", "vgpu1"), ("vm02", "vgpu0")):
        view = builders.attached(view, vm, slot=slot, profile=profile)
    return view


@both_ways
@pytest.mark.parametrize("kind", ["equal", "mixed", "mig"])
def test_broken_off_after_any_step_or_undone_the_next_run_ends_it(was: FrameworkName, kind: str) -> None:
    """Every slot has the same type at the same place. Each of its own steps can be taken back until the last ones."""
    before = three(was, kind)
    view = changed(before)
    steps = plan(view).steps
    assert len(steps) >= 18
    for done in range(len(steps) + 1):
        half = simulate.apply(view, steps[:done])
        end = simulate.apply(half, plan(half).steps)
        assert slots(end) == slots(before), f"after {done} of {len(steps)} steps"
        assert plan(end).steps == ()
        assert [row.kind for row in findings.of_host(end)] == []
    for planned in plan(view).tasks:
        mine = planned.steps
        last = next((at for at, step in enumerate(mine) if step.is_final), len(mine))
        for done in range(last + 1):
            back = simulate.apply(simulate.apply(view, mine[:done]), [step.inverse() for step in reversed(mine[:done])])
            assert state(back) == state(view)
            assert plan(back).steps == steps
        view = simulate.apply(view, mine)
        steps = plan(view).steps


def state(view: HostView) -> object:
    """The claims, the devices of each definition in any order, and the ledger."""
    return [(vm.name, vm.claims, frozenset(vm.inactive)) for vm in view.domains], frozenset(view.snapshot.ledger or ())


def test_a_host_whose_framework_stayed_needs_nothing() -> None:
    for framework in (MDEV_PF, MDEV_VF, VENDOR_VFIO):
        view = builders.attached(builders.host_of(framework))
        assert migrating.todo(view, declares(), RUN) == ()
        assert migrating.todo(builders.rebooted(view), declares(), RUN) == ()


@both_ways
def test_a_claim_that_nobody_asked_for_on_this_host_gets_nothing(was: FrameworkName) -> None:
    """Written by hand, or restored after its vGPU was freed."""
    view = builders.attached(builders.attached(builders.host_of(was)), "vm02")
    freed = builders.detached(view)
    restored = replace(freed, domains=freed.vms.put(builders.find(view, "vm01")))
    assert [task.subject for task in migrating.todo(changed(restored), declares(), RUN)] == ["vm02 vgpu0"]
    forged = builders.change_claim(changed(restored), lambda claim: replace(claim, generation=7))
    assert [task.subject for task in migrating.todo(forged, declares(), RUN)] == ["vm02 vgpu0"]


def test_what_a_clone_carries_is_left_to_it() -> None:
    """Also if the ledger has a vGPU of its own for it."""
    view = builders.attached(builders.attached(builders.host_of(MDEV_VF)), "vm02")
    copied = builders.find(view, "vm01").claims
    view = builders.change_domain(view, "vm02", lambda domain: replace(domain, claims=copied))
    assert [task.subject for task in migrating.todo(changed(view), declares(), RUN)] == ["vm01 vgpu0"]


@both_ways
def test_a_run_that_was_broken_off_is_told_and_reconcile_ends_it_too(was: FrameworkName) -> None:
    """Also by what reads neither images nor snapshots, as `list` does."""
    view = changed(builders.attached(builders.host_of(was)))
    steps = plan(view).steps
    last = replace(simulate.apply(view, steps[:-1]), saved=None)
    assert [row.kind for row in findings.of_host(last)] == ["leftover"]
    for done in (0, len(steps) - 1):
        half = simulate.apply(view, steps[:done])
        end = simulate.apply(half, host_plan.plan_host(half, declares(), RUN).steps)
        assert slots(end) == slots(simulate.apply(view, steps))
        assert plan(end).steps == ()
