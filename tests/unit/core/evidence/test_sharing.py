"""One device, one definition: who else names a vGPU is told everywhere, and nothing is given to a second VM."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.reconcile import host_plans
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.evidence import sharing
from vgpumgr.core.gpu import evacuate
from vgpumgr.core.model import domain_xml
from vgpumgr.core.model.domain_dumps import DomainDump
from vgpumgr.core.model.domain_xml import Hostdev, SavedStates
from vgpumgr.core.model.snapshot import MDEV_VF, VENDOR_VFIO, FrameworkName
from vgpumgr.core.report import findings, listing
from vgpumgr.core.slot import detach
from vgpumgr.names import VmName

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView

EVERY_FRAMEWORK = pytest.mark.parametrize("framework", [name for name, _ in builders.FRAMEWORKS])


def device(view: HostView, alias: str | None = None) -> Hostdev:
    return builders.hostdev(builders.hardware_of(view), alias)


def defined(view: HostView) -> HostView:
    return builders.give(view, "vm02", device(view))


def aliased(view: HostView) -> HostView:
    return builders.give(view, "vm02", device(view, "ua-vgpu0"))


def live(view: HostView) -> HostView:
    return builders.change_domain(view, "vm02", lambda found: replace(found, active=True, live=(device(view),)))


def snapped(view: HostView) -> HostView:
    return builders.snapped(view, name="before it's")


WAYS = [
    (defined, "the definition of vm02", "take its hostdev out (`virsh edit vm02`)"),
    (aliased, "the definition of vm02", "`virsh detach-device-alias vm02 ua-vgpu0 --config`"),
    (live, "vm02, which is running with it", "shut vm02 down"),
    (builders.imaged, "the managed-save image of vm02", "start vm02, or `virsh managedsave-remove vm02`"),
    (snapped, "snapshot before it's of vm02", "`virsh snapshot-delete vm02 'before it'\"'\"'s'`"),
]


@EVERY_FRAMEWORK
@pytest.mark.parametrize(("way", "what", "out"), WAYS, ids=[way.__name__ for way, _, _ in WAYS])
def test_a_device_that_two_vms_name_is_a_finding_of_both_with_the_command_that_mends_it(
    way: Callable[[HostView], HostView], what: str, out: str, framework: FrameworkName
) -> None:
    view = way(builders.attached(builders.host_of(framework)))
    found = {finding.vm: finding.text for finding in findings.of_host(view) if finding.kind == "shared"}
    assert set(found) == {"vm01", "vm02"}
    assert f"is also in {what}" in found["vm01"]
    assert found["vm01"].endswith(f": {out}")
    assert found["vm02"].endswith(f": {out}")
    nothing = builders.plan_attach(view)
    assert (nothing.changed, [finding.kind for finding in nothing.findings]) == (False, ["shared"])
    nightly = host_plans.plan(view)
    assert [finding.kind for finding in nightly.findings] == ["shared", "shared"]


@EVERY_FRAMEWORK
def test_two_vms_that_name_a_foreign_vgpu_are_told_too(framework: FrameworkName) -> None:
    view = builders.with_foreign(builders.host_of(framework))
    foreign = builders.hostdev(view.snapshot.gpus[0].vgpus[0])
    view = builders.give(builders.give(view, "vm01", foreign), "vm02", foreign)
    assert [finding.vm for finding in findings.of_host(view) if finding.kind == "shared"] == ["vm01", "vm02"]


def test_a_vms_own_snapshots_and_images_share_nothing() -> None:
    view = builders.attached(builders.host())
    saved = SavedStates(image=(device(view),), snapshots=(("monday", (device(view),)),))
    assert not [
        item for item in findings.of_host(builders.with_saved_states(view, saved, "vm01")) if item.kind == "shared"
    ]


@EVERY_FRAMEWORK
def test_a_device_that_another_definition_has_is_not_put_into_a_second_one(framework: FrameworkName) -> None:
    """vm01's hostdev was taken out, and is in vm02's definition."""
    view = aliased(builders.attached(builders.host_of(framework)))
    view = builders.change_domain(view, "vm01", lambda found: replace(found, inactive=()))
    with pytest.raises(errors.ConflictingClaim) as caught:
        builders.plan_attach(view)
    assert "is in the definition of vm02" in caught.value.message
    assert caught.value.hint == "`virsh detach-device-alias vm02 ua-vgpu0 --config`; then attach again"


@pytest.mark.parametrize("way", [snapped, builders.imaged])
def test_a_vf_that_a_snapshot_or_an_image_names_is_given_to_no_other_vm(way: Callable[[HostView], HostView]) -> None:
    """It was vm02's: freed with --keep-snapshots, and a revert brings it back into vm02's definition."""
    view = builders.attached(builders.host_of(VENDOR_VFIO, gpus=1), "vm01")
    named = builders.detached(view, "vm01")
    named = replace(named, saved=way(view).saved)
    assert builders.entry_of(view).vgpu.parent == "0000:41:00.4"
    assert builders.entry_of(builders.attached(named, "vm03"), "vm03").vgpu.parent == "0000:41:00.5"
    if way is snapped:
        assert builders.entry_of(builders.attached(named, "vm02"), "vm02").vgpu.parent == "0000:41:00.4"


def test_a_full_gpu_says_which_snapshot_keeps_its_last_vf() -> None:
    view = builders.attached(builders.host_of(VENDOR_VFIO, gpus=1, vfs=1), "vm01")
    saved = snapped(view).saved
    view = replace(builders.detached(view, "vm01"), saved=saved)
    with pytest.raises(errors.NoCapacity) as caught:
        builders.plan_attach(view, "vm03")
    assert caught.value.details == (
        "0000:41:00.0  L40S  every virtual function is taken (1; 0000:41:00.4 in snapshot before it's of vm02)",
    )


@pytest.mark.parametrize(
    ("framework", "said"),
    [
        (MDEV_VF, "snapshots that name the freed vGPU and can no longer be started: monday"),
        (
            VENDOR_VFIO,
            (
                "snapshots that name the freed virtual function: after a revert the VM has it in its definition again, and "
                "would start with whatever vGPU is there by then (vgpumgr gives it to no other VM while they name it): monday"
            ),
        ),
    ],
)
def test_keep_snapshots_foretells_what_a_revert_brings(framework: FrameworkName, said: str) -> None:
    view = builders.attached(builders.host_of(framework))
    saved = SavedStates(snapshots=(("monday", (device(view, "ua-vgpu0"),)),))
    made = builders.plan_detach(view, keep_snapshots=True, saved=saved)
    assert [finding.text for finding in made.findings] == [said]


def test_a_reverted_vf_that_is_another_vms_by_now_is_told_and_its_detach_takes_nothing_away() -> None:
    before = builders.attached(builders.host_of(VENDOR_VFIO))
    old = builders.find(before, "vm01")
    taken = builders.attached(builders.detached(before), "vm02")
    view = builders.change_domain(taken, "vm01", lambda _: old)
    assert [(item.kind, item.vm) for item in findings.of_host(view)] == [
        ("reverted", "vm01"),
        ("shared", "vm02"),
        ("shared", "vm01"),
    ]
    texts = [item.text for item in findings.of_host(view) if item.kind == "shared"]
    assert all(text.endswith(": `vgpumgr detach vm01 --on kvm01`") for text in texts)
    end = simulate.apply(view, builders.plan_detach(view).steps)
    assert end.snapshot == taken.snapshot
    made = builders.plan_attach(view)
    assert made.target is not None
    assert made.target.parent != builders.entry_of(taken, "vm02").vgpu.parent


# A managed-save image of one's own


def test_an_image_without_the_vgpu_is_said_since_it_wins_at_the_next_start() -> None:
    view = builders.with_saved_states(builders.attached(builders.host()), SavedStates(image=()), "vm01")
    assert [finding.kind for finding in findings.of_host(view)] == ["saved-image"]
    assert [row.state for row in listing.rows(view)] == ["pending_restart"]
    with_it = builders.with_saved_states(view, SavedStates(image=(device(view),)), "vm01")
    assert not findings.of_host(with_it)


# Hints


def test_a_claim_that_cannot_be_read_is_told_with_the_command_that_takes_it_out() -> None:
    view = builders.change_domain(
        builders.host(), "vm01", lambda found: replace(found, claim_problem="generation is 'x', which is not a number")
    )
    found = findings.of_host(view)
    assert [item.kind for item in found] == ["unreadable"]
    assert "`virsh metadata vm01 urn:vgpumgr:domain:2 --config` shows it, and removes it with --remove" in found[0].text
    with pytest.raises(errors.Unsure):
        detach.guard_claim_readable(builders.find(view, "vm01"))


def test_an_alias_that_a_device_of_another_kind_has_is_a_conflict() -> None:
    view = builders.change_domain(
        builders.host(), "vm01", lambda found: replace(found, other_aliases=frozenset({"ua-vgpu0"}))
    )
    with pytest.raises(errors.ConflictingClaim) as caught:
        builders.plan_attach(view)
    assert caught.value.hint == "use another --slot, or give that device another alias"
    assert builders.plan_attach(view, slot="vgpu1").changed


def test_aliases_of_other_devices_are_read_and_hostdevs_are_not_among_them() -> None:
    documents = DomainDump(
        name=VmName("vm01"),
        uuid=builders.vm_uuid("vm01"),
        active=False,
        persistent=True,
        managed_save=False,
        inactive_xml="<domain><devices><serial><alias name='ua-vgpu0'/></serial><disk><alias name='disk0'/></disk>"
        "<hostdev><alias name='ua-vgpu1'/></hostdev></devices></domain>",
        live_xml=None,
    )
    assert domain_xml.read_domain(documents).other_aliases == {"ua-vgpu0"}


@EVERY_FRAMEWORK
def test_a_scheduler_does_not_move_what_somebody_made_at_our_place_since_the_boot(framework: FrameworkName) -> None:
    view = builders.attached(builders.host_of(framework, gpus=1))
    view = replace(view, snapshot=replace(view.snapshot, boot=builders.NEXT_BOOT))
    gpu = view.snapshot.gpus[0]
    with pytest.raises(errors.Unsure):
        evacuate.guard_idle(view, gpu, evacuate.entries(view, gpu), "the scheduler stays as it is")


def in_one_group(view: HostView) -> HostView:
    """Every function of the host in IOMMU group 50, as behind a switch without ACS."""

    def regrouped(gpu: Gpu) -> Gpu:
        parents = (
            replace(
                parent,
                group="50",
                vgpus=tuple(replace(one, vfio=("/dev/vfio/50", *one.vfio[1:])) for one in parent.vgpus),
            )
            for parent in gpu.parents
        )
        return replace(gpu, parents=tuple(parents))

    return builders.change_gpus(view, regrouped)


def told_of_groups(view: HostView) -> list[tuple[str | None, str]]:
    return [(one.vm, one.text) for one in findings.of_host(view) if "IOMMU group" in one.text]


def test_two_vms_with_vgpus_in_one_iommu_group_are_a_finding_and_the_first_to_run_holds_its_own_alone() -> None:
    view = builders.host_of(VENDOR_VFIO, gpus=1)
    for vm in ("vm01", "vm02"):
        view = builders.attached(view, vm)
    assert told_of_groups(view) == []
    view = in_one_group(view)
    ((whose, text),) = told_of_groups(view)
    assert whose == "vm02"
    assert text.startswith(
        "vm01 and vm02 have vGPUs in one IOMMU group (50: 0000:41:00.4, 0000:41:00.5), which VFIO gives to one VM"
    )
    assert "`vgpumgr detach vm02 --slot vgpu0 --on kvm01`" in text
    runs = builders.held(view, "vm01", by="vm01")
    assert [(row.vm, row.state, row.holder) for row in listing.rows(runs)] == [
        ("vm01", "in_use", "vm01"),
        ("vm02", "bound", None),
    ]
    with pytest.raises(errors.InUse) as refused:
        builders.plan_detach(runs, "vm02")
    assert refused.value.details == ("VM vm01 holds /dev/vfio/50, its IOMMU group, for 0000:41:00.4 open (pid 4711)",)
    unknown = builders.held(view, "vm01")
    assert [row.state for row in listing.rows(unknown)] == ["in_use", "in_use"], "whose process it is is unknown"


def test_one_vm_may_have_all_vgpus_of_an_iommu_group() -> None:
    view = builders.attached(builders.attached(builders.host_of(VENDOR_VFIO, gpus=1)), slot="vgpu1")
    assert told_of_groups(in_one_group(view)) == []


def test_functions_whose_vgpus_are_gone_with_sr_iov_are_not_taken_for_a_gpu_that_a_vm_has_whole() -> None:
    """They lie in the GPU's own slot, as the audio function of a card does."""
    view = builders.rebooted(builders.attached(builders.host_of(VENDOR_VFIO, gpus=1)))
    assert sharing.passed_through(builders.without_vgpus(view, "SR-IOV is off")) == ()
