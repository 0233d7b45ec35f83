"""The GPUs of the contract's hosts (tests/kernel/hardware.yml), and where their files are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.spec import GpuSpec, host_state
from vgpumgr.lab.spec_reader import load_spec

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import Gpu, TypeSpec

SPEC = str(Path(__file__).parents[1] / "hardware.yml")
HOST = load_spec(SPEC).hosts[0]

PCI = "/sys/bus/pci/devices"
PCI_DRIVER = "/sys/bus/pci/drivers/nvidia"
MDEVS = "/sys/bus/mdev/devices"
MDEV_DRIVER = "/sys/bus/mdev/drivers/nvidia-vgpu-vfio"
MDEV_PARENTS = "/sys/class/mdev_bus"
PROC = "/proc/driver/nvidia"
NVML = "/sys/kernel/debug/nvlab/nvml"  # what the mock libnvidia-ml reads, and writes changes to

A = "9e0d0000-0000-4000-8000-00000000000a"
B = "9e0d0000-0000-4000-8000-00000000000b"
C = "9e0d0000-0000-4000-8000-00000000000c"
D = "9e0d0000-0000-4000-8000-00000000000d"


@dataclass(frozen=True)
class Card:
    """One GPU. `short` is what rows call it."""

    short: str
    gpu: Gpu
    spec: GpuSpec

    @property
    def pci(self) -> str:
        return self.gpu.pci

    @cached_property
    def vfs(self) -> tuple[str, ...]:
        """The addresses of its virtual functions, in their order."""
        return tuple(vf_pci(self.gpu, index) for index in range(self.gpu.board.vfs))

    @property
    def kinds(self) -> tuple[TypeSpec, ...]:
        return self.gpu.board.types

    def kind(self, name: str) -> TypeSpec:
        """The type of that short name: 4Q."""
        return next(kind for kind in self.kinds if kind.name.endswith(f"-{name}"))

    def backed(self, profile: str) -> tuple[TypeSpec, ...]:
        """Its MIG-backed types of that GPU instance profile: 1g.10gb."""
        return tuple(kind for kind in self.gpu.board.mig_types if kind.profile == profile)

    def profile(self, name: str) -> int:
        """The id of that GPU instance profile."""
        assert self.gpu.board.mig is not None
        return self.gpu.board.mig.profile(name).id


def _card(short: str) -> Card:
    gpu = next(gpu for gpu in host_state(HOST, boot_id="").gpus if gpu.board.code == short)
    spec = next(spec for spec in HOST.gpus if spec.pci == gpu.pci)
    return Card(short, gpu, spec)


T4, A40, L40S, H100 = _card("T4"), _card("A40"), _card("L40S"), _card("H100")
CARDS = (T4, A40, L40S, H100)


def function(pci: str, name: str = "") -> str:
    """The directory of a PCI function, or a file in it."""
    return f"{PCI}/{pci}/{name}".rstrip("/")


def types(pci: str) -> str:
    """Where a parent keeps its mdev types."""
    return function(pci, "mdev_supported_types")


def type_file(pci: str, kind: TypeSpec, name: str = "") -> str:
    """The directory of an mdev type, or a file in it."""
    return f"{types(pci)}/nvidia-{kind.id}/{name}".rstrip("/")


def mdev(uuid: str, name: str = "") -> str:
    """An mdev's directory as the bus shows it, or a file in it."""
    return f"{MDEVS}/{uuid}/{name}".rstrip("/")


def vgpu(vf: str, name: str) -> str:
    """A file of a VF's own vGPU."""
    return function(vf, f"nvidia/{name}")
