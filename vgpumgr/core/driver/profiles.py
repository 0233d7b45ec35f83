"""What can be asked for: the profile grammar, and the ways to ask as values.

A profile has three spellings: `4Q` (any board that has it), `A40-4Q` (that board), `NVIDIA A40-4Q` (the driver's name).
The grammar of a type name is BOARD-SIZE SERIES [SUFFIX], or BOARD-SLICES-SIZE SERIES for MIG-backed types; SIZE is in GB,
and 0 means 512 MB; the series are A, B, C and Q (NVIDIA's vGPU user guide; vgpu-device-manager v0.5.0).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from vgpumgr.errors import BadName

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPE = re.compile(
    r"(?P<board>[A-Za-z0-9]+(?:-[A-Za-z]+)?)-(?:(?P<slices>[1-9])-)?(?P<size>[0-9]{1,3})(?P<series>[ABCQ])(?P<suffix>4|ME|NOME|MEALL|GFX)?"
)
_SHORT = re.compile(r"(?:(?P<slices>[1-9])-)?(?P<size>[0-9]{1,3})(?P<series>[ABCQ])(?P<suffix>4|ME|NOME|MEALL|GFX)?")
_RTX_PRO = re.compile(r"RTX Pro (\d{4})", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeName:
    """A parsed type name. `short` is the part after the board: 4Q, 1-5CME. `slices` is None for time-sliced types."""

    board: str
    slices: int | None
    size_gb: int
    series: str
    suffix: str

    @property
    def short(self) -> str:
        slices = f"{self.slices}-" if self.slices is not None else ""
        return f"{slices}{self.size_gb}{self.series}{self.suffix}"

    @property
    def text(self) -> str:
        return f"{self.board}-{self.short}"

    @property
    def nominal_mib(self) -> int:
        """Framebuffer according to the name, in MiB; the host's own figure takes precedence."""
        return self.size_gb * 1024 or 512


def last_word(driver_name: str) -> str:
    """`NVIDIA A40-4Q` → `A40-4Q`: called `type_name` everywhere."""
    words = driver_name.split()
    return words[-1] if words else driver_name


@functools.lru_cache(maxsize=1024)
def parse_type_name(text: str) -> TypeName:
    """Parse the driver's name or its last word. Raises BadName."""
    found = _TYPE.fullmatch(last_word(text))
    if found is None:
        raise BadName(f"not a vGPU type name: {text!r}")
    slices = found["slices"]
    return TypeName(
        board=found["board"],
        slices=int(slices) if slices else None,
        size_gb=int(found["size"]),
        series=found["series"],
        suffix=found["suffix"] or "",
    )


def board_code(driver_name: str) -> str:
    """The board of a type: its code (A40), or RTXPRO6000 or RTXPRO4500 for code DC, which two boards share.

    Raises BadName.
    """
    code = parse_type_name(driver_name).board
    found = _RTX_PRO.search(driver_name) if code == "DC" else None
    return f"RTXPRO{found[1]}" if found else code


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile as asked for. `board` is None for the short spelling. `text` is the original spelling."""

    board: str | None
    short: str
    text: str


def parse_profile(text: str) -> Profile:
    """Parse `4Q`, `A40-4Q` or `NVIDIA A40-4Q`. Raises BadName."""
    words = text.split()
    last = words[-1] if words else ""
    short = _SHORT.fullmatch(last)
    if short is not None and len(words) == 1:
        return Profile(board=None, short=short[0], text=last)
    if _TYPE.fullmatch(last) is None:
        raise BadName(
            f"not a profile: {text!r}",
            hint="write it as 4Q, A40-4Q or 'NVIDIA A40-4Q'; `vgpumgr profiles` lists what the hosts have",
        )
    name = parse_type_name(last)
    return Profile(board=name.board, short=name.short, text=" ".join(words))


@dataclass(frozen=True, slots=True, kw_only=True)
class ByProfile:
    """The only way that can be served today; the inventory accepts the others and reports them as findings."""

    profile: Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ByMigProfile:
    mig_profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ByMemory:
    mib: int
    series: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ByShare:
    """A share of one GPU, above 0 and at most 1."""

    gpu: str
    series: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ByFgpu:
    """A share counted in fractional GPUs; the host's vgpumgr_fgpu_per_gpu says how many make one GPU."""

    fgpu: str
    series: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ByOther:
    """The wish of a claim from a later version: its attributes unchanged, so that they are kept."""

    asked: tuple[tuple[str, str], ...]


Wish: TypeAlias = ByProfile | ByMigProfile | ByMemory | ByShare | ByFgpu | ByOther
"""What a slot asks for, as it was written."""


def same_wish(one: Wish, other: Wish) -> bool:
    """Whether two wishes ask for the same thing; the driver's prefix in the spelling is ignored."""
    if isinstance(one, ByProfile) and isinstance(other, ByProfile):
        return (one.profile.board, one.profile.short) == (other.profile.board, other.profile.short)
    return one == other


def describe(wish: Wish) -> str:
    """The wish as its option: `--profile 4Q`."""
    return " ".join(options(wish))


def options(wish: Wish) -> tuple[str, ...]:
    """The wish as words of a command line."""
    match wish:
        case ByProfile():
            return "--profile", wish.profile.text
        case ByMigProfile():
            return "--mig-profile", wish.mig_profile
        case ByMemory():
            return "--gpu-memory", f"{wish.mib}M"
        case ByShare():
            return "--gpu", wish.gpu
        case ByFgpu():
            return "--fgpu", wish.fgpu
        case ByOther():
            return tuple(word for key, value in wish.asked for word in (f"--{key.replace('_', '-')}", value))


def attributes(wish: Wish) -> dict[str, str | int]:
    """The wish under the names used in a claim and in a document; what was not asked for is left out."""
    match wish:
        case ByProfile():
            return {"profile": wish.profile.text}
        case ByMigProfile():
            return {"mig_profile": wish.mig_profile}
        case ByMemory():
            return {"gpu_memory_mib": wish.mib, **_series(wish.series)}
        case ByShare():
            return {"gpu": wish.gpu, **_series(wish.series)}
        case ByFgpu():
            return {"fgpu": wish.fgpu, **_series(wish.series)}
        case ByOther():
            return dict(wish.asked)


def from_attributes(asked: Mapping[str, str]) -> Wish:
    """The inverse of attributes. Raises BadName."""
    series = asked.get("series")
    match sorted(asked.keys() - {"series"}):
        case ["profile"] if series is None:
            return ByProfile(profile=parse_profile(asked["profile"]))
        case ["mig_profile"] if series is None:
            return ByMigProfile(mig_profile=asked["mig_profile"])
        case ["gpu_memory_mib"]:
            return ByMemory(mib=_mib(asked["gpu_memory_mib"]), series=series)
        case ["gpu"]:
            return ByShare(gpu=asked["gpu"], series=series)
        case ["fgpu"]:
            return ByFgpu(fgpu=asked["fgpu"], series=series)
        case _:
            return ByOther(asked=tuple(sorted(asked.items())))


def _mib(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadName(f"gpu_memory_mib is {text[:40]!r}, which is not a number") from None


def _series(series: str | None) -> dict[str, str]:
    return {} if series is None else {"series": series}
