"""A GPU as a picture: where each part of it lies on a bar, and what it says. Templates draw it as SVG.

Positions are percentages of the bar's width, so that one picture fits a phone and a wall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a bar, from `x` on. `lines`: what is written on it, as far as that fits; `title` says it in full."""

    kind: str
    x: float
    width: float
    lines: tuple[str, ...]
    title: str


def parts(gpu: Row) -> tuple[Part, ...]:
    """The parts of the bar of a GPU, as the document of `report` or `placed` has it.

    Blocks of unknown size share what is left; if the others fill the GPU, each of them is as wide as the mean of those.
    """
    nothing = {"kind": "unknown", "mib": None, "name": None, "slot": None, "type_name": None, "owner": None}
    blocks: Sequence[Row] = gpu["blocks"] or (nothing,)
    sizes = [one["mib"] for one in blocks if one["mib"] is not None]
    known, unknown = sum(sizes), len(blocks) - len(sizes)
    usual = known / len(sizes) if known else 1.0
    whole = max(gpu["mib"] or 0, known + unknown * usual, 1)
    rest = (whole - known) / unknown if unknown else 0.0
    result: list[Part] = []
    x = 0.0
    for one in blocks:
        x = 100 * one["at"] / whole if "at" in one else x
        width = 100 * (rest if one["mib"] is None else one["mib"]) / whole
        lines = tuple(text for text in _lines(one) if text)
        result.append(Part(kind=one["kind"], x=round(x, 3), width=round(width, 3), lines=lines, title=_title(one)))
        x += width
    return tuple(result)


def placed(gpu: Row, places: int) -> Row:
    """The GPU with each part where it lies, and what is free between them. `places`: how many its mode counts.

    It stays as it is if its mode has no places (0), or the place or size of a part is unknown.
    """
    taken = [one for one in gpu["blocks"] if one["kind"] not in ("free", "stranded")]
    if not places or any(one["start"] is None or one["mib"] is None for one in taken):
        return gpu
    blocks: list[Row] = []
    at = 0
    for one in (*taken, {"start": places, "mib": 0}):
        start = max(at, one["start"] * gpu["mib"] // places)
        if (start - at) * places >= gpu["mib"]:  # a GPU instance may be a little smaller than its slices
            nobody = dict.fromkeys(("name", "slot", "type_name", "owner", "start"))
            blocks.append({"kind": "free", "mib": start - at, "at": at, **nobody})
        blocks.append({**one, "at": start})
        at = start + one["mib"]
    return {**gpu, "blocks": blocks[:-1]}


def said(gpu: Row) -> str:
    """The picture in words, for those who cannot see it."""
    head = f"{gpu['board'] or 'GPU'} {gpu['gpu']} of {gpu['host']}, {memory(gpu['mib'])}"
    return f"{head}: {'; '.join(map(_title, gpu['blocks'])) or 'its parts are unknown'}"


def memory(mib: int | None) -> str:
    """An amount of memory: 4 GiB, 1.5 GiB; ? if unknown."""
    return "?" if mib is None else f"{round(mib / 1024, 1):g} GiB"


# what a block of each kind is
KEY = {
    "used": "in use",
    "idle": "not in use",
    "awaited": "gone, comes back with reconcile",
    "foreign": "not vgpumgr's",
    "unknown": "of unknown ownership",
    "instance": "GPU instance without vGPU",
    "reserved": "reserved",
    "stranded": "stranded (free, and useless for usual requests)",
    "free": "free",
}


def _lines(block: Row) -> tuple[str | None, ...]:
    match block["kind"]:
        case "free" | "stranded" as kind:
            return kind, memory(block["mib"])
        case kind:
            return block["name"] or kind, block["type_name"]


def _title(block: Row) -> str:
    of_vm = (block["name"], block["slot"], block["type_name"], block["owner"])
    return ", ".join([*(text for text in of_vm if text), memory(block["mib"]), KEY[block["kind"]]])
