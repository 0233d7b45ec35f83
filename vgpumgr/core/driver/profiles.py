"""What can be asked for: the profile grammar, and the ways to ask as values.

A profile has three spellings: `4Q` (any board that has it), `A40-4Q` (that board), `NVIDIA A40-4Q` (the driver's name).
The grammar of a type name is BOARD-SIZE SERIES [SUFFIX], or BOARD-SLICES-SIZE SERIES for MIG-backed types. SIZE is in
GB; 0 means 512 MB. The series are A, B, C and Q (NVIDIA's vGPU user guide; vgpu-device-manager v0.5.0). Names without
a series (A40-8 in the 595 driver, RTX2070-2 in an unlocked one), and with one that we do not know, can be requested
only with their board; a name of another form (NVIDIA GeForce RTX 3050) only in full.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

from vgpumgr.core.commands import in_words
from vgpumgr.errors import BadName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.wording import Message

_TYPE = re.compile(
    r"(?P<board>[A-Za-z0-9]+(?:-[A-Za-z]+)?)-(?:(?P<slices>[1-9])-)?(?P<size>[0-9]{1,3})"
    r"(?:(?P<series>[ABCQ])(?P<suffix>4|ME|NOME|MEALL|GFX)?|(?P<other>[A-Z][A-Z0-9]{0,15}))?"
)
_FULL = re.compile(r"(?:NVIDIA|GRID)(?: [A-Za-z0-9][A-Za-z0-9.+_-]*){1,8}")
_SHORT = re.compile(r"(?:(?P<slices>[1-9])-)?(?P<size>[0-9]{1,3})(?P<series>[ABCQ])(?P<suffix>4|ME|NOME|MEALL|GFX)?")
_MEMORY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([GM])(?:iB)?")
_SHARE = re.compile(r"[0-9]{0,9}(?:\.[0-9]{1,6})?(?<=[0-9])", re.ASCII)
_MIG = re.compile(r"[1-9]g\.[1-9][0-9]{0,2}gb(?:[+-]me|\+me\.all|\+gfx)?")
SERIES = ("A", "B", "C", "Q")
DEFAULT_SERIES: Final = "C"
MOST_FGPU: Final = 1_000_000
SHARED_CODE: Final = "DC"
_RTX_PRO = re.compile(r"RTX Pro (\d{4})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeName:
    """A parsed type name. `short` is the part after the board: 4Q, 1-5CME. `slices` is None for time-sliced types.

    `series` is empty if the name has none that we know. A name outside the grammar has only a `suffix`, its last word.
    """

    board: str
    slices: int | None
    size_gb: int
    series: str
    suffix: str

    @property
    def short(self) -> str:
        if not self.board:
            return self.suffix
        slices = f"{self.slices}-" if self.slices is not None else ""
        return f"{slices}{self.size_gb}{self.series}{self.suffix}"

    @property
    def text(self) -> str:
        return f"{self.board}-{self.short}" if self.board else self.short

    @property
    def nominal_mib(self) -> int:
        """Framebuffer according to the name, in MiB, 0 if it gives none; the host's own figure takes precedence."""
        return (self.size_gb * 1024 or 512) if self.board else 0


def last_word(driver_name: str) -> str:
    """The last word of the driver's name, which is called `type_name` everywhere: `NVIDIA A40-4Q` → `A40-4Q`."""
    words = driver_name.split()
    return words[-1] if words else driver_name


@functools.lru_cache(maxsize=1024)
def parse_type_name(text: str) -> TypeName:
    """Parse the driver's name or its last word. Raises BadName."""
    match = _TYPE.fullmatch(last_word(text))
    if match is None:
        raise BadName(f"not a vGPU type name: {text!r}")
    slices = match["slices"]
    return TypeName(
        board=match["board"],
        slices=int(slices) if slices else None,
        size_gb=int(match["size"]),
        series=match["series"] or "",
        suffix=match["suffix"] or match["other"] or "",
    )


def read_type_name(text: str) -> TypeName | None:
    """Parse the driver's name or its last word; None if the grammar does not cover it."""
    try:
        return parse_type_name(text)
    except BadName:
        return None


def name_of(text: str) -> TypeName:
    """Parse the driver's name or its last word. Of a name that the grammar does not cover, the last word is kept."""
    return read_type_name(text) or other_name(text)


