"""What the driver has lost is told, on every framework; what merely is full, unread or under way is not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FrameworkName
from vgpumgr.core.plan import lost
from vgpumgr.core.report import findings

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView

on_vfs = pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
each_framework = pytest.mark.parametrize("framework", [MDEV_PF, MDEV_VF, VENDOR_VFIO])


def offering(view: HostView, pci: str, offers: dict[int, int] | None) -> HostView:
    """The view with other offers of one function."""

    def change(gpu: Gpu) -> Gpu:
        parents = tuple(replace(item, creatable=offers) if item.pci == pci else item for item in gpu.parents)
        return replace(gpu, parents=parents)

    return builders.change_gpus(view, change)


def free_vf(view: HostView) -> str:
    return next(parent.pci for parent in view.snapshot.gpus[0].parents if not parent.vgpus)


@on_vfs
@pytest.mark.parametrize("idle", [True, False])
def test_a_vf_that_offers_nothing_while_its_siblings_do_is_lost(framework: FrameworkName, idle: bool) -> None:
    view = builders.host_of(framework, gpus=1)
    view = view if idle else builders.attached(view)
    vf = free_vf(view)
    view = offering(view, vf, {})
    gpu = view.snapshot.gpus[0]
    (place,) = lost.lost_by_driver(view.snapshot)
    assert (place.gpu, place.parent, place.instances) == (gpu.pci, vf, 1)
    assert lost.lost_parents(view.snapshot, gpu) == {vf}
    (found,) = (item for item in findings.of_host(view) if item.kind == "lost-by-driver")
    for word in (gpu.pci, vf, "reboot kvm01, or reload its nvidia driver, before any vGPU VM is started there"):
        assert word in found.text


@each_framework
def test_a_healthy_gpu_has_lost_nothing_idle_or_in_use_or_full(framework: FrameworkName) -> None:
    view = builders.host_of(framework, gpus=1, vms=40)
    most = builders.type_of(view.snapshot.gpus[0], "4Q").max or 0
    for number in range(most + 1):
        assert lost.lost_by_driver(view.snapshot) == ()
        if number < most:
            view = builders.attached(view, f"vm{number + 1:02}")


@on_vfs
def test_what_is_unread_or_where_a_write_is_under_way_is_not_judged(framework: FrameworkName) -> None:
    view = builders.host_of(framework, gpus=1)
    vf = free_vf(view)
    assert lost.lost_by_driver(offering(view, vf, None).snapshot) == ()
    assert lost.lost_by_driver(builders.with_blocked_writes(offering(view, vf, {})).snapshot) == ()


def test_a_physical_function_that_offers_too_few_has_lost_instances_and_takes_others() -> None:
    view = builders.attached(builders.host_of(MDEV_PF, gpus=1))
    gpu = view.snapshot.gpus[0]
    (parent,) = gpu.parents
    view = offering(view, parent.pci, {type_id: room - 2 for type_id, room in (parent.creatable or {}).items()})
    (place,) = lost.lost_by_driver(view.snapshot)
    assert (place.parent, place.instances) == (gpu.pci, 2)
    assert lost.lost_parents(view.snapshot, view.snapshot.gpus[0]) == frozenset()
    assert "has lost 2 vGPUs of GPU" in lost.findings(view.snapshot)[0].text


def test_what_sriov_off_would_lose_is_told_of_vendor_vfio_alone_and_only_where_there_is_something() -> None:
    empty = builders.host_of(VENDOR_VFIO, gpus=1)
    assert lost.at_stake(empty.snapshot) == ()
    view = builders.attached(empty)
    (found,) = lost.at_stake(view.snapshot)
    assert "before SR-IOV is turned off, or a virtual function unbound" in found.text
    assert builders.hardware_of(view).parent in found.text
    assert lost.at_stake(builders.attached(builders.host_of(MDEV_VF, gpus=1)).snapshot) == ()
