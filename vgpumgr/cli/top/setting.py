"""The terminal and the options for which `top` draws a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.controller.usage import Past


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a frame depends on besides the readings. `hosts`: how many are read. `manual`: the command's help.

    `chosen`: VMs were named, so only their vGPUs are shown. `past`: what the stored samples say of the last day.
    """

    width: int
    height: int
    ascii_only: bool
    hosts: int
    every_s: float
    manual: tuple[str, ...] = ()
    chosen: bool = False
    past: Past | None = None
