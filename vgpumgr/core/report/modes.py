"""What `mode show` reports for each GPU: its mode, compared with the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.inventory import GpuDeclaration
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, Mode
    from vgpumgr.names import GpuUuid, HostName, PciAddress

State = Literal["ok", "drift", "undeclared"]
OK: Final = "ok"
DRIFT: Final = "drift"
UNDECLARED: Final = "undeclared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRow:
    """One GPU. `mode` is None if it is unknown, and so is `state` then. `vgpus`: how many exist there, of anybody."""

    host: HostName
    pci: PciAddress
    uuid: GpuUuid | None
    board: str | None
    mode: Mode | None
    declared: Mode | None
    state: State | None
    vgpus: int


def rows(facts: HostSnapshot, declared: Sequence[GpuDeclaration] = ()) -> tuple[ModeRow, ...]:
    """Every GPU of a host."""
    return tuple(row_of(facts, gpu, declared) for gpu in facts.gpus)


def row_of(facts: HostSnapshot, gpu: Gpu, declared: Sequence[GpuDeclaration] = ()) -> ModeRow:
    """One GPU."""
    wanted = declared_for(gpu, declared)
    return ModeRow(
        host=facts.host,
        pci=gpu.pci,
        uuid=gpu.uuid,
        board=gpu.board,
        mode=gpu.mode,
        declared=wanted,
        state=_state(gpu.mode, wanted),
        vgpus=len(gpu.vgpus),
    )


def declared_for(gpu: Gpu, declared: Sequence[GpuDeclaration]) -> Mode | None:
    """The mode that is declared for a GPU, by its address or its UUID."""
    return next((one.mode for one in declared if one.mode and one.gpu_id in (gpu.pci, gpu.uuid)), None)


def _state(mode: Mode | None, wanted: Mode | None) -> State | None:
    if wanted is None:
        return UNDECLARED
    if mode is None:
        return None
    return OK if mode == wanted else DRIFT
