"""What stops a reconcile before its first write, and what one site's inventory may take away that another's gave."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile import host_plans
from vgpumgr import errors, names
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.reconcile import destroy_guard, host_plan, tasks
from vgpumgr.core.reconcile.host_plan import HostPlan
from vgpumgr.core.reconcile.planned import PlannedTask
from vgpumgr.names import HostName, VmName

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView

FILE = "host_vars/kvm01"


def declared(site: str | None = None, part: str | None = FILE, /, **vms: str) -> HostDeclaration:
    return replace(declares(**vms), site=site, vms_from=part)


def plan(view: HostView, wanted: HostDeclaration) -> HostPlan:
    return host_plan.plan_host(view, wanted, host_plans.RUN)


def after(view: HostView, wanted: HostDeclaration) -> HostView:
    return simulate.apply(view, plan(view, wanted).steps)


def refused(made: HostPlan) -> errors.TooManyDestroys:
    with pytest.raises(errors.TooManyDestroys) as raised:
        destroy_guard.guard_destroys([made], confirmed=None)
    destroy_guard.guard_destroys([made], confirmed=made.destroys)
    return raised.value


def hosts(*rows: tuple[str, int, int]) -> list[HostPlan]:
    """(name, destroys, ours) as plans of that many destroy steps."""
    view = after(builders.host(), declared(vm01="4Q"))
    step = next(step for step in plan(view, declared()).steps if isinstance(step, steps.DestroyVgpu))
    made = plan(view, declared()).tasks[0].plan
    assert made is not None
    return [
        HostPlan(
            host=HostName(name),
            tasks=(
                PlannedTask(
                    task=tasks.PruneSlot(vm=VmName("vm01"), uuid=builders.vm_uuid("vm01"), slot=names.DEFAULT_SLOT),
                    plan=replace(made, steps=(step,) * destroys),
                    refused=None,
                    drift=(),
                ),
            ),
            findings=(),
            fingerprint="",
            ours=ours,
        )
        for name, destroys, ours in rows
    ]


@pytest.mark.parametrize(
    ("rows", "passes"),
    [
        ([("kvm01", 9, 9)], True),  # too few to count shares
        ([("kvm01", 3, 10)], True),
        ([("kvm01", 4, 10)], False),
        ([("kvm01", 4, 9), ("kvm02", 0, 9)], True),
        ([("kvm01", 6, 9), ("kvm02", 0, 9)], False),  # a third of what all have
        ([("kvm01", 4, 10), ("kvm02", 0, 90)], False),  # a host of its own
    ],
)
def test_more_than_thirty_per_cent_of_ten_or_more_is_refused_with_the_number(
    rows: list[tuple[str, int, int]], passes: bool
) -> None:
    made = hosts(*rows)
    total = sum(row[1] for row in rows)
    if passes:
        destroy_guard.guard_destroys(made, confirmed=None)
    else:
        with pytest.raises(errors.TooManyDestroys) as raised:
            destroy_guard.guard_destroys(made, confirmed=None)
        assert raised.value.hint is not None
        assert f"--confirm-destroys {total}" in raised.value.hint
    for enough in (total, total + 1):
        destroy_guard.guard_destroys(made, confirmed=enough)
    with pytest.raises(errors.TooManyDestroys, match=f"more than the {total - 1} that --confirm-destroys allows"):
        destroy_guard.guard_destroys(made, confirmed=total - 1)
    destroy_guard.guard_destroys(hosts(("kvm01", 0, 10)), confirmed=0)


def test_a_host_whose_every_declared_vgpu_would_go_is_refused_however_few_they_are() -> None:
    """An empty file, a lost one, `vgpumgr_vms: {}`: what a person attached there stays and does not count."""
    view = builders.attached(after(builders.host(), declared(vm01="4Q")), "vm02")
    error = refused(plan(view, declared()))
    assert error.message == "1 vGPU would be destroyed: all that the inventory declared on kvm01; nothing was changed"
    assert error.hint is not None
    assert "vgpumgr reconcile --confirm-destroys 1" in error.hint


def test_one_of_two_declared_vms_that_leaves_is_taken_away_without_a_number() -> None:
    view = after(builders.host(), declared(vm01="4Q", vm02="4Q"))
    made = plan(view, declared(vm02="4Q"))
    destroy_guard.guard_destroys([made], confirmed=None)
    assert made.destroys == 1


def test_a_wish_that_waits_and_is_no_longer_declared_counts_for_no_vgpu_that_would_go() -> None:
    view = after(builders.host(builders.gpu(vfs=2)), declared(vm01="24Q", vm02="24Q", vm03="24Q"))
    made = plan(view, declared(vm02="24Q"))
    assert ([step.verb for step in made.steps].count("drop_wait"), made.destroys) == (1, 1)
    destroy_guard.guard_destroys([made], confirmed=None)


def test_what_runs_and_is_kept_for_that_does_not_hide_that_every_declaration_is_lost() -> None:
    view = builders.running(after(builders.host(), declared(vm01="4Q", vm02="4Q")), "vm02")
    refused(plan(view, declared()))


def test_an_exchange_of_the_only_vm_is_refused_as_well() -> None:
    """Another branch's file may stand in the place of the right one."""
    refused(plan(after(builders.host(), declared(vm01="4Q")), declared(vm02="4Q")))


