"""The three ways in which NVIDIA's drivers offer vGPUs, each with a VM, a GPU and a profile of a host VM."""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Which guest asks for what, where it lands, and what the driver calls it."""

    guest: str
    framework: str
    gpu: str
    profile: str
    type_id: int

    def device(self, row: dict[str, str]) -> str:
        """What names the vGPU in /sys, from a row of `list`: the mdev's UUID, or the VF."""
        return row["vf"] if self.framework == VENDOR_VFIO else row["uuid"]


PF = Case(guest="vm01", framework=MDEV_PF, gpu="0000:41:00.0", profile="T4-4Q", type_id=232)
VF = Case(guest="vm02", framework=MDEV_VF, gpu="0000:81:00.0", profile="A40-4Q", type_id=560)
VENDOR = Case(guest="vm03", framework=VENDOR_VFIO, gpu="0000:c1:00.0", profile="L40S-4Q", type_id=1150)
ALL = (PF, VF, VENDOR)
