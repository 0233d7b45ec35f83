"""capacity-1.json: how much of each profile still fits, by board; or on which GPUs a wish fits."""

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

SCHEMA = "vgpumgr.capacity/1"


def overview(
    fleet: Fleet[View], found: Overview, totals: Mapping[str, Left], findings: Iterable[Finding]
) -> dict[str, object]:
    """The document about every profile. The keys of `totals` are profiles."""
    return common.of_fleet(
        SCHEMA,
        fleet,
        {
            "totals": [_sum(profile, left, None) for profile, left in totals.items()],
            "profiles": [_of_board(row) for row in found.rows],
            "hosts": None,
            "gpus": None,
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
        {
            "totals": [_sum(one.question.text, one.left, count) for one in found],
            "profiles": None,
            "hosts": [
                {"host": host, **_sum(one.question.text, left, count)}
                for one in found
                for host, left in capacity.by_host(one).items()
            ],
            "gpus": [_of_gpu(row) for one in found for row in one.rows],
            "closed": None,
            "stranded": None,
        },
        found=findings,
        also=(Outcome.NO_CAPACITY,) if short else (),
    )


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
