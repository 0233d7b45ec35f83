"""The journal's contents as values: what a run is about to do, its outcome, and the query for runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DONE = "done"
INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What a run is about to do to one host.

    `verb`: what is done (attach, detach, adopt …). `why`: the wish or the cause, in words. `vm`: the VM's name;
    `vm_uuid` finds the VM after it was renamed. `gpu`: the GPU's PCI address. `slot` and `gpu` are None if there are
    several. `steps`: the steps of the plan, as `-o json` prints them.
    """

    verb: str
    why: str
    host: str
    vm: str | None = None
    vm_uuid: str | None = None
    slot: str | None = None
    gpu: str | None = None
    steps: tuple[Mapping[str, object], ...] = ()


@dataclass(slots=True, kw_only=True)
class Begin:
    """A run that begins. `number` is None until the run is written to the journal."""

    intent: Intent
    by: str
    at: str
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How the run with this `number` ended. The fields mean the same as in JournalEntry."""

    number: int
    at: str
    outcome: str
    error: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A line of the journal. `at` and `ended_at` are RFC 3339 in UTC, `by` is user@controller.

    `outcome`: done, interrupted, or the outcome of the error (failed, refused, busy …); None if the run never ended.
    `error` is the error's class, `message` its text.
    """

    id: int
    at: str
    by: str
    intent: Intent
    ended_at: str | None
    outcome: str | None
    error: str | None
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which runs to select: at most `limit`, begun at `since` or later. A field that is None restricts nothing.

    `name`: the name of a host, or one that a VM ever had; that VM's runs under other names are included. `vm_uuid`: the
    UUID of a VM.
    """

    limit: int
    since: str | None = None
    name: str | None = None
    vm_uuid: str | None = None
