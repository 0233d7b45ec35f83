"""The memory slices of a GPU in MIG mode, drawn to scale: what `mig show` and `mig fit` say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from string import ascii_letters, digits, punctuation
from typing import TYPE_CHECKING, Final

from vgpumgr.cli.text.words import counted, one_line
from vgpumgr.cli.text.wrapping import cell_width, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vgpumgr.core.driver.mig_fit import Fit
    from vgpumgr.core.report.instances import HostInstances, InstanceRow

IN_A_PIPE: Final = 80
_WIDEST_SLICE: Final = 20
_LEAST_SLICE: Final = 2  # a border, and the key
_KEYS: Final = ascii_letters + digits + punctuation  # more than a host may report slices


class State(StrEnum):
    """Whose an instance is, and whether it is in use. `planned`: it does not exist yet."""

    USED = "used"
    CACHED = "cached"
    FOREIGN = "foreign"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """An instance as it is drawn. `start`, `size`: in memory slices. `label`: the profile. `who`: its VMs, if any."""

    start: int
    size: int
    label: str
    state: State
    who: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Strokes:
    """The characters to draw with. `top` and `bottom`: the left corner, where two instances meet, the right corner."""

    top: str
    bottom: str
    line: str
    side: str
    fills: dict[State, str]


_BOXES: Final = _Strokes(
    top="┌┬┐",
    bottom="└┴┘",
    line="─",
    side="│",
    fills={State.USED: "█", State.CACHED: "░", State.FOREIGN: "▚", State.PLANNED: " "},
)
_ASCII: Final = _Strokes(
    top="+++",
    bottom="+++",
    line="-",
    side="|",
    fills={State.USED: "#", State.CACHED: ":", State.FOREIGN: "x", State.PLANNED: " "},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    """A box in the drawing: an instance, or free slices. `inner`: its width without borders."""

    inner: int
    texts: tuple[str, str]
    state: State | None
    key: str = ""

    @property
    def shown(self) -> tuple[str, str]:
        return (self.key, "") if self.key else self.texts

    @property
    def note(self) -> str:
        return f"{self.key}: {' '.join(filter(None, self.texts))}"

    def fill(self, strokes: _Strokes) -> str:
        return " " if self.state is None else strokes.fills[self.state]


def drawing(slices: int, instances: Sequence[Drawn], width: int, *, ascii_only: bool = False) -> list[str]:
    """The slices from left to right, with their numbers above.

    No line is wider than `width`, which must be at least 2 per slice and 1 more. A text that does not fit its instance
    becomes a key, explained below. If any instance exists, a row shows the State of each by a pattern, without
    colour.
    """
    strokes = _ASCII if ascii_only else _BOXES
    cell = max(_LEAST_SLICE, min(_WIDEST_SLICE, (width - 1) // slices))
    boxes = _boxes(slices, instances, cell)
    first, second = zip(*(box.shown for box in boxes), strict=True)
    rows = [_row(strokes, first, boxes), *([_row(strokes, second, boxes)] if any(second) else [])]
    states = sorted({box.state for box in boxes if box.state} - {State.PLANNED}, key=[*State].index)
    if states:
        rows.append(_row(strokes, [box.fill(strokes) * box.inner for box in boxes], boxes))
    numbers = _numbers(slices, cell)
    lines = [numbers, _edge(strokes, strokes.top, boxes), *rows, _edge(strokes, strokes.bottom, boxes)]
    notes = [box.note for box in boxes if box.key]
    notes += ["   ".join(f"{strokes.fills[state]} {state}" for state in states)] if states else []
    return [*lines, *(line for note in notes for line in wrapped(note, width))]


def _numbers(slices: int, cell: int) -> str:
    """The slices' numbers; only every second one where the last would not fit its slice."""
    every = 1 if len(f" {slices - 1}") <= cell else 2
    shown = ("" if number % every else f" {number}"[-cell:] for number in range(slices))
    return "".join(text.ljust(cell) for text in shown).rstrip()


def _boxes(slices: int, instances: Sequence[Drawn], cell: int) -> list[_Box]:
    instance_at = {at: one for one in instances for at in range(one.start, one.start + one.size)}
    boxes = []
    keys = iter(_KEYS)
    for one, run in groupby(range(slices), instance_at.get):
        inner = len([*run]) * cell - 1
        if one is None:
            boxes.append(_Box(inner=inner, texts=("free" if inner >= len("free") else "", ""), state=None))
            continue
        texts = (one_line(one.label), one_line(one.who))
        fits = all(cell_width(text) <= inner for text in texts)
        boxes.append(_Box(inner=inner, texts=texts, state=one.state, key="" if fits else next(keys)))
    return boxes


def _row(strokes: _Strokes, texts: Sequence[str], boxes: Sequence[_Box]) -> str:
    cells = [_padded(text, box.inner) for text, box in zip(texts, boxes, strict=True)]
    return strokes.side + strokes.side.join(cells) + strokes.side


def _padded(text: str, inner: int) -> str:
    size = cell_width(text)
    blank = " " if size < inner else ""
    return blank + text + " " * (inner - size - len(blank))


def _edge(strokes: _Strokes, corners: str, boxes: Sequence[_Box]) -> str:
    return corners[0] + corners[1].join(strokes.line * box.inner for box in boxes) + corners[2]


def show_lines(hosts: Iterable[HostInstances], width: int | None, nothing: str, *, ascii_only: bool) -> Iterator[str]:
    """Each GPU in MIG mode: a head, its instances, and what still fits. `nothing`: printed if there is no such GPU."""
    none = True
    for host in hosts:
        for gpu in host.gpus:
            if not none:
                yield ""
            none = False
            yield f"{host.host}  {gpu.pci}  {gpu.board or '?'}"
            if gpu.problem is not None:
                yield f"? what GPU instances it has cannot be read: {gpu.problem}"
                continue
            if not gpu.slices:
                yield "? the driver reports no GPU instance profile"
                continue
            boxes = [_drawn(one) for one in gpu.instances]
            yield from drawing(gpu.slices, boxes, width or IN_A_PIPE, ascii_only=ascii_only)
            how = ", once cached ones are removed" if any(one.state == "cached" for one in gpu.instances) else ""
            yield from wrapped(f"still fits{how}: {', '.join(gpu.fits) or 'nothing'}", width or IN_A_PIPE)
    if none:
        yield nothing


def _drawn(one: InstanceRow) -> Drawn:
    assert one.start is not None
    assert one.size is not None
    return Drawn(
        start=one.start,
        size=one.size,
        label=f"{one.profile} id {one.id}",
        state=State(one.state),
        who=" ".join(one.vms or ()) + ("" if one.ours or not one.vms else " (foreign)"),
    )


def fit_lines(answer: Fit, width: int | None, *, ascii_only: bool) -> Iterator[str]:
    """A drawing of what could be placed; and if that is everything, how much of the board it takes."""
    instances = [
        Drawn(start=piece.start, size=piece.profile.size, label=piece.profile.name, state=State.PLANNED)
        for piece in answer.placed
    ]
    yield from drawing(answer.slices, instances, width or IN_A_PIPE, ascii_only=ascii_only)
    if answer.blocked is None:
        slices_in_use = sum(one.size for one in instances)
        yield f"fits on {answer.board}: {slices_in_use} of {counted(answer.slices, 'memory slice')} taken"
