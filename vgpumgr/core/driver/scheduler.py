"""How a GPU's time is shared: the wish, the driver's setting for it, and that setting as the RmPVMRL registry value.

Two layers hold a setting. NVML's is per GPU and engine, takes effect at once and is lost when the module is unloaded.
RmPVMRL is a module option and takes effect at the next load. Sources: nvml.h (slices in ns), nvrm_registry.h of R595
(RmPVMRL's bits), NVIDIA's vGPU guides 8.3 to 8.6 (ranges). "Round robin" below is the driver's adaptive one (ARR).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr.errors import BadName, BadSchedulerValue
from vgpumgr.wording import Message, Option, joined, say

if TYPE_CHECKING:
    from collections.abc import Mapping

Policy = Literal["best-effort", "equal-share", "fixed-share"]
BEST_EFFORT: Final = "best-effort"
EQUAL_SHARE: Final = "equal-share"
FIXED_SHARE: Final = "fixed-share"
POLICIES: tuple[Policy, ...] = (BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE)

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

_SLICE = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,6})?) ?ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The values that the driver takes, according to NVML. The driver clamps others silently, so we check first."""

    policies: tuple[str, ...]
    arr: bool
    min_time_slice_ns: int
    max_time_slice_ns: int
    min_frequency_hz: int
    max_frequency_hz: int
    min_averaging_factor: int
    max_averaging_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """How one engine (graphics, nvenc0, nvenc1) is shared now. None: unknown, or no vGPU is active."""

    engine: str
    policy: Policy | None
    arr: bool | None
    averaging_factor: int | None
    time_slice_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState:
    """The run-time layer of one GPU. `api` 2 (from r595) distinguishes engines, and its round robin is always on."""

    api: int
    caps: Caps
    engines: tuple[EngineState, ...]

    @property
    def policies(self) -> Mapping[str, Policy | None]:
        """The policy of each engine; None where it is unknown."""
        return {engine.engine: engine.policy for engine in self.engines}

    @property
    def policy(self) -> Policy | None:
        """The policy of all engines that report one; None if none does or they differ."""
        policies = {engine.policy for engine in self.engines if engine.policy is not None}
        return policies.pop() if len(policies) == 1 else None

    @property
    def active(self) -> EngineState | None:
        """The first engine that reports its slice, normally graphics; None while no vGPU is active."""
        return next((engine for engine in self.engines if engine.time_slice_ns), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerWish:
    """What was asked for, by option or by declaration. None: the driver's default."""

    policy: Policy
    time_slice_ns: int | None = None
    frequency_hz: int | None = None
    averaging_factor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is passed to the driver. None: the driver's default.

    A slice needs `arr` False; a frequency and an averaging factor need it True or None.
    """

    policy: Policy
    arr: bool | None = None
    averaging_factor: int | None = None
    frequency_hz: int | None = None
    time_slice_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What a wish becomes on one GPU. `notes`: how that differs from the exact wish."""

    setting: Setting
    text: str
    notes: tuple[str, ...] = ()


def parse_time_slice(text: str) -> int:
    """Read a time slice such as `2ms` or `2.5ms`, in ns. Raises BadName."""
    match = _SLICE.fullmatch(text.strip())
    whole, _, part = match[1].partition(".") if match else ("0", "", "")
    slice_ns = int(whole) * NS_PER_MS + int(part.ljust(6, "0"))
    if not slice_ns:
        raise BadName(f"not a time slice: {text!r}", hint="write it in milliseconds: 2ms")
    return slice_ns


def check_together(wish: SchedulerWish) -> None:
    """Raise BadSchedulerValue if the wish contradicts itself on any GPU."""
    values = {
        "time slice": wish.time_slice_ns,
        "frequency": wish.frequency_hz,
        "averaging factor": wish.averaging_factor,
    }
    names = [name for name, value in values.items() if value is not None]
    if wish.policy == BEST_EFFORT and names:
        raise BadSchedulerValue(
            f"{BEST_EFFORT} takes no {' and no '.join(names)}",
            hint=say("{} or {}", Option("--policy", EQUAL_SHARE), FIXED_SHARE),
        )
    if wish.time_slice_ns is not None and len(names) > 1:
        raise BadSchedulerValue(
            f"a time slice cannot be combined with {names[1]}", hint="a slice is a fixed length; the other two adapt it"
        )


def grant(wish: SchedulerWish, facts: SchedulerState) -> Granted:
    """The setting that serves a wish. Raises BadSchedulerValue with the range that this GPU takes."""
    check_together(wish)
    caps = facts.caps
    if wish.policy not in caps.policies:
        raise BadSchedulerValue(
            f"this GPU does not support the policy {wish.policy}",
            hint=f"it supports {', '.join(caps.policies) or 'none'}",
        )
    if wish.time_slice_ns is not None:
        return _grant_slice(wish.policy, wish.time_slice_ns, facts)
    adapts = wish.frequency_hz is not None or wish.averaging_factor is not None
    # nvml.h: "Flag to check Adaptive Round Robin mode enabled/disabled". While round robin is off, a 0 proves nothing.
    is_off = any(engine.arr is False for engine in facts.engines)
    if adapts and not caps.arr and not is_off:
        raise BadSchedulerValue(
            "this GPU's driver supports neither a frequency nor an averaging factor: its time slice does not adapt",
            hint=say("use {}", Option("--time-slice")),
        )
    _check_range("frequency", wish.frequency_hz, caps.min_frequency_hz, caps.max_frequency_hz, " Hz")
    _check_range("averaging factor", wish.averaging_factor, caps.min_averaging_factor, caps.max_averaging_factor, "")
    setting = Setting(
        policy=wish.policy,
        arr=True if adapts and facts.api == 1 else None,
        averaging_factor=wish.averaging_factor,
        frequency_hz=wish.frequency_hz,
    )
    return Granted(setting=setting, text=describe(setting))


def describe(setting: Setting) -> str:
    """A setting as text: `fixed-share, 500 Hz (2 ms)`."""
    words: list[str] = [setting.policy]
    if setting.time_slice_ns is not None:
        words.append(f"time slice {show_ms(setting.time_slice_ns)}")
    if setting.frequency_hz is not None:
        words.append(f"{setting.frequency_hz} Hz ({show_ms(slice_of(setting.frequency_hz))})")
    if setting.averaging_factor is not None:
        words.append(f"averaging factor {setting.averaging_factor}")
    return ", ".join(words)


def describe_wish(wish: SchedulerWish) -> Message:
    """The wish as its options: `--policy fixed-share --time-slice 2ms`."""
    time_slice = None if wish.time_slice_ns is None else f"{wish.time_slice_ns / NS_PER_MS:g}ms"
    options = {
        "--policy": wish.policy,
        "--time-slice": time_slice,
        "--frequency": wish.frequency_hz,
        "--averaging-factor": wish.averaging_factor,
    }
    return joined(" ", [Option(name, value) for name, value in options.items() if value is not None])


def slice_of(frequency_hz: int) -> int:
    """The slice in ns that a frequency gives: 480 Hz → 2 083 333."""
    return NS_PER_S // frequency_hz


def show_ms(slice_ns: int) -> str:
    return f"{slice_ns / NS_PER_MS:.4g} ms"


def _grant_slice(policy: Policy, slice_ns: int, facts: SchedulerState) -> Granted:
    caps = facts.caps
    if facts.api == 1:
        low, high = caps.min_time_slice_ns, caps.max_time_slice_ns
        if not low <= slice_ns <= high:
            raise _out_of_slices(slice_ns, low, high, "")
        if slice_ns % NS_PER_MS:
            # If it were rounded, the two layers would never agree, and the slice would change at the next reboot.
            raise BadSchedulerValue(
                f"a time slice of {show_ms(slice_ns)} would not survive a reboot: the registry takes whole milliseconds",
                hint=f"use {slice_ns // NS_PER_MS or 1}ms or {slice_ns // NS_PER_MS + 1}ms",
            )
        setting = Setting(policy=policy, arr=False, time_slice_ns=slice_ns)
        return Granted(setting=setting, text=describe(setting))
    low, high = slice_of(caps.max_frequency_hz), slice_of(caps.min_frequency_hz)
    if not low <= slice_ns <= high:
        raise _out_of_slices(slice_ns, low, high, f" ({caps.min_frequency_hz} to {caps.max_frequency_hz} Hz)")
    frequency_hz = _nearest_frequency(slice_ns, caps)
    setting = Setting(policy=policy, frequency_hz=frequency_hz)
    note = (
        f"time slice {show_ms(slice_ns)} is set as {frequency_hz} Hz ({show_ms(slice_of(frequency_hz))}): "
        "this driver takes only a frequency"
    )
    return Granted(setting=setting, text=describe(setting), notes=(note,))


def _nearest_frequency(slice_ns: int, caps: Caps) -> int:
    neighbours = {NS_PER_S // slice_ns, NS_PER_S // slice_ns + 1}
    candidates = [min(max(hz, caps.min_frequency_hz), caps.max_frequency_hz) for hz in sorted(neighbours)]
    return min(candidates, key=lambda hz: abs(NS_PER_S / hz - slice_ns))


def _check_range(what: str, value: int | None, low: int, high: int, unit: str) -> None:
    if value is not None and not low <= value <= high:
        raise BadSchedulerValue(
            f"{what} {value}{unit} is out of this GPU's range", hint=f"it takes {low} to {high}{unit}"
        )


def _out_of_slices(slice_ns: int, low: int, high: int, more: str) -> BadSchedulerValue:
    return BadSchedulerValue(
        f"a time slice of {show_ms(slice_ns)} is out of this GPU's range",
        hint=f"it takes {show_ms(low)} to {show_ms(high)}{more}",
    )


# Bits of RmPVMRL: 0 scheduler on; 1 round robin off (gone in nvrm_registry.h of R595); 3 weights off; 7:4 policy
# (0 equal, 1 fixed); 21:12 frequency in Hz with round robin on; 23:16 slice in ms with it off; 31:24 averaging factor.
_ON, _ARR_OFF, _POLICY, _OTHER = 0x1, 0x2, 0xF0, 0xF0C
_POLICY_BITS: dict[Policy, int] = {EQUAL_SHARE: 0x00, FIXED_SHARE: 0x10}


def rm_pvmrl(setting: Setting) -> int:
    """The registry value of a setting. Slices in whole ms."""
    if setting.policy == BEST_EFFORT:
        return 0
    value = _ON | _POLICY_BITS[setting.policy] | (setting.averaging_factor or 0) << 24
    if setting.arr is False:
        return value | _ARR_OFF | (setting.time_slice_ns or 0) // NS_PER_MS << 16
    return value | (setting.frequency_hz or 0) << 12


def read_rm_pvmrl(value: int, *, api: int = 1) -> Setting | None:
    """The setting that a registry value encodes; None if it has bits that this driver or vgpumgr does not know.

    `api` as in SchedulerState: 2 is a driver from R595 on.
    """
    if not value & _ON:
        return Setting(policy=BEST_EFFORT)
    policy = next((name for name, bits in _POLICY_BITS.items() if bits == value & _POLICY), None)
    if policy is None or value & _OTHER or value >> 32:
        return None
    factor = value >> 24 & 0xFF or None
    if value & _ARR_OFF and api > 1:
        return None
    if value & _ARR_OFF:
        slice_ms = value >> 16 & 0xFF
        return Setting(
            policy=policy, arr=False, averaging_factor=factor, time_slice_ns=slice_ms * NS_PER_MS if slice_ms else None
        )
    return Setting(policy=policy, averaging_factor=factor, frequency_hz=value >> 12 & 0x3FF or None)
