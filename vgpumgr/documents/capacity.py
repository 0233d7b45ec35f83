"""capacity-1.json: how much of each profile still fits, by board; on which GPUs a wish fits; what sets would serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.report import capacity
from vgpumgr.documents import common
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vgpumgr.controller.results import Fleet, View
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.report.capacity import Answer, BoardRow, GpuRow, Left, Overview
    from vgpumgr.core.report.offering import Mix, Score

SCHEMA = "vgpumgr.capacity/1"
_KEYS = ("totals", "profiles", "hosts", "gpus", "closed", "stranded", "mix", "catalogues")


def overview(
    fleet: Fleet[View], found: Overview, totals: Mapping[str, Left], findings: Iterable[Finding]
) -> dict[str, object]:
    """The document about every profile. The keys of `totals` are profiles."""
    return common.of_fleet(
        SCHEMA,
        fleet,
        dict.fromkeys(_KEYS)
        | {
            "totals": [_sum(profile, left, None) for profile, left in totals.items()],
            "profiles": [_of_board(row) for row in found.rows],
            "closed": [common.pick(one, "host", "gpu", "board", "why") for one in found.closed],
            "stranded": [common.plain(one) for one in found.stranded],
        },
        found=findings,
    )


def answers(
    fleet: Fleet[View], found: Iterable[Answer], findings: Iterable[Finding], count: int | None = None
) -> dict[str, object]:
    """The document about wishes, each with the GPUs that could ever serve it. `count`: how many of each must fit."""
    found = tuple(found)
    short = count is not None and any(capacity.fits(one.left, count) is False for one in found)
    return common.of_fleet(
        SCHEMA,
        fleet,
        dict.fromkeys(_KEYS)
        | {
            "totals": [_sum(one.question.text, one.left, count) for one in found],
            "hosts": [
                {"host": host, **_sum(one.question.text, left, count)}
                for one in found
                for host, left in capacity.by_host(one).items()
            ],
            "gpus": [_of_gpu(row) for one in found for row in one.rows],
        },
        found=findings,
        also=(Outcome.NO_CAPACITY,) if short else (),
    )


def catalogues(fleet: Fleet[View], mix: Mix, weeks: int, found: Iterable[Score]) -> dict[str, object]:
    """The document about sets of profiles. `weeks`: how much of the journal was looked at."""
    requests = [{"framebuffer_mib": mib, "count": count} for mib, count in sorted(mix.requests.items())]
    keys = {
        "totals": [],
        "mix": {"source": mix.source, "weeks": weeks, "requests": requests},
        "catalogues": [_of_set(one) for one in found],
    }
    return common.of_fleet(SCHEMA, fleet, dict.fromkeys(_KEYS) | keys)


def _of_set(one: Score) -> dict[str, object]:
    room, served = one.framebuffer_mib, one.served_mib
    return {
        "set": ",".join(profile.text for profile in one.offered),
        **common.pick(one, "gpus", "framebuffer_mib"),
        "served_mib": round(served),
        "stranded_pct": common.percent((room - served) / room if room else None),
        "waste_pct": common.percent((served - one.asked_mib) / room if room else None),
        "not_held_pct": common.percent(one.not_held),
        "not_taken": [profile.text for profile in one.not_taken],
    }


def _sum(requested: str, left: Left, count: int | None) -> dict[str, object]:
    fits = None if count is None else capacity.fits(left, count)
    return {"requested": requested, **common.plain(left), "count": count, "fits": fits}


def _of_board(row: BoardRow) -> dict[str, object]:
    return {
        **common.pick(row, "profile", "board", "type_name", "framebuffer_mib", "max", "gpus"),
        **common.plain(row.left),
    }


def _of_gpu(row: GpuRow) -> dict[str, object]:
    return {
        "requested": row.question.text,
        **common.pick(row, "host", "gpu", "board", "mode", "type_name", "fits_now", "why", "granted"),
    }
