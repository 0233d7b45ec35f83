"""Every error vgpumgr raises on purpose.

    VgpumgrError(message, hint, details)                exit  outcome
    ├── ConfigError                                       2   usage
    │   ├── InventoryError(problems)
    │   └── TemplateError
    ├── RequestError                                      2   usage
    │   ├── UsageError · BadName · BadSchedulerValue · Declined(1, failed)
    │   ├── UnknownHost · UnknownVm · AmbiguousVm · UnknownGpu · UnknownVgpu · UnknownProfile · UnknownSlot · UnknownName
    │   │   └── VmNotSeen                                 4   unreached
    │   ├── NoCapacity · ProfileNotHere                   5   no_capacity
    │   └── ConflictingClaim                              5   refused
    ├── RefusedPlan                                       5   refused
    │   └── InUse · StillEnding · Stuck · ForeignDevice · SavedImage · NamedInSnapshot · Unsure · TooManyDestroys · PlanOutdated
    ├── HostError(host)                                   4   unreached
    │   ├── Unreachable(stage) · HostKeyRefused · AuthenticationFailed · HostDeadline
    │   ├── ProgramFailed · LedgerBroken
    │   ├── SysfsRefused(path, errno)                     1   failed
    │   ├── NvmlRefused(function, code)                   1   failed
    │   ├── LedgerUnwritable(path, errno)                 1   failed
    │   ├── HypervisorError(code)                         1   failed
    │   └── Busy(owner) · LeaseLost                       6   busy
    ├── ApplyError                                        1   failed
    │   └── StalePlan(6, busy) · PartialApply · NotConverged
    ├── StoreError                                        1   failed
    │   └── JournalCorrupt · SamplesCorrupt · NewerSchema · UnstorableValue
    ├── AlreadyRunning                                    6   busy
    ├── ExportError                                       1   failed
    ├── Unexpected                                        1   failed
    └── LabError                                          1   failed

The message says what and where; `hint` says what to do now and comes last, near the prompt. `details` holds one line
per candidate or problem. A library's exception is translated in the one module that imports the library, `raise … from`.
`transient` marks what the same command may well get past when it is run again.
"""

from __future__ import annotations

import errno
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable


class Outcome(StrEnum):
    """What became of a command, or of one thing in it; part of the contract that scripts rely on (docs/exit-codes.md).

    The first three are those of success; each of the others is that of an error.
    """

    DONE = "done"
    UNCHANGED = "unchanged"
    WOULD_CHANGE = "would_change"
    FAILED = "failed"
    USAGE = "usage"
    UNREACHED = "unreached"
    NO_CAPACITY = "no_capacity"
    REFUSED = "refused"
    BUSY = "busy"

    @property
    def changed(self) -> bool:
        """Whether something is another way now, or would be."""
        return self in (Outcome.DONE, Outcome.WOULD_CHANGE)


Success = Literal[Outcome.DONE, Outcome.UNCHANGED, Outcome.WOULD_CHANGE]


