"""What an inventory declares for one host, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.core import builders
from vgpumgr import names
from vgpumgr.core.inventory import (
    GpuDeclaration,
    HostDeclaration,
    Location,
    SchedulerDeclaration,
    SlotDeclaration,
    VmDeclaration,
)
from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.names import DEFAULT_SLOT, Slot, VmName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.driver.scheduler import SchedulerWish

HERE = Location(file="hosts.yml", line=1)


def declares(shares: Mapping[str, SchedulerWish] | None = None, /, **vms: str | Mapping[str, str]) -> HostDeclaration:
    """`declares(vm01="4Q", vm02={"vgpu0": "4Q@0000:41:00.0"})`: a profile each, with the GPU after an @ where it matters.

    `shares`: a GPU's PCI address or UUID → its scheduler.
    """
    found = {
        VmName(name): _vm(name, {DEFAULT_SLOT: slots} if isinstance(slots, str) else slots)
        for name, slots in vms.items()
    }
    return HostDeclaration(
        name=builders.HOST,
        endpoint=Endpoint(
            host=builders.HOST, address="127.0.0.1", port=22, user="root", key_file=None, known_hosts="/dev/null"
        ),
        fgpu_per_gpu={},
        gpus=tuple(
            GpuDeclaration(
                gpu_id=names.parse_gpu_id(gpu),
                mode=None,
                scheduler=SchedulerDeclaration(wish=wish, where=HERE),
                where=HERE,
            )
            for gpu, wish in (shares or {}).items()
        ),
        vms=dict(sorted(found.items())),
        where=HERE,
    )


def _vm(name: str, slots: Mapping[str, str]) -> VmDeclaration:
    return VmDeclaration(
        name=VmName(name), slots={Slot(slot): _slot(slot, text) for slot, text in slots.items()}, where=HERE
    )


def _slot(slot: str, text: str) -> SlotDeclaration:
    profile, _, gpu = text.partition("@")
    return SlotDeclaration(
        slot=Slot(slot),
        wish=builders.wish(profile),
        where=HERE,
        gpu_id=names.parse_pci_address(gpu) if gpu else None,
    )
