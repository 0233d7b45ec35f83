"""Units for people: a vGPU in its own unit and in today's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text.grants import gib

if TYPE_CHECKING:
    from vgpumgr.core.report.units import EarlierUnit


def both_readings(one: EarlierUnit) -> str:
    """`vm01 vgpu0 on kvm01: --fgpu 0.5 was 12 GiB (2 per GPU) and stays A40-12C; now it is 6 GiB (4 per GPU), …`."""
    old_unit = f"{one.requested} was {gib(one.asked_mib)} ({one.unit}) and stays {one.type_name}"
    if one.now_unit is None:
        new_unit = f"the inventory has no unit for {one.board} now"
    elif one.now_mib is None:
        new_unit = f"now ({one.now_unit}) it is more than one GPU"
    else:
        new_unit = f"now it is {gib(one.now_mib)} ({one.now_unit}), {one.now_type or 'more than any type has'}"
    return f"{one.vm} {one.slot} on {one.host}: {old_unit}; {new_unit}"