def test_a_part_of_the_inventory_that_decides_no_longer_is_named_though_another_declares_some_of_its_vms() -> None:
    view = after(builders.host(), declared(None, "group_vars/gpus", vm01="4Q", vm02="4Q"))
    error = refused(plan(view, declared(None, "group_vars/all", vm02="4Q")))
    assert "group_vars/gpus used to declare VMs on kvm01 and no longer does" in error.message


def test_a_declaration_that_moved_whole_to_another_part_is_written_into_the_claims_and_destroys_nothing() -> None:
    view = after(builders.host(), declared(None, "group_vars/gpus", vm01="4Q"))
    made = plan(view, declared(vm01="4Q"))
    assert [step.verb for step in made.steps] == ["bind_claim"]
    assert [row.text() for row in made.drift] == [
        (
            f"claim: should be from inventory ({FILE}), is from inventory (group_vars/gpus) "
            "(now declared in another place of the inventory)"
        )
    ]
    destroy_guard.guard_destroys([made], confirmed=None)
    later = simulate.apply(view, made.steps)
    assert plan(later, declared(vm01="4Q")).steps == ()


def test_a_claim_says_which_site_declared_it_and_one_without_is_told_its_site() -> None:
    view = after(builders.host(), declared(vm01="4Q"))
    assert builders.claim_of(view).site is None
    now = after(view, declared("lab1", vm01="4Q"))
    assert (builders.claim_of(now).site, builders.claim_of(now).declared) == ("lab1", FILE)
    assert plan(now, declared("lab1", vm01="4Q")).steps == ()


@pytest.mark.parametrize("site", ["lab2", None])
def test_another_sites_inventory_takes_nothing_away_and_says_whose_it_is(site: str | None) -> None:
    view = after(builders.host(), declared("lab1", vm01="4Q", vm02="4Q"))
    made = plan(view, declared(site))
    assert made.steps == ()
    (finding,) = made.findings
    assert (finding.kind, finding.vm) == ("other-site", None)
    assert "the inventory of site lab1 declared vm01 vgpu0, vm02 vgpu0: only an inventory of that site" in finding.text
    assert finding.text.endswith("give it a vgpumgr_site of its own") is (site is None)


def test_its_own_sites_inventory_takes_it_away_and_one_without_a_site_is_anybodys() -> None:
    mine = after(builders.host(), declared("lab1", vm01="4Q"))
    nobodys = after(builders.host(), declared(vm01="4Q"))
    assert plan(mine, declared("lab1")).destroys == plan(nobodys, declared("lab1")).destroys == 1


def test_two_sites_that_declare_the_same_keep_it_whole_and_write_nothing_over_each_other() -> None:
    view = after(builders.host(), declared("lab1", vm01="4Q"))
    assert plan(view, declared("lab2", vm01="4Q")).steps == ()
    made = plan(builders.rebooted(view), declared("lab2", vm01="4Q"))
    assert [step.verb for step in made.steps] == ["create_vgpu"]


def test_two_sites_that_declare_differently_is_a_conflict_that_names_both() -> None:
    view = after(builders.host(), declared("lab1", vm01="4Q"))
    made = plan(view, declared("lab2", vm01="8Q"))
    (error,) = [planned.refused for planned in made.tasks if planned.refused]
    assert isinstance(error, errors.ConflictingClaim)
    assert "site lab1" in error.message
    assert "site lab2" in error.message
    assert "vgpumgr attach vm01 --profile 8Q --replace --slot vgpu0" in (error.hint or "")
    assert made.steps == ()


def test_a_saved_vm_whose_declaration_moved_is_left_as_it_is() -> None:
    """Its definition cannot be changed, and only what is said of it would be."""
    view = builders.change_domain(
        after(builders.host(), declared(vm01="4Q")), "vm01", lambda domain: replace(domain, managed_save=True)
    )
    made = plan(view, declared("lab1", "group gpus", vm01="4Q"))
    assert [planned.refused for planned in made.tasks] == [None]
    assert made.steps == ()
