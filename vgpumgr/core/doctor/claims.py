"""Illnesses of claims that no finding names: of another framework than the GPU has now, or of one UUID for two VMs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.commands import command
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.doctor.case import Case
    from vgpumgr.core.doctor.illness import Illness
    from vgpumgr.core.model.vgpu import Device


def other_framework(case: Case) -> Iterator[Illness]:
    """Claims for mdevs on a GPU that has vendor-specific VFIO now, or the other way round.

    Which one a GPU has depends on kernel and driver: from Linux 6.8 on NVIDIA's vGPU 17 offers no mdevs on boards with
    SR-IOV (its release notes for Ubuntu 24.04).
    """
    gpus = {gpu.uuid: gpu for gpu in case.facts.gpus if gpu.framework is not None}
    for domain, claim in case.claims:
        gpu = gpus.get(claim.binding.gpu_uuid)
        is_mdev = isinstance(claim.binding.device, Mdev)
        if gpu is None or is_mdev != (gpu.framework == VENDOR_VFIO):
            continue
        was, now = ("an mdev", "a virtual function") if is_mdev else ("a virtual function", "an mdev")
        what = say("the vGPU of {} {} was {}; GPU {} makes each as {} now", domain.name, claim.slot, was, gpu.pci, now)
        mend = say("`{}`, then attach it again", command("detach", domain.name, slot=claim.slot, on=case.host))
        seen = "the VM's definition and /sys"
        yield case.ill("other-framework", what, seen, mend, gpu=gpu.pci, vm=domain.name, slot=claim.slot)


def twice(case: Case) -> Iterator[Illness]:
    """Claims of several VMs for one mdev, none of them a copy: the kernel has each UUID once (mdev core, EEXIST)."""
    names: dict[Device, list[str]] = {}
    for domain, claim in case.claims:
        names.setdefault(claim.binding.device, []).append(domain.name)
    for device, vms in names.items():
        if isinstance(device, Mdev) and len(vms) > 1:
            what = say("{} are both to have the mdev {}", joined(" and ", vms), device.uuid)
            mend = say("free one of them: `{}`", command("detach", vms[1], on=case.host))
            yield case.ill("uuid-twice", what, "the claims in the VMs' definitions", mend, vm=vms[1])
