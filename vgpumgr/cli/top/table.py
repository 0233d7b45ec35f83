"""The content of `top` as values: rows sorted and filtered, and a total for each host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from fractions import Fraction

    from vgpumgr.core.usage.live import Row
    from vgpumgr.core.usage.readings import GpuReading, Round
    from vgpumgr.names import HostName

Group = Literal["", "host", "gpu"]
"""What `top` puts between its rows: nothing, each host, or each GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """The totals of one host.

    `error`: why it was not read, None if it was. `silent`: why its reading is incomplete. `sm`: the mean over its GPUs,
    in percent; bytes and numbers are sums. `others`: GPUs that NVIDIA's driver does not have (passed through).
    """

    host: HostName
    error: str | None
    silent: str | None
    gpus: int
    others: int
    vgpus: int | None
    running: int | None
    sm: float | None
    framebuffer_used_bytes: int | None
    framebuffer_size_bytes: int | None


def totals(rounds: Iterable[Round]) -> list[Total]:
    return [_total(one) for one in rounds]


def _total(one: Round) -> Total:
    every: Sequence[GpuReading] = one.reading.gpus if one.reading else ()
    # GPUs of which NVML reports only that nothing runs are passed through, and left out here.
    gpus = [gpu for gpu in every if not gpu.reported or gpu.framebuffer_size_bytes is not None]
    sm = _sum([gpu.sm for gpu in gpus])
    return Total(
        host=one.host,
        error=None if one.reading else _why(one),
        silent=one.silent,
        gpus=len(gpus),
        others=len(every) - len(gpus),
        vgpus=_sum([gpu.made for gpu in gpus]),
        running=_sum([gpu.running for gpu in gpus]),
        sm=None if sm is None else sm / len(gpus),
        framebuffer_used_bytes=_sum([gpu.framebuffer_used_bytes for gpu in gpus]),
        framebuffer_size_bytes=_sum([gpu.framebuffer_size_bytes for gpu in gpus]),
    )


def _why(one: Round) -> str:
    return one.failure.what if one.failure else one.error or "no reason was given"


def _sum(values: Sequence[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if values and len(numbers) == len(values) else None


SORTS: dict[str, Callable[[Row], float | Fraction | None]] = {
    "sm": lambda row: row.load.sm if row.load else None,
    "fb": lambda row: row.vgpu.framebuffer_used_bytes,
    "vm": lambda _row: None,
    "host": lambda _row: None,
    "entitled": lambda row: row.vgpu.entitled,
}
"""The sort keys of the rows: largest first, unknown last; those of BY_NAME by name."""

BY_NAME = ("vm", "host")


def arranged(
    found: Iterable[Row],
    sort: str,
    *,
    reverse: bool = False,
    group: Group = "",
    pattern: str = "",
    hide_off: bool = False,
) -> list[Row]:
    """The rows whose VM, slot, host, GPU or type contains each word of `pattern`, sorted by the key `sort`.

    Rows with equal values are sorted by name; rows whose value is unknown come last. `group` keeps the rows of a host,
    or of a GPU, together, sorted in the same way among themselves.
    """
    measure, words = SORTS[sort], pattern.casefold().split()
    matches = [row for row in found if not (hide_off and row.off) and _matches(row, words)]

    def by_name(row: Row) -> tuple[str, ...]:
        place = (row.host, row.gpu.pci, row.vm) if sort == "host" else (row.vm, row.host, row.gpu.pci)
        return (*place, row.vgpu.slot or "", row.vgpu.vf or "", row.vgpu.uuid or "")

    def by_value(row: Row) -> tuple[bool, float]:
        value = measure(row)
        return value is None, (1 if reverse else -1) * float(value or 0)

    by_text = reverse and sort in BY_NAME
    rows = sorted(sorted(matches, key=by_name, reverse=by_text), key=by_value)
    return sorted(rows, key=lambda row: group_of(row, group)) if group else rows


def group_of(row: Row, group: Group) -> str:
    """The heading under which a row stands."""
    return f"{row.host} {row.gpu.pci}" if group == "gpu" else row.host


def _matches(row: Row, words: Iterable[str]) -> bool:
    text = " ".join((row.vm, row.vgpu.slot or "", row.host, row.gpu.pci, row.vgpu.type_name or "")).casefold()
    return all(word in text for word in words)