def other_name(text: str) -> TypeName:
    """A name that the grammar does not cover: nothing is known of it but its last word."""
    return TypeName(board="", slices=None, size_gb=0, series="", suffix=last_word(text))


def board_code(driver_name: str) -> str:
    """The board of a type: its code (A40), but RTXPRO6000 or RTXPRO4500 for DC, the code of both.

    Raises BadName.
    """
    code = parse_type_name(driver_name).board
    match = _RTX_PRO.search(driver_name) if code == SHARED_CODE else None
    return f"RTXPRO{match[1]}" if match else code


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile as asked for. `board` is None for the short spelling, and for a name outside the grammar.

    `text` is the original spelling.
    """

    board: str | None
    short: str
    text: str


def parse_profile(text: str) -> Profile:
    """Parse `4Q`, `A40-4Q`, `NVIDIA A40-4Q`, or whatever else the driver may call a type in full. Raises BadName."""
    words = text.split()
    last = words[-1] if words else ""
    short = _SHORT.fullmatch(last)
    if short is not None and len(words) == 1:
        return Profile(board=None, short=short[0], text=last)
    if _TYPE.fullmatch(last) is None:
        like = _in_capitals(last)
        if like is None and _FULL.fullmatch(" ".join(words)) is not None:
            return Profile(board=None, short=last, text=" ".join(words))
        raise BadName(
            f"not a profile: {text!r}",
            hint=f"did you mean {like}?"
            if like
            else "write it as 4Q, A40-4Q or 'NVIDIA A40-4Q'; `vgpumgr profiles` lists what the hosts have",
        )
    return Profile(board=board_code(text), short=parse_type_name(last).short, text=" ".join(words))


def _in_capitals(text: str) -> str | None:
    """4Q for 4q: the text with its last letter, or all of it, in capitals; None if neither is a profile."""
    spellings = (text[:-1] + text[-1:].upper(), text.upper())
    return next((one for one in spellings if _SHORT.fullmatch(one) or name_of(one).series), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByProfile:
    """Exactly this type."""

    profile: Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ByMigProfile:
    mig_profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amount:
    """At least this much. `series` None: DEFAULT_SERIES. `usable`: the guest must see that much, not only the type."""

    series: str | None = None
    usable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ByMemory(_Amount):
    mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ByShare(_Amount):
    """A share of one GPU, above 0 and at most 1."""

    gpu: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ByFgpu(_Amount):
    """A share in fractional GPUs; the host's vgpumgr_fgpu_per_gpu says how many make one GPU."""

    fgpu: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ByOther:
    """The wish of a claim from a later version; its attributes are kept unchanged."""

    asked: tuple[tuple[str, str], ...]


Amount: TypeAlias = ByMemory | ByShare | ByFgpu
"""A wish that is served by the smallest type with at least that amount."""

Wish: TypeAlias = ByProfile | ByMigProfile | Amount | ByOther
"""What a slot asks for, as it was written."""


def is_served(wish: Wish) -> bool:
    """Whether this version serves a claim with the wish; other claims are left alone."""
    return not isinstance(wish, ByOther)


def series_of(wish: Wish) -> str | None:
    """The series that a wish names; None or empty if it names none."""
    match wish:
        case ByProfile():
            return name_of(f"any-{wish.profile.short}").series
        case ByMemory() | ByShare() | ByFgpu():
            return wish.series
        case _:
            return None


def same_wish(one: Wish, other: Wish) -> bool:
    """Whether two wishes mean the same. The driver's prefix and an explicit default series make no difference."""
    if isinstance(one, ByProfile) and isinstance(other, ByProfile):
        return (one.profile.board, one.profile.short) == (other.profile.board, other.profile.short)
    return _in_full(one) == _in_full(other)


def _in_full(wish: Wish) -> Wish:
    return (
        replace(wish, series=wish.series or DEFAULT_SERIES) if isinstance(wish, ByMemory | ByShare | ByFgpu) else wish
    )


def describe(wish: Wish) -> Message:
    """The wish as its option: `--profile 4Q`."""
    return in_words(options(wish))


