"""What the frames of `top` are made for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.controller.usage import Past


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a frame is made for: the terminal, how many hosts are read how often, the command's own help.

    `chosen`: VMs were named, and only theirs are shown. `past`: what the stored samples say of the last day.
    """

    width: int
    height: int
    ascii_only: bool
    hosts: int
    every_s: float
    manual: tuple[str, ...] = ()
    chosen: bool = False
    past: Past | None = None
