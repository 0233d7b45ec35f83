"""An owner's quota: what counts, and that no plan takes anyone further over it. `capacity` says how much is left of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from tests.unit.core.slot.test_how_many import ASKED, BY_PROFILE, attached, read
from tests.unit.core.slot.test_laws import ACTION, after, story
from vgpumgr import errors, resources
from vgpumgr.core import simulate
from vgpumgr.core.driver import catalogue
from vgpumgr.core.model.owners import Allowance, Amount, Held, Owners, Quota
from vgpumgr.core.report import capacity
from vgpumgr.core.report.quota_room import QuotaRoom
from vgpumgr.core.slot import quotas
from vgpumgr.names import HostName, OwnerName, VmName

if TYPE_CHECKING:
    from tests.unit.core.slot.test_laws import Action
    from vgpumgr.core.model.view import HostView

NVIDIA = catalogue.parse(resources.catalogue_text())
OWNER = OwnerName("team-a")
OTHERS = (Held(owner=OWNER, host=HostName("kvm02"), vm=VmName("vm99"), memory_mib=8192),)
QUOTA = st.builds(
    lambda gib, vgpus: Quota(memory_mib=None if gib is None else gib * 1024, vgpus=vgpus, where="group_vars/all.yml:1"),
    st.none() | st.integers(0, 64),
    st.none() | st.integers(0, 8),
)
MINE = Quota(memory_mib=16 * 1024, vgpus=None, where="here")


def within(view: HostView, quota: Quota, *, others: bool = False, unread: tuple[HostName, ...] = ()) -> HostView:
    """The host, whose VMs are all of one owner that has the quota."""
    allowance = Allowance(others=OTHERS if others else (), unread=unread)
    return replace(view, owners=Owners(default=OWNER), quotas={OWNER: quota}, allowances={OWNER: allowance})


def used(view: HostView) -> Amount:
    return Amount.of(quotas.held(view))


def answer(
    view: HostView, asked: dict[str, str | bool | None], *, others: bool, unread: tuple[HostName, ...] = ()
) -> capacity.Answer:
    """What `capacity --for` says of the host."""
    wish, conditions = read(asked)
    question = capacity.Question(wish=wish, conditions=conditions)
    held = used(view).plus(Amount.of(OTHERS) if others else Amount())
    failed = tuple((one, errors.Busy(one, "")) for one in unread)
    room = QuotaRoom(owner=OWNER, quota=view.quotas[OWNER], used=held, unread=failed)
    (found,) = capacity.answers([capacity.of_host(view, [question], NVIDIA)], [], [question], room)
    return found


@LAW
@given(story(), ASKED, QUOTA, st.booleans())
def test_so_many_attaches_are_granted_on_a_gpu_as_capacity_counts_within_the_quota(
    view: HostView, asked: dict[str, str | bool | None], quota: Quota, others: bool
) -> None:
    """Whichever ends first: the room or the quota."""
    view = within(view, quota, others=others)
    for row in answer(view, asked, others=others).rows:
        granted = attached(view, (builders.gpu_uuid(row.gpu or ""),), asked)
        assert {one.type_name: one.count for one in row.granted} == granted
        assert (row.fits_now, row.why is None) == (granted.total(), bool(granted))


@LAW
@given(story(), BY_PROFILE, QUOTA, st.booleans())
def test_so_many_attaches_are_granted_on_a_host_as_capacity_counts_within_the_quota(
    view: HostView, profile: dict[str, str | bool | None], quota: Quota, others: bool
) -> None:
    """Its GPUs share the quota, so together they may have less than their numbers add up to."""
    view = within(view, quota, others=others)
    found = answer(view, profile, others=others)
    assert found.left.fits_now == attached(view, None, profile).total()
    assert [*capacity.by_host(found).values()] in ([], [found.left])


@LAW
@given(story(), st.lists(ACTION, min_size=1, max_size=5), QUOTA)
def test_no_plan_takes_an_owner_further_over_its_quota(view: HostView, actions: list[Action], quota: Quota) -> None:
    view = within(view, quota)
    for action in actions:
        before, view = used(view), after(view, action)
        assert not quota.exceeded(used(view), used(view).beyond(before))


@LAW
@given(story(), ACTION)
def test_a_quota_that_is_not_reached_changes_no_plan(view: HostView, action: Action) -> None:
    ample = within(view, Quota(memory_mib=1 << 20, vgpus=1000, where="here"))
    assert after(ample, action).snapshot == after(view, action).snapshot


def test_a_change_of_size_counts_the_new_size_alone() -> None:
    two = builders.host(builders.gpu(), builders.gpu(pci="0000:81:00.0"))
    view = within(builders.attached(two), MINE)
    plan = builders.plan_attach(view, "vm01", "16Q", replace_it=True)
    assert used(simulate.apply(view, plan.steps)) == Amount(memory_mib=16 * 1024, vgpus=1)
    with pytest.raises(errors.OverQuota):
        builders.plan_attach(view, "vm01", "24Q", replace_it=True)
    none_more = within(view, Quota(memory_mib=None, vgpus=0, where="here"))
    assert builders.plan_attach(none_more, "vm01", "24Q", replace_it=True).steps  # it is no vGPU more


def test_what_was_not_counted_is_not_given_and_a_host_that_was_not_read_may_hold_anything() -> None:
    view = within(builders.host(builders.gpu()), MINE, unread=(HostName("kvm02"), HostName("kvm03")))
    with pytest.raises(errors.QuotaNotSeen, match="2 hosts could not be read") as caught:
        builders.plan_attach(view, "vm01", "4Q")
    assert caught.value.exit_code == 4
    with pytest.raises(errors.OverQuota):
        builders.plan_attach(view, "vm01", "24Q")
    with pytest.raises(errors.StalePlan):
        builders.plan_attach(replace(view, allowances={}), "vm01", "4Q")
    assert builders.plan_attach(replace(view, allowances=None), "vm01", "24Q").steps


@pytest.mark.parametrize(
    ("profile", "fits", "why"),
    [
        ("4Q", None, "unknown: not all that team-a holds could be read (kvm03)"),
        ("16Q", 0, "team-a has a quota of 16 GiB, and holds 8 GiB in 1 vGPU on the hosts that were read"),
    ],
)
def test_what_the_read_hosts_alone_take_of_a_quota_is_certain_and_the_rest_is_unknown(
    profile: str, fits: int | None, why: str
) -> None:
    view = within(builders.host(builders.gpu()), MINE)
    (row,) = answer(view, {"profile": profile}, others=True, unread=(HostName("kvm03"),)).rows
    assert (row.fits_now, row.why) == (fits, why)
