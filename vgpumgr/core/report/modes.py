"""What `mode show` reports for each GPU: its mode, compared with the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr.core.inventory import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.inventory import OfGpus
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.names import GpuUuid, HostName, PciAddress

State = Literal["ok", "drift", "undeclared"]
OK: Final = "ok"
DRIFT: Final = "drift"
UNDECLARED: Final = "undeclared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRow:
    """One GPU. `mode` and `state` are None if the mode is unknown. `vgpus`: how many exist on it, foreign ones, too.

    `declared_where`: the place in the inventory, in words.
    """

    host: HostName
    pci: PciAddress
    board: str | None
    mode: Mode | None
    declared: Mode | None
    vgpus: int
    state: State | None
    declared_where: str | None
    uuid: GpuUuid | None


def rows(facts: HostSnapshot, declared: Sequence[OfGpus] = ()) -> tuple[ModeRow, ...]:
    """A row for each GPU of a host."""
    return tuple(row_of(facts, gpu, declared) for gpu in facts.gpus)


def row_of(facts: HostSnapshot, gpu: Gpu, declared: Sequence[OfGpus] = ()) -> ModeRow:
    """The row of one GPU."""
    setting = settings.deciding(gpu, declared, "mode")
    target = setting.mode if setting is not None else None
    return ModeRow(
        host=facts.host,
        pci=gpu.pci,
        uuid=gpu.uuid,
        board=gpu.board,
        mode=gpu.mode,
        declared=target,
        declared_where=setting.origin if setting is not None else None,
        state=_state(gpu.mode, target),
        vgpus=len(gpu.vgpus),
    )


def _state(mode: Mode | None, target: Mode | None) -> State | None:
    if target is None:
        return UNDECLARED
    if mode is None:
        return None
    return OK if mode == target else DRIFT
