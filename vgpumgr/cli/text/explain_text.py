"""What explain says for people: a GPU's answer, and a mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text.grants import gib

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.report.explained import Compared, GpuAnswer, Passed


def row(answer: GpuAnswer) -> dict[str, object]:
    """A dash for what a GPU that cannot serve the wish does not have."""
    grant, able = answer.grant, answer.rank is not None
    unknown = None if able else "-"
    return {
        "host": answer.host,
        "gpu": answer.gpu,
        "board": answer.board,
        "mode": answer.mode,
        "scheduler": answer.scheduler,
        "order": answer.rank if able else "-",
        "type_name": answer.type_name or "-",
        "requested": gib(grant.asked_mib) if grant else unknown,
        "waste": f"{grant.waste_pct:g} %" if grant else unknown,
        "guest_sees": gib(grant.guest_mib) if grant else unknown,
        "allocated": None if answer.allocated is None else f"{float(answer.allocated):.0%}",
        "why": "; ".join([answer.why, *_passed(answer.passed)]),
    }


def _passed(passed: Iterable[Passed]) -> list[str]:
    """Each reason once, with all the types that it stands against."""
    against: dict[str, list[str]] = {}
    for one in passed:
        against.setdefault(one.why, []).append(one.type_name)
    return [f"not {_either(names)}: {why}" for why, names in against.items()]


def _either(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


def compared(one: Compared) -> dict[str, object]:
    """One mechanism; where it fits on several hosts, the first and how many more."""
    mechanism = one.mechanism
    if one.fits:
        first = one.fits[0]
        more = f", and on {len(one.fits) - 1} more" if len(one.fits) > 1 else ""
        fits = f"{first.type_name} on {first.host} {first.gpu}{more}"
    else:
        fits = f"no: {one.why_not}"
    return {
        "mechanism": mechanism.name,
        "memory_wall": mechanism.memory_wall,
        "compute_guarantee": mechanism.compute_guarantee,
        "fault_isolation": mechanism.fault_isolation,
        "live_migration": mechanism.live_migration,
        "licence_series": mechanism.series,
        "fits_now": fits,
    }
