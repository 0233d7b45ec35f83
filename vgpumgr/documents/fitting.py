"""What fits on the hosts' GPUs: capacity, profiles, units and explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.placing import instances
from vgpumgr.core.report import capacity
from vgpumgr.documents import common
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vgpumgr.controller.results import Fleet, View
    from vgpumgr.core.model.snapshot import Gpu, VgpuType
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.report.capacity import Answer, BoardRow, GpuRow, Left, Overview
    from vgpumgr.core.report.explained import Compared, GpuAnswer, HostAnswer
    from vgpumgr.core.report.units import BoardUnits, Units

CAPACITY = "vgpumgr.capacity/1"
_MEASURES = ("fgpu", "tenth", "4g")  # core/report/units.py's, in their order


def overview(
    fleet: Fleet[View], found: Overview, totals: Mapping[str, Left], findings: Iterable[Finding]
) -> dict[str, object]:
    """capacity-1.json of every profile; `totals` by profile."""
    return common.of_fleet(
        CAPACITY,
        fleet,
        {
            "totals": [_sum(profile, left, None) for profile, left in totals.items()],
            "profiles": [_of_board(row) for row in found.rows],
            "hosts": None,
            "gpus": None,
            "closed": [common.pick(one, "host", "gpu", "board", "why") for one in found.closed],
        },
        found=findings,
    )


def answers(
    fleet: Fleet[View], found: Iterable[Answer], findings: Iterable[Finding], count: int | None = None
) -> dict[str, object]:
    """capacity-1.json of wishes, each on every GPU that could ever serve it. `count`: how many of each are wanted together."""
    found = tuple(found)
    short = count is not None and any(capacity.fits(one.left, count) is False for one in found)
    return common.of_fleet(
        CAPACITY,
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


def profiles(fleet: Fleet[View], rows: Iterable[dict[str, object]]) -> dict[str, object]:
    """The profiles that each GPU has. `rows` are those that `profile` makes."""
    return common.of_fleet("vgpumgr.profiles/1", fleet, {"profiles": [*rows]})


def profile(host: str, gpu: Gpu, kind: VgpuType, left: int | None) -> dict[str, object]:
    """One type on one GPU. `left`: how many of it fit now, None if that is unknown."""
    return {
        **common.pick(kind, profile="short", type_name="type_name"),
        "host": host,
        "gpu": gpu.pci,
        **common.pick(instances.profile_of(gpu, kind), mig_profile="name"),
        **common.pick(kind, "framebuffer_mib", "max"),
        "fits_now": left,
    }


def units(fleet: Fleet[Units], found: Units) -> dict[str, object]:
    """What the units of amounts mean on each board."""
    boards = [_units(board) for board in found.boards]
    return common.of_fleet("vgpumgr.units/1", fleet, {"boards": boards, "vgpus": common.plain(found.earlier)})


def _units(board: BoardUnits) -> dict[str, object]:
    """`means` has its three measures once more, as a list."""
    return {
        **common.pick(board, "board", "framebuffer_mib", "unit"),
        **{
            name: common.pick(meaning, "mib", "type_name", "waste_pct")
            for name, meaning in zip(_MEASURES, board.means, strict=True)
        },
        "before": [{"unit": unit, "vgpus": count} for unit, count in board.before],
        **common.pick(board, "hosts", "means"),
    }


def explain(fleet: Fleet[HostAnswer], requested: str, compared: Iterable[Compared] | None) -> dict[str, object]:
    """What each GPU has for a wish, and why; and how the mechanisms compare: None if that was not requested."""
    return common.of_fleet(
        "vgpumgr.explain/1",
        fleet,
        {
            "requested": requested,
            "hosts": [{"name": host.host, "gpus": [_answer(gpu) for gpu in host.gpus]} for host in fleet.views],
            "mechanisms": None if compared is None else [_mechanism(one) for one in compared],
        },
    )


def _answer(answer: GpuAnswer) -> dict[str, object]:
    return {
        **common.pick(answer, pci="gpu", board="board", rank="rank", type_name="type_name"),
        **common.pick(answer.grant, "waste_pct", "guest_mib"),
        "allocated_pct": common.percent(answer.allocated),
        **common.pick(answer, "why", "mode", "scheduler"),
        **common.pick(answer.grant, "asked_mib", "framebuffer_mib"),
        **common.pick(answer, "passed"),
    }


def _mechanism(compared: Compared) -> dict[str, object]:
    mechanism = common.plain(compared.mechanism)
    key = mechanism.pop("key")
    return {**mechanism, **common.pick(compared, "fits"), "key": key, "why_not": compared.why_not}