def options(wish: Wish) -> tuple[str, ...]:
    """The wish as words of a command line."""
    match wish:
        case ByProfile():
            return "--profile", wish.profile.text
        case ByMigProfile():
            return "--mig-profile", wish.mig_profile
        case ByMemory():
            return "--gpu-memory", memory_text(wish.mib), *_amount_options(wish)
        case ByShare():
            return "--gpu", wish.gpu, *_amount_options(wish)
        case ByFgpu():
            return "--fgpu", wish.fgpu, *_amount_options(wish)
        case ByOther():
            return tuple(word for key, value in wish.asked for word in (f"--{key.replace('_', '-')}", value))


def _amount_options(wish: Amount) -> tuple[str, ...]:
    series = () if wish.series in (None, DEFAULT_SERIES) else ("--series", wish.series)
    return (*series, "--usable") if wish.usable else series


def memory_text(mib: int) -> str:
    """An amount as it is asked for: 4G, 4608M."""
    return f"{mib}M" if mib % 1024 else f"{mib // 1024}G"


def attributes(wish: Wish) -> dict[str, str | int]:
    """The wish under the names used in a claim and in a document; only what was asked for."""
    match wish:
        case ByProfile():
            return {"profile": wish.profile.text}
        case ByMigProfile():
            return {"mig_profile": wish.mig_profile}
        case ByMemory():
            return {"gpu_memory_mib": wish.mib, **_amount_attributes(wish)}
        case ByShare():
            return {"gpu": wish.gpu, **_amount_attributes(wish)}
        case ByFgpu():
            return {"fgpu": wish.fgpu, **_amount_attributes(wish)}
        case ByOther():
            return dict(wish.asked)


def from_attributes(asked: Mapping[str, str]) -> Wish:
    """The inverse of attributes. Attributes that this version does not know give a ByOther. Raises BadName."""
    series, usable = asked.get("series"), asked.get("usable")
    amount = series is not None or usable is not None
    if series in (None, *SERIES) and usable in (None, "true"):
        match sorted(asked.keys() - {"series", "usable"}):
            case ["profile"] if not amount:
                return ByProfile(profile=parse_profile(asked["profile"]))
            case ["mig_profile"] if not amount:
                return ByMigProfile(mig_profile=asked["mig_profile"])
            case ["gpu_memory_mib"]:
                return ByMemory(mib=_mib(asked["gpu_memory_mib"]), series=series, usable=usable is not None)
            case ["gpu"]:
                return ByShare(gpu=parse_share(asked["gpu"], limit=1), series=series, usable=usable is not None)
            case ["fgpu"]:
                return ByFgpu(fgpu=parse_share(asked["fgpu"]), series=series, usable=usable is not None)
            case _:
                pass
    return ByOther(asked=tuple(sorted(asked.items())))


def parse_share(text: str, *, limit: int = MOST_FGPU) -> str:
    """A share in canonical form: `.250` → 0.25. Above 0, at most `limit`, up to six decimals. Raises BadName."""
    share = Decimal(text) if _SHARE.fullmatch(text) else Decimal(0)
    if not 0 < share <= limit:
        bounds = f"above 0 and at most {limit}" if limit == 1 else "above 0"
        raise BadName(f"must be a number {bounds}, found {text[:60]!r}", hint="for example 0.25")
    return format(share.normalize(), "f")


def parse_memory(text: str) -> int:
    """An amount of memory in MiB: `4G`, `1.5G`, `4096M`, `4GiB`. Raises BadName."""
    match = _MEMORY.fullmatch(text)
    mib = Decimal(match[1]) * (1024 if match[2] == "G" else 1) if match else Decimal(0)
    if not mib or mib != mib.to_integral_value():
        raise BadName(f"is not an amount of memory: {text[:60]!r}", hint="write it as 4G or 512M")
    return int(mib)


def parse_mig_profile(text: str) -> str:
    """A MIG profile as `nvidia-smi mig -lgip` writes it. Raises BadName."""
    if _MIG.fullmatch(text) is None:
        raise BadName(f"is not a MIG profile: {text[:60]!r}", hint="write it as 2g.10gb or 1g.10gb+me")
    return text


def _mib(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < 12 and int(text)):
        raise BadName(f"gpu_memory_mib is {text[:40]!r}, which is not a number")
    return int(text)


def _amount_attributes(wish: Amount) -> dict[str, str]:
    series = {} if wish.series is None else {"series": wish.series}
    return series | ({"usable": "true"} if wish.usable else {})
