"""The documents that need no host: docs, version, install, lab, types, fit, mig_fit, history and forget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from vgpumgr.controller.install_files import InstallFile
    from vgpumgr.controller.results import ForgetResult
    from vgpumgr.core.driver.known_types import KnownType
    from vgpumgr.core.driver.mig import Piece
    from vgpumgr.core.driver.mig_fit import Fit
    from vgpumgr.core.fitting.packing import Packed
    from vgpumgr.lab.fleet import HostStatus
    from vgpumgr.store.journal_entry import JournalEntry

_LAB = ("driver_version", "gpus", "vgpus", "held", "faults", "lost", "loads", "machine_id", "boot_id")


def docs(topics: Iterable[Mapping[str, str]]) -> dict[str, object]:
    """The pages of the documentation. Each has `name`, `title` and, if it was asked for by name, `text`; else null."""
    rows = [{"name": one["name"], "title": one["title"], "text": one.get("text")} for one in topics]
    return common.document("vgpumgr.docs/1", {"topics": rows})


def version(versions: Mapping[str, str]) -> dict[str, object]:
    """The versions of the tool, of its protocol and of Python."""
    return common.document("vgpumgr.version/1", {"versions": dict(versions)})


def install(files: Iterable[InstallFile], outcome: Outcome) -> dict[str, object]:
    """The files of jobs on the controller's own machine. Removed files have no text."""
    rows = [{"path": str(file.path), **common.pick(file, "state", "text")} for file in files]
    return common.document("vgpumgr.install/1", {"files": rows}, [outcome], changed=outcome.changed)


def lab(folder: Path, spec: str, hosts: Iterable[HostStatus]) -> dict[str, object]:
    """The simulated hosts."""
    rows = [_lab_host(one) for one in hosts]
    return common.document("vgpumgr.lab/1", {"dir": str(folder), "spec": spec, "hosts": rows})


def _lab_host(status: HostStatus) -> dict[str, object]:
    """One simulated host. The values of the supervisor's answer are null if the supervisor is gone."""
    return {
        "name": status.record.name,
        "up": status.answer is not None,
        **common.pick(status.record, "pid", "port"),
        **{key: status.answer and status.answer[key] for key in _LAB},
    }


def types(found: Iterable[KnownType]) -> dict[str, object]:
    """The vGPU types of NVIDIA's boards."""
    return common.document("vgpumgr.types/1", {"types": common.plain([*found])})


def fit(found: Iterable[tuple[Packed, Sequence[str]]]) -> dict[str, object]:
    """Whether vGPUs fit on GPUs together: each question with its answer, and what would help if not all fit."""
    pools = [_pool(packed, remedies) for packed, remedies in found]
    short = any(pool["missing"] for pool in pools)
    return common.document("vgpumgr.fit/1", {"pools": pools}, [Outcome.NO_CAPACITY if short else Outcome.DONE])


def _pool(packed: Packed, remedies: Sequence[str]) -> dict[str, object]:
    return {
        "requests": [{"profile": name, "count": count} for name, count in packed.pool.requests],
        "fits": not packed.missing,
        "proven": packed.proven,
        "at_most": packed.at_most,
        "missing": [{"profile": name, "count": count} for name, count in packed.missing],
        "remedies": [*remedies],
        "gpus": common.plain(packed.gpus),
    }


def mig_fit(answer: Fit) -> dict[str, object]:
    """Whether GPU instances fit on a board together."""
    blocked = answer.blocked
    return common.document(
        "vgpumgr.mig_fit/1",
        {
            **common.pick(answer, "board", "slices"),
            "arrangement": _pieces(answer.placed) if blocked is None else [],
            "blocked": None
            if blocked is None
            else {
                **common.pick(blocked, profile="profile.name", maximum="profile.maximum"),
                "placed": _pieces(blocked.placed),
                "in_the_way": _pieces(blocked.in_the_way),
                "would_fit": [one.name for one in answer.would_fit],
            },
        },
        [Outcome.DONE if blocked is None else Outcome.NO_CAPACITY],
    )


def _pieces(pieces: Iterable[Piece]) -> list[dict[str, object]]:
    """The instances with their places, ordered by the first slice."""
    return [
        common.pick(piece, profile="profile.name", start="start", size="profile.size")
        for piece in sorted(pieces, key=lambda one: one.start)
    ]


def history(store: Path, runs: Iterable[JournalEntry]) -> dict[str, object]:
    """The journal's runs."""
    rows = [_run(one) for one in runs]
    return common.document("vgpumgr.history/1", {"store": str(store), "runs": rows})


def _run(one: JournalEntry) -> dict[str, object]:
    """The row of one run. Its `outcome` is null if it never ended."""
    return {
        **common.pick(one, "at", "by", verb="intent.verb", vm="intent.vm", host="intent.host"),
        "outcome": one.outcome,
        "why": one.intent.why,
        "id": one.id,
        **common.pick(one.intent, "vm_uuid", "slot", "gpu"),
        "verbs": [str(step.get("verb")) for step in one.intent.steps],
        **common.pick(one, "ended_at", "error", "message", steps="intent.steps"),
    }


def forget(result: ForgetResult) -> dict[str, object]:
    """What this controller knew of a VM or host."""
    plan, outcome = result.plan, str(result.outcome)
    return {
        "schema": "vgpumgr.forget/1",
        "changed": bool(plan.traces),
        "outcomes": [outcome],
        **common.pick(plan, "kind", "name"),
        "traces": [
            {"path": str(one.path), **common.pick(one, "what", "rows"), "outcome": outcome} for one in plan.traces
        ],
        "findings": [],
        "unreached": [],
    }
