"""Which declaration decides about a GPU's setting: its own in `vgpumgr_gpus`, else its board's in `vgpumgr_boards`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from vgpumgr.core.inventory.model import BoardDeclaration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.core.inventory.model import GpuDeclaration, OfGpus
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.names import PciAddress

Setting = Literal["mode", "scheduler", "instances"]


def deciding(gpu: Gpu, declared: Sequence[OfGpus], setting: Setting) -> OfGpus | None:
    """The first declaration that decides about a GPU's setting; None if there is none."""
    return next(iter(all_deciding(gpu, declared, setting)), None)


def all_deciding(gpu: Gpu, declared: Sequence[OfGpus], setting: Setting) -> tuple[OfGpus, ...]:
    """The declarations that decide about a GPU's setting. If there are several, the inventory contradicts itself."""
    entries = [one for one in declared if getattr(one, setting) is not None and _is_about(one, gpu, setting)]
    own = tuple(one for one in entries if not isinstance(one, BoardDeclaration))
    return own or tuple(entries)


def layouts(gpus: Iterable[Gpu], declared: Sequence[OfGpus]) -> dict[PciAddress, tuple[str, ...]]:
    """The profiles of the GPU instances that are declared for each of these GPUs; none without a declaration."""
    entries = ((gpu.pci, deciding(gpu, declared, "instances")) for gpu in gpus)
    return {pci: entry.instances for pci, entry in entries if entry is not None and entry.instances}


def of_board(gpu: Gpu, declared: Sequence[OfGpus], setting: Setting) -> BoardDeclaration | None:
    """The board's declaration, if it decides."""
    entry = deciding(gpu, declared, setting)
    return entry if isinstance(entry, BoardDeclaration) else None


def _is_about(declared: GpuDeclaration | BoardDeclaration, gpu: Gpu, setting: Setting) -> bool:
    """Whether a declaration is for this GPU. A board's declaration is only for GPUs that offer vGPUs.

    A board's scheduler is not for a GPU in MIG mode.
    """
    if isinstance(declared, BoardDeclaration):
        if setting == "scheduler" and not gpu.rules.has_scheduler:
            return False
        return gpu.framework is not None and declared.board in gpu.board_names
    return declared.gpu_id in (gpu.pci, gpu.uuid)
