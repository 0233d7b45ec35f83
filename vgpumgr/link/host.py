"""One open host, as the controller sees it, in values of core. Only link knows what goes over the wire.

observe   the host's facts                        lock      the same, under the host's lock, which is kept
execute   one step of a plan                      unlock    some GPUs' facts; then the lock is released
sample    GPU usage by vGPU                       (libvirt has a separate client: `hypervisor`)
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from vgpumgr.host import protocol
from vgpumgr.link import refusals, snapshot_facts, steps
from vgpumgr.link.program import PING_S, Program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.driver.scheduler import SchedulerState
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.plan.step import HostStep
    from vgpumgr.core.usage.readings import HostReading
    from vgpumgr.errors import LedgerUnwritable
    from vgpumgr.link.hypervisor import Hypervisor

PROTOCOL = protocol.PROTOCOL  # the version that this controller speaks
STEP_DEADLINE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """The host under its lock. `unwritable`: the error of a step that would write the ledger; None if it can be written."""

    snapshot: HostSnapshot
    unwritable: LedgerUnwritable | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of a step: a remark for the user, and the value read back if it set a scheduler."""

    note: str | None
    scheduler: SchedulerState | None


class Host(abc.ABC):
    """An open host; a context manager, which releases everything: lock, libvirt, connection.

    `catalogue`: the source of type maxima that the host does not report. Every method raises HostError.
    """

    def __init__(self, program: Program, catalogue: Catalogue | None) -> None:
        self.host = program.host
        self.program = program
        self._catalogue = catalogue

    def observe(self, *, wait_s: float) -> HostSnapshot:
        """The host's facts, read under the shared lock, or under our exclusive lock if we hold it."""
        return self._snapshot(self.program.observe(wait_s=wait_s))

    def lock(self, *, by: str, wait_s: float) -> Locked:
        """Take the host's exclusive lock and read the facts under it. Busy names its holder. Kept until `unlock` or `close`."""
        facts = self.program.lock(by=by, wait_s=wait_s)
        fact = facts["unwritable"]
        return Locked(
            snapshot=self._snapshot(facts),
            unwritable=None if fact is None else refusals.unwritable(self.host, fact["path"], fact["errno"]),
        )

    def execute(self, step: HostStep) -> StepResult:
        """Carry out one step under the lock. Raises HostDeadline if the step may still happen."""
        told = self.program.execute(steps.wire_step(step), deadline_s=STEP_DEADLINE_S)
        return StepResult(
            note=told["note"], scheduler=snapshot_facts.maybe(told["scheduler"], snapshot_facts.parse_scheduler)
        )

    def unlock(self, gpus: Sequence[str]) -> HostSnapshot:
        """Part of the host: these GPUs (UUIDs), and facts that belong to no GPU. Read under the lock, which is then released."""
        return self._snapshot(self.program.unlock(gpus))

    def sample(self, *, since: Mapping[str, int], wait_s: float) -> HostReading:
        """Which vGPUs run and what they used since those times (us, by GPU), read under the shared lock."""
        from vgpumgr.link import sampling_facts

        return sampling_facts.parse(self.host, self.program.sample(since=since, wait_s=wait_s))

    def ping(self, timeout_s: float = PING_S) -> None:
        """Check that the host answers. Raises LeaseLost if its lock was ours and no longer is."""
        self.program.ping(timeout_s)

    def locked_hypervisor(self) -> Hypervisor:
        """Libvirt, for actions that only the lock's owner may do. Raises LeaseLost if we no longer own the lock."""
        self.program.assert_fresh()
        return self.hypervisor()

    @abc.abstractmethod
    def hypervisor(self) -> Hypervisor:
        """Libvirt on that host. Raises the reason if it could not be opened."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release everything. Takes a few seconds at most."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Cut the connection at once: every current call, in any thread, soon fails. Call `close` afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _snapshot(self, facts: protocol.Snapshot) -> HostSnapshot:
        return snapshot_facts.parse(self.host, facts, self._catalogue)
