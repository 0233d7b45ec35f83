"""What was read of a host for its report: the facts, and the driver's files and NVML's answers that they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.names import PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A GPU's function; `vf_index` is None for the physical one. `driver`: what is bound to it.

    `group`: how many functions are in its IOMMU group, None without one. `vfio_devs`: how many VFIO devices it has.
    `files`: the driver's files below it by name; a text that begins with `!` is the errno's name.
    """

    gpu: PciAddress
    pci: PciAddress
    vf_index: int | None
    driver: str | None
    group: int | None
    vfio_devs: int
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of NVML about a GPU. `of`: the arguments but handles, and `answer`, as JSON texts; `code` 0: success."""

    gpu: PciAddress | None
    call: str
    of: str
    answer: str
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """`host`: the driver's files outside /sys/bus/pci. `raw`: all of it as the host told it, for the report."""

    snapshot: HostSnapshot
    host: Mapping[str, str]
    functions: tuple[Function, ...]
    calls: tuple[Call, ...]
    raw: Mapping[str, object]