class VgpumgrError(Exception):
    """Root of all. `exit_code` and `outcome` are part of the contract that scripts rely on (docs/exit-codes.md)."""

    exit_code = 1
    outcome = Outcome.FAILED
    transient = False

    def __init__(self, message: str, *, hint: str | None = None, details: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = tuple(details)


class ConfigError(VgpumgrError):
    exit_code = 2
    outcome = Outcome.USAGE


class InventoryError(ConfigError):
    """The inventory has problems; each detail is one, with file:line."""


class TemplateError(ConfigError):
    """A template is missing, broken, or wants a value that it was not given."""


class RequestError(VgpumgrError):
    exit_code = 2
    outcome = Outcome.USAGE


class UsageError(RequestError):
    """Options that do not go together, or a question that could not be asked."""


class BadName(RequestError):
    """Text that is not a valid name of its kind (PCI address, slot, profile …)."""


class BadSchedulerValue(RequestError):
    """A policy, time slice, frequency or averaging factor that this GPU does not take, or that do not go together."""


class Declined(RequestError):
    """The person said no."""

    exit_code = 1
    outcome = Outcome.FAILED


class UnknownHost(RequestError):
    """No such host in the inventory."""


class UnknownVm(RequestError):
    """No host has such a VM."""


class VmNotSeen(UnknownVm):
    """No host that answered has such a VM, and some host could not be asked."""

    exit_code = 4
    outcome = Outcome.UNREACHED


class AmbiguousVm(RequestError):
    """More than one host has a VM of that name."""


class UnknownGpu(RequestError):
    """The VM's host has no such GPU."""


class UnknownVgpu(RequestError):
    """The host has no vGPU of that UUID, or on that virtual function."""


class UnknownProfile(RequestError):
    """No board has such a profile."""


class UnknownSlot(RequestError):
    """The VM has no claim in that slot, or several and none was named."""


class UnknownName(RequestError):
    """Neither a host nor a VM of that name is known to the journal or the inventory."""


class NoCapacity(RequestError):
    """Well asked, but no GPU of the VM's host can take it; each detail is one GPU's reason."""

    exit_code = 5
    outcome = Outcome.NO_CAPACITY


class ProfileNotHere(NoCapacity):
    """No GPU of the VM's host has a type of that name; another host's may."""


class ConflictingClaim(RequestError):
    """The slot is already claimed with another wish, here or in the inventory."""

    exit_code = 5
    outcome = Outcome.REFUSED


class RefusedPlan(VgpumgrError):
    """A guard said no."""

    exit_code = 5
    outcome = Outcome.REFUSED


class InUse(RefusedPlan):
    """Something holds the vGPU, or it cannot be told that nothing does."""


class StillEnding(InUse):
    """What still has the vGPU ends by itself, as the QEMU of a VM that stopped and its plugin do; it had not in its time."""


class Stuck(RefusedPlan):
    """An earlier write to the GPU has not returned, so it takes no more."""


class ForeignDevice(RefusedPlan):
    """The step would touch a device that no ledger entry names."""


class SavedImage(RefusedPlan):
    """The VM has a managed-save image, whose own XML would win at the next start."""


class NamedInSnapshot(RefusedPlan):
    """A snapshot of the VM names the device."""


class Unsure(RefusedPlan):
    """The ledger says planned, and evidence does not show whose the hardware is."""


class TooManyDestroys(RefusedPlan):
    """More vGPUs would go than a reconcile may take away on its own."""


class PlanOutdated(RefusedPlan):
    """What a kept plan read has changed since, or another plan comes out of it now."""


class HostError(VgpumgrError):
    """One host could not be reached or read. `host` is the inventory name."""

    exit_code = 4
    outcome = Outcome.UNREACHED

    def __init__(self, host: str, message: str, *, hint: str | None = None, details: Iterable[str] = ()) -> None:
        super().__init__(f"{host}: {message}", hint=hint, details=details)
        self.host = host


class Unreachable(HostError):
    """`stage` is where it ended: dns, tcp, banner, kex, auth, program or libvirt.

    `may_happen`: what was asked may have been done, or be done later; False only where it certainly was not asked.
    """

    transient = True
    may_happen = True

    def __init__(
        self, host: str, stage: str, message: str, *, hint: str | None = None, details: Iterable[str] = ()
    ) -> None:
        super().__init__(host, f"{stage}: {message}", hint=hint, details=details)
        self.stage = stage


class HostKeyRefused(Unreachable):
    """The host's key is unknown or not the one in known_hosts."""

    transient = False


class AuthenticationFailed(Unreachable):
    transient = False


class HostDeadline(Unreachable):
    """A stage did not end within its deadline."""


class ProgramFailed(HostError):
    """The host program did not start, ended early, or spoke something else than the protocol."""


class LedgerBroken(HostError):
    """The host's ledger cannot be read, so nothing there may be changed."""


class SysfsRefused(HostError):
    """The kernel or driver refused a write to a file; `errno_name` is its symbolic errno."""

    exit_code = 1
    outcome = Outcome.FAILED

    def __init__(
        self,
        host: str,
        message: str,
        *,
        path: str,
        errno_name: str,
        hint: str | None = None,
        details: Iterable[str] = (),
    ) -> None:
        super().__init__(host, message, hint=hint, details=details)
        self.path = path
        self.errno_name = errno_name


class LedgerUnwritable(HostError):
    """The host's ledger cannot be written (a full or read-only disk), so nothing is made or taken away there.

    `written`: the step's own write to the hardware had been done, and only its end is not in the ledger.
    """

    exit_code = 1
    outcome = Outcome.FAILED

    def __init__(
        self, host: str, message: str, *, path: str, errno_name: str, written: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(host, message, hint=hint)
        self.path = path
        self.errno_name = errno_name
        self.written = written


class NvmlRefused(HostError):
    """The driver's library refused; `function` is its name there, `code` its number (nvmlReturn_t)."""

    exit_code = 1
    outcome = Outcome.FAILED

    def __init__(
        self,
        host: str,
        message: str,
        *,
        function: str,
        code: int,
        hint: str | None = None,
        details: Iterable[str] = (),
    ) -> None:
        super().__init__(host, message, hint=hint, details=details)
        self.function = function
        self.code = code


class HypervisorError(HostError):
    """libvirt refused; `code` is its VIR_ERR_ number."""

    SYSTEM_ERROR = 38  # libvirt's virterror.h: the kernel refused libvirtd something, a write to its disk for example

    exit_code = 1
    outcome = Outcome.FAILED

    def __init__(self, host: str, message: str, *, code: int, hint: str | None = None) -> None:
        super().__init__(host, message, hint=hint)
        self.code = code


class Busy(HostError):
    """Another run holds the host's lock."""

    exit_code = 6
    outcome = Outcome.BUSY
    transient = True


class LeaseLost(HostError):
    """The host's lock is no longer ours (we were stopped, or the connection died), so nothing more was written."""

    exit_code = 6
    outcome = Outcome.BUSY
    transient = True


class ApplyError(VgpumgrError):
    """A plan could not be carried out whole."""


class StalePlan(ApplyError):
    """The host changed between the plan and the step."""

    exit_code = 6
    outcome = Outcome.BUSY
    transient = True


class PartialApply(ApplyError):
    """Some steps were done and could not be taken back; the same command again goes on from there."""


class NotConverged(ApplyError):
    """All steps were done, and yet what is observed is not what was planned."""


class StoreError(VgpumgrError):
    """The controller's own file cannot be read or written. While something is changed this is only told, never raised."""


class JournalCorrupt(StoreError):
    """The file is not a journal of ours: damaged, or somebody else's."""


class SamplesCorrupt(StoreError):
    """The file is not a store of samples of ours: damaged, or somebody else's."""


class NewerSchema(StoreError):
    """A newer vgpumgr made the file."""


class UnstorableValue(StoreError):
    """A number or text that no database of ours holds: nothing of what was to be stored with it is stored."""


class AlreadyRunning(VgpumgrError):
    """Another run of the same job is under way on this controller."""

    exit_code = 6
    outcome = Outcome.BUSY
    transient = True


class ExportError(VgpumgrError):
    """Metrics cannot be put where they were to go: a file that cannot be written, an address that cannot be listened on."""


class Unexpected(VgpumgrError):
    """What nobody foresaw: a bug of ours, or a machine that is short of something. Made by `of`, from what was raised.

    It is one VM's, GPU's or host's outcome like any other error, so that the others go on.
    """

    @classmethod
    def of(cls, error: Exception, *, about: str | None = None) -> Unexpected:
        """`about`: what was under way, before the message; the innermost place in the code comes after it."""
        where, trace = "", error.__traceback__
        while trace is not None:
            where = f" ({trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"
            trace = trace.tb_next
        found = cls(
            f"{f'{about}: ' if about else ''}unexpected {type(error).__name__}: {error}{where}",
            hint="this machine is short of memory, threads or open files (`ulimit -a`): make room, then run it again"
            if _is_shortage(error)
            else "this is a bug in vgpumgr: please report it with the output of the same command with -v",
        )
        found.__cause__ = error
        return found


def _is_shortage(error: Exception) -> bool:
    """Whether the controller's own machine has no more of what a program needs."""
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        return True
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


class LabError(VgpumgrError):
    """The simulated hosts could not do what was asked."""
