"""What goes with a wish: the conditions that its vGPU must meet, what the wish was granted, and the site's own unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from vgpumgr.core.commands import in_words
from vgpumgr.core.driver import plugin_params, profiles, scheduler
from vgpumgr.errors import BadName, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.wording import Message

Word = TypeVar("Word", bound=str)
Way = Literal["mig", "time-sliced"]
MIG: Final = "mig"
TIME_SLICED: Final = "time-sliced"
WAYS: tuple[Way, ...] = (MIG, TIME_SLICED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a vGPU must meet besides the wish. A condition that is None accepts anything.

    `max_waste_pct`: the percentage of the vGPU that may exceed the request. `compute`: its GPU's scheduler policy.
    `only`: how the GPU is divided; `prefer`: the same as a preference. `param`: plugin parameters (plugin_params.py).
    """

    max_waste_pct: int | None = None
    compute: Policy | None = None
    only: Way | None = None
    prefer: Way | None = None
    param: str | None = None


NO_CONDITIONS: Final = Conditions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a wish was granted on the GPU that serves it. A later change of the inventory's unit does not affect it.

    `asked_mib` is rounded up. `guest_mib`: the least that the guest sees. `waste_pct`: the part that exceeds the wish.
    """

    asked_mib: int
    framebuffer_mib: int
    guest_mib: int
    waste_pct: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FgpuMemory:
    """One fGPU is this much of a board's memory."""

    mib: int


FgpuUnit: TypeAlias = int | FgpuMemory
"""What the site's unit means on one board: the number of fGPUs per GPU, or the memory of each."""

FgpuUnits: TypeAlias = "Mapping[str, FgpuUnit]"


def describe(wish: Wish, conditions: Conditions) -> Message:
    """The whole request as options: `--gpu 0.2 --max-waste 30`."""
    return in_words((*profiles.options(wish), *options(conditions)))


def options(conditions: Conditions) -> tuple[str, ...]:
    """The conditions as words of a command line."""
    return tuple(
        word for key, value in attributes(conditions).items() for word in (f"--{key.replace('_', '-')}", value)
    )


def attributes(conditions: Conditions) -> dict[str, str]:
    """The conditions that are set, under the names used in a claim."""
    values = {
        "max_waste": conditions.max_waste_pct,
        "compute": conditions.compute,
        "only": conditions.only,
        "prefer": conditions.prefer,
        "param": conditions.param,
    }
    return {key: str(value) for key, value in values.items() if value is not None}


def split(asked: Mapping[str, str]) -> tuple[Conditions, dict[str, str]]:
    """Split a claim's attributes into the conditions that this version knows, and the rest. Raises BadName."""
    keys = attributes(Conditions(max_waste_pct=0, compute=scheduler.BEST_EFFORT, only=MIG, prefer=MIG, param=""))
    waste, compute, only, prefer, param = (asked.get(key) for key in keys)
    conditions = Conditions(
        max_waste_pct=None if waste is None else parse_percent(waste, what="max_waste"),
        compute=next((one for one in scheduler.POLICIES if one == compute), None),
        only=next((one for one in WAYS if one == only), None),
        prefer=next((one for one in WAYS if one == prefer), None),
        param=None if param is None else plugin_params.known(param),
    )
    read = attributes(conditions)
    return conditions, {key: value for key, value in asked.items() if key not in read}


def parse_percent(text: str, *, what: str = "it") -> int:
    """A whole number of percent: `10` or `10%`. Raises BadName; `what` is what the person calls it."""
    number = text.removesuffix("%").strip()
    if not (number.isascii() and number.isdecimal() and len(number) <= 3 and int(number) <= 100):
        raise BadName(f"{what} is {text[:40]!r}, not a percentage from 0 to 100", hint="for example 10")
    return int(number)


def parse_param(text: str, *, what: str) -> str:
    """Plugin parameters in their canonical form. Raises BadName; `what` is what the person calls them."""
    try:
        return plugin_params.parse(text)
    except BadName as error:
        raise BadName(f"{what}: {error.message}", hint=error.hint) from error


WAYS_TO_ASK = ("profile", "mig_profile", "gpu_memory", "gpu", "fgpu")
AMOUNTS = ("gpu_memory", "gpu", "fgpu")
OF_AMOUNTS = ("series", "usable", "max_waste")
"""Options that are valid with an amount only."""


def _conditions(asked: Mapping[str, str], spelt: Callable[[str], str]) -> Conditions:
    if "only" in asked and "prefer" in asked:
        raise UsageError(f"{spelt('only')} and {spelt('prefer')} cannot be combined", hint="give one of them")
    waste, param = asked.get("max_waste"), asked.get("param")
    return Conditions(
        max_waste_pct=None if waste is None else parse_percent(waste, what=spelt("max_waste")),
        compute=_choice(asked, "compute", scheduler.POLICIES, spelt),
        only=_choice(asked, "only", WAYS, spelt),
        prefer=_choice(asked, "prefer", WAYS, spelt),
        param=None if param is None else parse_param(param, what=spelt("param")),
    )


def read(given: Mapping[str, str | bool | None], *, about: str, spelt: Callable[[str], str]) -> tuple[Wish, Conditions]:
    """The wish and conditions in a set of options. `spelt`: a key as the user writes it. Raises UsageError, BadName."""
    asked = {key: str(value) for key, value in given.items() if value is not None and value is not False}
    ways = [key for key in WAYS_TO_ASK if key in asked]
    if len(ways) != 1:
        how = f"{' and '.join(map(spelt, ways))} cannot be combined" if ways else "say which vGPU is wanted"
        raise UsageError(f"{about}: {how}", hint=f"give exactly one of {', '.join(map(spelt, WAYS_TO_ASK))}")
    (key,) = ways
    extras = () if key in AMOUNTS else [other for other in OF_AMOUNTS if other in asked]
    if extras:
        raise UsageError(
            f"{spelt(extras[0])} cannot be combined with {spelt(key)}",
            hint=f"it can be combined with {', '.join(map(spelt, AMOUNTS))}",
        )
    conditions = _conditions(asked, spelt)
    series = _choice(asked, "series", profiles.SERIES, spelt)
    try:
        return _wish(key, asked[key], series, usable="usable" in asked), conditions
    except BadName as error:
        colon = ":" if key == "profile" else ""
        raise BadName(f"{spelt(key)}{colon} {error.message}", hint=error.hint) from error


def _wish(key: str, text: str, series: str | None, *, usable: bool) -> Wish:
    match key:
        case "profile":
            return profiles.ByProfile(profile=profiles.parse_profile(text))
        case "mig_profile":
            return profiles.ByMigProfile(mig_profile=profiles.parse_mig_profile(text))
        case "gpu_memory":
            return profiles.ByMemory(mib=profiles.parse_memory(text), series=series, usable=usable)
        case "gpu":
            return profiles.ByShare(gpu=profiles.parse_share(text, limit=1), series=series, usable=usable)
        case _:
            return profiles.ByFgpu(fgpu=profiles.parse_share(text), series=series, usable=usable)


def _choice(asked: Mapping[str, str], key: str, valid: tuple[Word, ...], spelt: Callable[[str], str]) -> Word | None:
    if key not in asked:
        return None
    for word in valid:
        if word == asked[key]:
            return word
    raise UsageError(f"{spelt(key)} is {asked[key][:40]!r}", hint=f"one of {', '.join(valid)}")
