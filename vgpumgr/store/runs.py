"""What the journal holds, as values: what a run is about to do, what became of it, and which runs are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DONE = "done"
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a run is about to do to one host.

    `verb`: attach, detach, reconcile or scheduler. `why`: the wish or the cause, in words. `vm` is a name, `vm_uuid` finds
    it after it was renamed. `gpu`: PCI address; None, as for `slot`, where there are several. `steps`: the plan's, as
    `-o json` prints them.
    """

    verb: str
    why: str
    host: str
    vm: str | None = None
    vm_uuid: str | None = None
    slot: str | None = None
    gpu: str | None = None
    steps: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A line of the journal. `at` and `ended_at` are RFC 3339 in UTC, `by` is user@controller.

    `outcome`: done, interrupted, or the error's own (failed, refused, busy …); None where it never ended. `error` is the
    error's class, `message` what it said.
    """

    id: int
    at: str
    by: str
    entry: Entry
    ended_at: str | None
    outcome: str | None
    error: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which runs: at most `limit`, begun at `since` or later; all of None's kind where it is None.

    `name` is a host's, or a VM's at any time: what that VM did under its other names is found too. `vm_uuid` is a VM.
    """

    limit: int
    since: str | None = None
    name: str | None = None
    vm_uuid: str | None = None
