"""Capacity for people: profiles by board, and sums. A sum that is a lower bound says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.cli.text.grants import gib
from vgpumgr.cli.text.words import counted
from vgpumgr.core.report import capacity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vgpumgr.core.report.capacity import Answer, BoardRow, ClosedGpu, Left, Overview
    from vgpumgr.core.report.offering import Mix, Score

FOOT: Final = "in brackets: on an empty GPU; each profile is counted alone"
_GAP: Final = 2


def profiles(found: Overview, totals: Mapping[str, Left], *, fits: bool) -> list[dict[str, object]]:
    """A line for each profile; with `fits` only those of which at least one may fit."""
    return [
        {
            "profile": profile,
            "framebuffer": _framebuffer(rows),
            "per_gpu": ", ".join(f"{row.board} {'?' if row.max is None else row.max}" for row in rows),
            "fits_now": left(totals[profile]),
        }
        for profile, rows in _by_profile(found.rows).items()
        if totals[profile].fits_now != 0 or not fits
    ]


def pivot(
    found: Overview, totals: Mapping[str, Left], *, width: int | None, one_by_one: bool
) -> Iterator[tuple[list[dict[str, object]], list[str]]]:
    """The table of profiles by board, with the columns to print: several times if one table is wider than `width`.

    Profiles of one size with the same numbers share a line, unless `one_by_one`.
    """
    gpus: dict[str, int] = {}
    for row in found.rows:
        gpus[row.board] = max(gpus.get(row.board, 0), row.gpus)
    heads = {board: f"{count} {board}" for board, count in sorted(gpus.items())}
    lines: dict[tuple[object, ...], dict[str, object]] = {}
    for profile, rows in _by_profile(found.rows).items():
        line: dict[str, object] = {"framebuffer": _framebuffer(rows), **dict.fromkeys(heads.values(), "-")}
        line |= {heads[row.board]: f"{_short(row.left)} ({'?' if row.max is None else row.max})" for row in rows}
        line["total"] = left(totals[profile])
        key = (profile,) if one_by_one else tuple(line.values())
        same = lines.setdefault(key, {"profile": "", **line})
        same["profile"] = f"{same['profile']} {profile}".strip()
    table = list(lines.values())
    first = ["profile", "framebuffer"] if one_by_one else ["profile"]
    for columns in _blocks(table, first, [*heads.values(), "total"], width):
        yield table, columns


def total(answer: Answer) -> str:
    """`8Q: room for 11 more, on 2 of 5 suitable GPUs`."""
    text = answer.question.text
    gpus = [row for row in answer.rows if row.gpu is not None]
    if not answer.rows:
        return f"{text}: no GPU of these hosts could ever take it"
    if answer.left.fits_now is None:
        return f"{text}: room unknown"
    if not answer.left.fits_now and not answer.left.at_least:
        return f"{text}: no room now on {counted(len(gpus), 'suitable GPU')}"
    able = sum(bool(row.fits_now) for row in gpus)
    return f"{text}: room for {left(answer.left)} more, on {able} of {counted(len(gpus), 'suitable GPU')}"


def together(answer: Answer, count: int) -> str:
    """`3 of 8Q fit together on kvm01 (room for 6)`. Not to be called if `count` certainly does not fit."""
    text = f"{count} of {answer.question.text}"
    hosts = capacity.by_host(answer)
    if capacity.fits(answer.left, count) is None:
        return f"{text}: whether they fit together is unknown"
    candidates = {host: one for host, one in hosts.items() if capacity.fits(one, count)}
    places = ", ".join(f"{host} (room for {left(one)})" for host, one in (candidates or hosts).items() if one.fits_now)
    return f"{text} fit together{' on' if candidates else ', but on no host alone:'} {places}"


def closed(one: ClosedGpu) -> str:
    return f"{one.host} {one.gpu} {one.board}: {one.why}"


def below(found: Overview, *, of_gpus: bool) -> Iterator[str]:
    """The GPUs that are closed, and how much free room is stranded. `of_gpus`: say so even if nothing is stranded."""
    yield from map(closed, found.closed)
    gpus = counted(len(found.stranded), "GPU")
    stranded = [one.stranded_mib for one in found.stranded if one.stranded_mib]
    if stranded:
        free = gib(sum(one.free_mib for one in found.stranded))
        yield f"stranded: {gib(sum(stranded))} of {free} free, on {len(stranded)} of {gpus}"
    elif of_gpus:
        yield f"nothing is stranded on {gpus}"


def below_sets(mix: Mix, weeks: int, found: Sequence[Score]) -> Iterator[str]:
    """Where the counted requests come from, and which profiles of the sets no GPU takes."""
    lately = f"attached in the last {counted(weeks, 'week')}"
    if mix.source == "journal":
        yield f"requests: as {lately} ({sum(mix.requests.values())})"
    else:
        yield f"requests: as in the trace openb{f'; nothing was {lately}' if weeks else ''}"
    for text in dict.fromkeys(profile.text for one in found for profile in one.not_taken):
        yield f"{text}: no GPU takes it as it is divided now"


def left(one: Left) -> str | None:
    """`3`, `at least 3`; None where nothing is known."""
    return None if one.fits_now is None else f"{'at least ' if one.at_least else ''}{one.fits_now}"


def _short(one: Left) -> str:
    return "?" if one.fits_now is None else f"{one.fits_now}{'+' if one.at_least else ''}"


def _by_profile(rows: Iterable[BoardRow]) -> dict[str, list[BoardRow]]:
    by_profile: dict[str, list[BoardRow]] = {}
    for row in rows:
        by_profile.setdefault(row.profile, []).append(row)
    return by_profile


def _framebuffer(rows: Sequence[BoardRow]) -> str | None:
    sizes = [row.framebuffer_mib for row in rows if row.framebuffer_mib is not None]
    return gib(min(sizes)) if sizes else None


def _blocks(
    table: Sequence[Mapping[str, object]], first: list[str], rest: list[str], width: int | None
) -> Iterator[list[str]]:
    """The columns in groups that are not wider than the terminal; each begins with `first`."""
    if width is None:
        yield [*first, *rest]
        return
    sizes = {name: max(len(name), *(len(str(line[name] or "?")) for line in table)) + _GAP for name in (*first, *rest)}
    start = sum(sizes[name] for name in first)
    block, width_of_block = [*first], start
    for name in rest:
        if width_of_block + sizes[name] - _GAP > width and len(block) > len(first):
            yield block
            block, width_of_block = [*first], start
        block.append(name)
        width_of_block += sizes[name]
    yield block
