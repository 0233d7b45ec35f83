"""Managed-save images and snapshots of whichever VM: what one of them names is not taken away, and not read is not nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from vgpumgr import errors
from vgpumgr.core.model.domain_xml import Hostdev, SavedStates
from vgpumgr.core.model.snapshot import MDEV_VF, FrameworkName
from vgpumgr.core.plan import simulate

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.plan.plan import Plan

EVERY_FRAMEWORK = pytest.mark.parametrize("framework", [name for name, _ in builders.FRAMEWORKS])
OTHER = "vm02"


def device(view: HostView, *, alias: str | None = None) -> Hostdev:
    """vm01's vGPU, as another document names it."""
    return builders.hostdev(builders.hardware_of(view), alias)


def imaged(view: HostView) -> HostView:
    return builders.with_saved_states(view, SavedStates(image=(device(view),)), OTHER)


def snapped(view: HostView, *, alias: str | None = None) -> HostView:
    """vm02 has two snapshots, and vm01's vGPU is in the second."""
    return builders.with_saved_states(
        view, SavedStates(snapshots=(("empty", ()), ("monday", (device(view, alias=alias),)))), OTHER
    )


@EVERY_FRAMEWORK
def test_what_another_vms_managed_save_image_names_is_in_use(framework: FrameworkName) -> None:
    view = builders.attached(builders.host_of(framework))
    with pytest.raises(errors.InUse) as caught:
        builders.plan_detach(imaged(view), keep_snapshots=True)
    assert caught.value.details == ("VM vm02 has it in its managed-save image",)
    blind = builders.with_saved_states(view, SavedStates(image_problem="timed out"), OTHER)
    with pytest.raises(errors.InUse) as caught:
        builders.plan_detach(blind, keep_snapshots=True)
    assert caught.value.details == ("cannot tell: the managed-save image of VM vm02: timed out",)


@EVERY_FRAMEWORK
@pytest.mark.parametrize("alias", ["ua-vgpu0", None])
def test_what_another_vms_snapshot_names_is_kept(framework: FrameworkName, alias: str | None) -> None:
    view = snapped(builders.attached(builders.host_of(framework)), alias=alias)
    with pytest.raises(errors.NamedInSnapshot) as caught:
        builders.plan_detach(view)
    assert caught.value.message == (
        "vm01 slot vgpu0 is named in snapshots of vm02 (monday): reverting to one would bring back a device that is gone"
    )
    assert (
        caught.value.hint
        == "virsh snapshot-delete vm02 monday, or `vgpumgr detach vm01 --keep-snapshots --slot vgpu0` to free it anyway"
    )


def test_keep_snapshots_frees_it_and_says_whose_become_unusable() -> None:
    view = snapped(builders.attached(builders.host()))
    made = builders.plan_detach(view, keep_snapshots=True)
    assert made.changed
    assert [(finding.kind, finding.vm, finding.text) for finding in made.findings] == [
        ("unusable-snapshot", OTHER, "snapshots of vm02 that name the freed vGPU and can no longer be started: monday")
    ]


def test_another_vms_snapshots_that_cannot_be_read_may_name_it() -> None:
    view = builders.with_saved_states(
        builders.attached(builders.host()), SavedStates(snapshots_problem="timed out"), OTHER
    )
    with pytest.raises(errors.NamedInSnapshot, match="the snapshots of vm02 cannot be read: timed out"):
        builders.plan_detach(view)
    (finding,) = builders.plan_detach(view, keep_snapshots=True).findings
    assert "could not be read (timed out)" in finding.text


def test_another_vms_own_device_of_the_same_slot_does_not_matter() -> None:
    """Slots are per VM: an alias in another VM's snapshot says nothing of this one's."""
    view = builders.attached(builders.attached(builders.host()), OTHER)
    theirs = builders.hostdev(builders.hardware_of(view, OTHER), "ua-vgpu0")
    view = builders.with_saved_states(view, SavedStates(image=(theirs,), snapshots=(("monday", (theirs,)),)), OTHER)
    assert builders.plan_detach(view).findings == ()


def test_a_vm_that_is_no_longer_listed_is_named_by_its_uuid() -> None:
    view = imaged(builders.attached(builders.host()))
    view = replace(view, domains=tuple(item for item in view.domains if item.name != OTHER))
    with pytest.raises(errors.InUse) as caught:
        builders.plan_detach(view)
    assert caught.value.details == (f"VM {builders.vm_uuid(OTHER)} has it in its managed-save image",)


def test_a_clone_is_cleaned_whatever_the_originals_snapshots_name() -> None:
    """Its detach frees nothing."""
    view = builders.attached(builders.host())
    original = builders.find(view, "vm01")
    view = builders.change_domain(
        view, OTHER, lambda found: replace(found, claims=original.claims, inactive=original.inactive)
    )
    view = builders.with_saved_states(view, SavedStates(snapshots=(("monday", (device(view),)),)), "vm01")
    assert builders.verbs(builders.plan_detach(view, OTHER)) == ["detach_hostdev", "drop_claim"]


# What frees a vGPU of an earlier generation


def exchange(view: HostView) -> Plan:
    return builders.plan_attach(view, profile="8Q", replace_it=True)


def leftover(view: HostView) -> HostView:
    """--replace, killed before its last step: the old vGPU is still there."""
    return simulate.apply(view, exchange(view).steps[:-1])


def test_an_exchange_does_not_free_what_an_image_names() -> None:
    with pytest.raises(errors.InUse):
        exchange(imaged(builders.attached(builders.host_of(MDEV_VF))))


@pytest.mark.parametrize("whose", ["vm01", OTHER])
def test_nor_what_a_snapshot_names_the_vms_own_or_not(whose: str) -> None:
    view = builders.attached(builders.host_of(MDEV_VF))
    view = builders.with_saved_states(view, SavedStates(snapshots=(("monday", (device(view),)),)), whose)
    with pytest.raises(errors.NamedInSnapshot) as caught:
        exchange(view)
    assert caught.value.hint == (
        f"virsh snapshot-delete {whose} monday, or first `vgpumgr detach vm01 --keep-snapshots --slot vgpu0`"
    )


def test_nor_does_an_attach_that_clears_up_after_a_killed_exchange() -> None:
    view = builders.attached(builders.host_of(MDEV_VF))
    evidence = snapped(view).saved
    half = replace(leftover(view), saved=evidence)
    with pytest.raises(errors.NamedInSnapshot):
        builders.plan_attach(half, profile="8Q")
    assert builders.verbs(builders.plan_attach(replace(half, saved={}), profile="8Q")) == ["destroy_vgpu"]


# Not read


def test_what_was_not_read_is_not_nothing() -> None:
    view = replace(builders.attached(builders.host_of(MDEV_VF)), saved=None)
    with pytest.raises(errors.InUse, match="cannot tell"):
        builders.plan_detach(view)
    with pytest.raises(errors.InUse, match="cannot tell"):
        exchange(view)


def test_what_frees_nothing_needs_nothing_read() -> None:
    blind = replace(builders.host(), saved=None)
    assert builders.plan_attach(blind).changed
    assert not builders.plan_detach(blind).changed
    assert not builders.plan_attach(builders.attached(blind)).changed
