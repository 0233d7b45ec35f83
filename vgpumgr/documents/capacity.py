"""capacity-1.json: what still fits, by profile and board, or where a wish does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vgpumgr.controller.results import Fleet, View
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.report.capacity import Answer, BoardRow, GpuRow, Left, Overview

SCHEMA = "vgpumgr.capacity/1"


def overview(
    fleet: Fleet[View], found: Overview, totals: Mapping[str, Left], findings: Iterable[Finding]
) -> dict[str, object]:
    """Every profile; `totals` by profile."""
    return {
        **_begin(fleet, findings),
        "totals": [{"requested": profile, **common.plain(left)} for profile, left in totals.items()],
        "profiles": [_profile(row) for row in found.rows],
        "gpus": None,
        "closed": [common.pick(one, "host", "gpu", "board", "why") for one in found.closed],
    }


def answers(fleet: Fleet[View], found: Iterable[Answer], findings: Iterable[Finding]) -> dict[str, object]:
    """The wishes, each on every GPU that could ever serve it."""
    found = tuple(found)
    return {
        **_begin(fleet, findings),
        "totals": [{"requested": one.question.text, **common.plain(one.left)} for one in found],
        "profiles": None,
        "gpus": [_gpu(row) for one in found for row in one.rows],
        "closed": None,
    }


def _profile(row: BoardRow) -> dict[str, object]:
    return {
        **common.pick(row, "profile", "board", "type_name", "framebuffer_mib", "max", "gpus"),
        **common.plain(row.left),
    }


def _gpu(row: GpuRow) -> dict[str, object]:
    return {
        "requested": row.question.text,
        **common.pick(row, "host", "gpu", "board", "mode", "type_name", "fits_now", "why", "granted"),
    }


def _begin(fleet: Fleet[View], findings: Iterable[Finding]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.reached(fleet.errors, any_read=bool(fleet.views), found=findings),
    }
