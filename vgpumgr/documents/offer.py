"""What the hosts' GPUs offer: the documents of `profiles`, `units`, `explain` and others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vgpumgr.core.placing import instances
from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.controller.results import Fleet, Reserved, View
    from vgpumgr.core.model.snapshot import Gpu, VgpuType
    from vgpumgr.core.reconcile.demand import Asked
    from vgpumgr.core.reconcile.partition import HostAdvice, Served
    from vgpumgr.core.report.explained import Compared, GpuAnswer, HostAnswer
    from vgpumgr.core.report.place import Place
    from vgpumgr.core.report.units import BoardUnits, Units
    from vgpumgr.errors import Outcome

_MEASURES = ("fgpu", "tenth", "4g")  # core/report/units.py's, in their order


def profiles(fleet: Fleet[View], rows: Iterable[dict[str, object]]) -> dict[str, object]:
    """The document of the profiles that each GPU has. Each of `rows` comes from `profile`."""
    return common.of_fleet("vgpumgr.profiles/1", fleet, {"profiles": [*rows]})


def profile(host: str, gpu: Gpu, kind: VgpuType, left: int | None) -> dict[str, object]:
    """The row for one vGPU type on one GPU. `left`: how many vGPUs of that type fit now, None if that is unknown."""
    return {
        **common.pick(kind, profile="short", type_name="type_name"),
        "host": host,
        "gpu": gpu.pci,
        **common.pick(instances.profile_of(gpu, kind), mig_profile="name"),
        **common.pick(kind, "framebuffer_mib", "max"),
        "fits_now": left,
    }


def units(fleet: Fleet[Units], found: Units) -> dict[str, object]:
    """The document of the units in which an amount can be requested, and what each means on each board."""
    boards = [_units(board) for board in found.boards]
    return common.of_fleet("vgpumgr.units/1", fleet, {"boards": boards, "vgpus": common.plain(found.earlier)})


def _units(board: BoardUnits) -> dict[str, object]:
    """The row for one board. Each of its three measures has its own key; `means` lists the three again."""
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
    """The document that says what each GPU would grant for the wish `requested`, and why.

    `compared`: how the mechanisms compare; None if that was not requested.
    """
    return common.of_fleet(
        "vgpumgr.explain/1",
        fleet,
        {
            "requested": requested,
            "hosts": [{"name": host.host, "gpus": [_answer(gpu) for gpu in host.gpus]} for host in fleet.views],
            "mechanisms": None if compared is None else [_mechanism(one) for one in compared],
        },
    )


def place(
    fleet: Fleet[View], requested: str, count: int, places: Iterable[Place], *, held: tuple[str, Outcome] | None = None
) -> dict[str, object]:
    """The document of the places that `count` vGPUs for the wish `requested` would get.

    `held`: the name of the reservation that keeps these places, and the outcome of making it.
    """
    rows = [
        {
            **common.pick(one, "policy", "number", "host", "gpu", "board", "type_name", "why", "gpu_uuid", "mode"),
            **common.pick(one, "placement_id", "mig_profile", "mig_start"),
            **common.pick(one.grant, "framebuffer_mib", "guest_mib", "waste_pct"),
        }
        for one in places
    ]
    name, also = (None, ()) if held is None else (held[0], held[1:])
    keys = {"requested": requested, "count": count, "reservation": name, "places": rows}
    return common.of_fleet("vgpumgr.place/1", fleet, keys, also=also)


def partition(fleet: Fleet[HostAdvice], weeks: int) -> dict[str, object]:
    """The document of how idle GPUs should be divided. `weeks`: how much of the journal counts."""
    return common.of_fleet("vgpumgr.partition/1", fleet, {"weeks": weeks, "hosts": [*map(_advised, fleet.views)]})


def _advised(host: HostAdvice) -> dict[str, object]:
    gpus = [
        {
            **common.pick(one, pci="gpu.pci", board="gpu.board", mode="gpu.mode", advised_mode="mode", advised="text"),
            **common.pick(one, "layout"),
            "serves": _counted(row.asked for row in one.served),
            "changes": bool(one.tasks(reset=False)),
            **common.pick(one, "why", declaration="line"),
        }
        for one in host.gpus
    ]
    return {
        "name": host.host,
        "requests": _counted(host.requests),
        "before": _worth(host.before),
        "after": _worth(host.after),
        **common.pick(host, "proven"),
        "gpus": gpus,
    }


def _counted(requests: Iterable[Asked]) -> list[dict[str, object]]:
    return [{"requested": one.text, "source": one.source, "count": number} for one, number in Counter(requests).items()]


def _worth(served: Sequence[Served]) -> dict[str, object]:
    return {"served": len(served), "framebuffer_mib": sum(one.mib for one in served)}


def reservations(fleet: Fleet[View], rows: Iterable[Reserved], changed: Outcome | None = None) -> dict[str, object]:
    """The document of reserved places. `changed`: the outcome of a command that reserved them or gave them up."""
    found = [
        {
            "name": one.reservation.name,
            "host": one.host,
            **common.pick(one.reservation.vgpu, "gpu", "type_name"),
            "left_s": None if one.declared else one.reservation.terms.left_s,
            **common.pick(one.reservation.terms, "owner", "by"),
            "at": None if one.declared else one.reservation.terms.at,
            "declared": one.declared,
            **common.pick(one.reservation.vgpu, "slot", "gpu_uuid", "parent", "placement_id"),
            **common.pick(one.reservation.vgpu.mig, mig_profile="profile", mig_start="start"),
        }
        for one in rows
    ]
    also = () if changed is None else (changed,)
    return common.of_fleet("vgpumgr.reservations/1", fleet, {"reservations": found}, also=also)


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
