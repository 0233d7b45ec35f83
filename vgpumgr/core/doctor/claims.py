"""Illnesses of claims that no finding names: another framework than the GPU has now, or one mdev for two VMs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.commands import command
from vgpumgr.core.evidence import ownership
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.doctor.case import Case
    from vgpumgr.core.doctor.illness import Illness
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.vgpu import Device
    from vgpumgr.names import MdevUuid


def other_framework(case: Case) -> Iterator[Illness]:
    """Claims for mdevs on a GPU that has vendor-specific VFIO now, or the other way round.

    Which one a GPU has depends on kernel and driver: from Linux 6.8 on NVIDIA's vGPU 17 offers no mdevs on boards with
    SR-IOV (its release notes for Ubuntu 24.04).
    """
    gpus = {gpu.uuid: gpu for gpu in case.facts.gpus if gpu.framework is not None}
    for domain, claim in case.claims:
        gpu = gpus.get(claim.binding.gpu_uuid)
        if gpu is None or not ownership.is_of_other_framework(gpu, claim.binding):
            continue
        was = "an mdev" if isinstance(claim.binding.device, Mdev) else "a virtual function"
        text = "the vGPU of {} {} was {}; the framework of GPU {} is {} now"
        what = say(text, domain.name, claim.slot, was, gpu.pci, gpu.framework or "?")
        mend = say("`{}` re-creates each with its type", Command("vgpumgr", "migrate-framework", case.host))
        seen = "the VM's definition and /sys"
        yield case.ill("other-framework", what, seen, mend, gpu=gpu.pci, vm=domain.name, slot=claim.slot)


def twice(case: Case) -> Iterator[Illness]:
    """Claims of several VMs for one mdev, none of them a copy. The kernel has each UUID once (mdev core, EEXIST)."""
    names: dict[Device, list[str]] = {}
    for domain, claim in case.claims:
        names.setdefault(claim.binding.device, []).append(domain.name)
    for device, vms in names.items():
        if isinstance(device, Mdev) and len(vms) > 1:
            what = say("{} are both to have the mdev {}", joined(" and ", vms), device.uuid)
            mend = say("free one of them: `{}`", command("detach", vms[1], on=case.host))
            yield case.ill("uuid-twice", what, "the claims in the VMs' definitions", mend, vm=vms[1])


def on_two_hosts(cases: Sequence[Case]) -> Iterator[Illness]:
    """Mdevs with one UUID on several of these hosts, an illness for each host after the first.

    A kernel only knows the mdevs of its own host. While a VM moves, two hosts rightly have one; so this is a doubt.
    """
    found: dict[MdevUuid, list[tuple[Case, Gpu]]] = {}
    for case in cases:
        for gpu in case.facts.gpus:
            for uuid in (vgpu.uuid for vgpu in gpu.vgpus if vgpu.uuid is not None):
                found.setdefault(uuid, []).append((case, gpu))
    for uuid, places in found.items():
        hosts = joined(" and ", [case.host for case, _ in places])
        users = [say("{} runs with it on {}", vm, case.host) for case, _ in places for vm in _running(case, uuid)]
        what = say("the mdev {} is on {}: {}", uuid, hosts, joined(", ", users) or "no VM runs with it")
        for case, gpu in places[1:]:
            mend = say(
                "if its VM has moved, free it where it is not needed: `{}`", Command("vgpumgr", "list", case.host)
            )
            yield case.ill("uuid-on-two-hosts", what, "/sys of these hosts", mend, gpu=gpu.pci)


def _running(case: Case, uuid: MdevUuid) -> list[str]:
    """The VMs that run with an mdev."""
    return [one.name for one in case.domains or () if any(device.source == Mdev(uuid) for device in one.live or ())]
