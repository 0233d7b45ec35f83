"""What the lab's boards are in MIG mode: their GPU instance profiles, as `nvidia-smi mig -lgip` and -lgipp print them.

Ids, starts and widths are those of public output: A100, H100 and A30 (the MIG user guide, and many hosts), RTX PRO 6000
(hosts with 580). Other boards with seven slices have the same ones and names of their own (MIG user guide).
Memory is that of public output on A100, A30 and RTX PRO 6000 (a vGPU host's); elsewhere the nominal size less 256 MiB
(chosen). The number of SMs of an instance is its slices times a board's usual number (chosen).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.lab.driver.model import InstanceProfile, MigSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

_MIB = 1024
_LESS_MIB = 256
# Framebuffer of the board in GB: GB of 1g, of 1g with double memory and 2g, of 3g and 4g, of 7g.
_SEVENTHS = {
    40: (5, 10, 20, 40),
    64: (8, 16, 32, 64),
    80: (10, 20, 40, 80),
    94: (12, 24, 47, 94),
    96: (12, 24, 48, 96),
    141: (18, 35, 71, 141),
}
_A100_MIB = {5: 4864, 10: 9856, 20: 19968, 40: 40192}
_SMS_AMPERE, _SMS_HOPPER = 14, 16
_RTX_PRO_MIB = {1: 23675, 2: 47616, 4: 95621}  # 23.12, 46.50 and 93.38 GiB
_RTX_PRO_SMS = {1: 46, 2: 94, 4: 188}


def mig_of(code: str, framebuffer_mib: int) -> MigSpec | None:
    """A board's MIG mode; None if it has none. `framebuffer_mib` is the framebuffer of its largest type.

    Ampere boards need a reset to change the mode and keep it over a reboot; Hopper and later need none, and lose it
    (MIG user guide).
    """
    if code == "RTXPRO6000":
        return MigSpec(profiles=_rtx_pro(), width=12, needs_reset=False, shared=True)
    if code == "A30":
        return MigSpec(profiles=_a30(), width=4, needs_reset=True, shared=False)
    ampere = code.startswith(("A100", "A800"))
    if ampere or code.startswith("H"):
        sizes = next(sizes for total, sizes in _SEVENTHS.items() if framebuffer_mib <= total * _MIB)
        return MigSpec(profiles=_sevenths(sizes, ampere=ampere), width=8, needs_reset=ampere, shared=False)
    return None


def _sevenths(sizes: tuple[int, int, int, int], *, ampere: bool) -> tuple[InstanceProfile, ...]:
    one, two, half, whole = sizes
    known = _A100_MIB if ampere and whole == 40 else {}
    sms = _SMS_AMPERE if ampere else _SMS_HOPPER
    rows = (
        (19, 0x0, f"1g.{one}gb", 1, 1, range(7), one, 7),
        (20, 0x7, f"1g.{one}gb+me", 1, 1, range(7), one, 1),
        (15, 0x9, f"1g.{two}gb", 1, 2, (0, 2, 4, 6), two, 4),
        (14, 0x1, f"2g.{two}gb", 2, 2, (0, 2, 4), two, 3),
        (9, 0x2, f"3g.{half}gb", 3, 4, (0, 4), half, 2),
        (5, 0x3, f"4g.{half}gb", 4, 4, (0,), half, 1),
        (0, 0x4, f"7g.{whole}gb", 7, 8, (0,), whole, 1),
    )
    return tuple(
        _profile(row[:6], memory_mib=known.get(row[6], row[6] * _MIB - _LESS_MIB), maximum=row[7], sms=row[3] * sms)
        for row in rows
    )


def _a30() -> tuple[InstanceProfile, ...]:
    rows = (
        (14, 0x0, "1g.6gb", 1, 1, range(4), 5952, 4),
        (21, 0x7, "1g.6gb+me", 1, 1, range(4), 5952, 1),
        (5, 0x1, "2g.12gb", 2, 2, (0, 2), 11968, 2),
        (6, 0x8, "2g.12gb+me", 2, 2, (0, 2), 11968, 1),
        (0, 0x3, "4g.24gb", 4, 4, (0,), 24000, 1),
    )
    return tuple(_profile(row[:6], memory_mib=row[6], maximum=row[7], sms=row[3] * _SMS_AMPERE) for row in rows)


def _rtx_pro() -> tuple[InstanceProfile, ...]:
    quarters, halves, whole = (0, 3, 6, 9), (0, 6), (0,)
    rows = (
        (14, 0x0, "1g.24gb", 1, 3, quarters, 4),
        (21, 0x7, "1g.24gb+me", 1, 3, quarters, 1),
        (47, 0xA, "1g.24gb+gfx", 1, 3, quarters, 4),
        (65, 0xF, "1g.24gb+me.all", 1, 3, quarters, 1),
        (67, 0xD, "1g.24gb-me", 1, 3, quarters, 4),
        (5, 0x1, "2g.48gb", 2, 6, halves, 2),
        (35, 0xB, "2g.48gb+gfx", 2, 6, halves, 2),
        (64, 0x10, "2g.48gb+me.all", 2, 6, halves, 1),
        (66, 0xE, "2g.48gb-me", 2, 6, halves, 2),
        (0, 0x3, "4g.96gb", 4, 12, whole, 1),
        (32, 0xC, "4g.96gb+gfx", 4, 12, whole, 1),
    )
    return tuple(
        _profile(row[:6], memory_mib=_RTX_PRO_MIB[row[3]], maximum=row[6], sms=_RTX_PRO_SMS[row[3]]) for row in rows
    )


def _profile(
    row: tuple[int, int, str, int, int, Iterable[int]], *, memory_mib: int, maximum: int, sms: int
) -> InstanceProfile:
    profile_id, number, name, slices, size, starts = row
    return InstanceProfile(
        id=profile_id,
        number=number,
        name=name,
        slices=slices,
        size=size,
        starts=tuple(starts),
        memory_mib=memory_mib,
        maximum=maximum,
        sms=sms,
    )
