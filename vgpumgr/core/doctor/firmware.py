"""Illnesses that only the firmware's settings mend: the IOMMU or SR-IOV is off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.doctor.case import Case
    from vgpumgr.core.doctor.illness import Illness

_AMPERE: Final = 0x2080
"""The first PCI device id of GA100. All boards of NVIDIA's list from there on make vGPUs by SR-IOV alone."""


def iommu(case: Case) -> Iterator[Illness]:
    """GPUs with SR-IOV, but without an IOMMU group.

    A virtual function is assigned by its group (virPCIDeviceAddressGetIOMMUGroupNum, virpci.c). GPUs before Ampere
    need none: their mdevs have groups of their own.
    """
    gpus = [gpu.pci for gpu in case.symptoms.gpus if gpu.total_vfs and not gpu.iommu_group]
    if gpus:
        what = say("the IOMMU of {} is off: no IOMMU group has GPU {}", case.host, " or ".join(gpus))
        mend = say(
            "a person turns on VT-d or AMD-Vi in the firmware of {}, and intel_iommu=on on its kernel command line; then "
            "it reboots",
            case.host,
        )
        yield case.ill("iommu-off", what, f"/sys/bus/pci/devices/{gpus[0]}/iommu_group does not exist", mend)


def sriov(case: Case) -> Iterator[Illness]:
    """GPUs without SR-IOV whose boards need it for vGPUs.

    The kernel shows sriov_totalvfs only where the function has it (drivers/pci/pci-sysfs.c), and 0 where no address
    is left for virtual functions (drivers/pci/iov.c). NVIDIA's vGPU guide asks for SR-IOV in the firmware, from Ampere
    on. Boards with display outputs have it in another mode of the board only (NVIDIA's displaymodeselector).
    """
    for gpu in case.symptoms.gpus if case.symptoms.host_driver else ():
        if gpu.total_vfs or not case.makes_vgpus(gpu) or int(gpu.pci_id.partition(":")[2], 16) < _AMPERE:
            continue
        what = say("GPU {} has no SR-IOV, without which its board makes no vGPUs", gpu.pci)
        shown = "does not exist" if gpu.total_vfs is None else "is 0"
        mend = say(
            "a person turns on SR-IOV (and ARI, above 4G decoding) in the firmware of {}, or on a board with display "
            "outputs by NVIDIA's displaymodeselector; then it reboots",
            case.host,
        )
        yield case.ill("sriov-off", what, f"/sys/bus/pci/devices/{gpu.pci}/sriov_totalvfs {shown}", mend, gpu=gpu.pci)
