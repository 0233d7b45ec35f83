"""Every error that vgpumgr raises on purpose.

    VgpumgrError(message, hint, details)                exit  outcome
    ├── ConfigError                                       2   usage
    │   ├── InventoryError(problems)
    │   └── TemplateError · PolicyFailed
    ├── RequestError                                      2   usage
    │   ├── UsageError · BadName · BadSchedulerValue · Declined(1, failed)
    │   ├── UnknownHost · UnknownVm · AmbiguousVm · UnknownGpu · UnknownVgpu · UnknownProfile · UnknownSlot ·
    │   │   UnknownName
    │   │   ├── VmNotSeen                                 4   unreached
    │   │   └── DeclaredVmUnknown                         5   unknown_vm
    │   ├── NoCapacity · ProfileNotHere · OverQuota       5   no_capacity
    │   │   └── NotReady                                  5   not_ready
    │   ├── ConflictingClaim · OtherController            5   refused
    │   └── QuotaNotSeen                                  4   unreached
    ├── RefusedPlan                                       5   refused
    │   └── InUse · StillEnding · BlockedWrite · ForeignDevice · SavedImage · NamedInSnapshot · WillNotStart ·
    │       NotWhileRunning · Unsure · TooManyDestroys · PlanOutdated · HeldBack · Cordoned · NotDrained · NotAllowed ·
    │       NotInstalled
    ├── HostError(host)                                   4   unreached
    │   ├── Unreachable(stage) · SshConfigRefused · HostKeyRefused · AuthenticationFailed · BecomeFailed · NotStarted
    │   ├── HostDeadline · ProgramFailed · LedgerBroken
    │   ├── SysfsRefused(path, errno)                     1   failed
    │   ├── NvmlRefused(function, code)                   1   failed
    │   ├── ToolRefused(command)                          1   failed
    │   ├── LedgerUnwritable(path, errno)                 1   failed
    │   ├── HypervisorError(code)                         1   failed
    │   └── Busy · LeaseLost                              6   busy
    ├── ApplyError                                        1   failed
    │   └── StalePlan(6, busy) · PartialApply · NotConverged
    ├── StoreError                                        1   failed
    │   └── JournalCorrupt · SamplesCorrupt · NewerSchema · UnstorableValue
    ├── AlreadyRunning                                    6   busy
    ├── ExportError                                       1   failed
    ├── Unexpected                                        1   failed
    └── LabError                                          1   failed

The message says what and where; `hint` says what to do now and comes last, near the prompt. `details` holds one line
per candidate or problem. A library's exception is translated in the only module that imports the library, `raise …
from`. `transient` marks errors that may not occur when the same command is run again.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Self

from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterable


class Outcome(StrEnum):
    """The outcome of a command or of one item in it; scripts rely on it (docs/exit-codes.md).

    Those up to `waiting` belong to no error, the others to one. `waiting`: reconcile makes the change once a GPU or VM
    is no longer in use. `unverified`: there is nothing to do, but the GPU could not be asked (exit 4).
    """

    DONE = "done"
    UNCHANGED = "unchanged"
    UNVERIFIED = "unverified"
    WOULD_CHANGE = "would_change"
    WAITING = "waiting"
    FAILED = "failed"
    USAGE = "usage"
    UNKNOWN_VM = "unknown_vm"
    UNREACHED = "unreached"
    NO_CAPACITY = "no_capacity"
    NOT_READY = "not_ready"
    REFUSED = "refused"
    BUSY = "busy"

    @property
    def changed(self) -> bool:
        """Whether something has changed, or would change."""
        return self in (Outcome.DONE, Outcome.WOULD_CHANGE)


_PRECEDENCE = (2, 1, 4, 5, 6, 3, 0)


def worst_exit(codes: Iterable[int]) -> int:
    """The one exit code for several: 2 > 1 > 4 > 5 > 6 > 3 > 0 (docs/exit-codes.md)."""
    exits = set(codes)
    return next((code for code in _PRECEDENCE if code in exits), 1 if exits else 0)


Success = Literal[Outcome.DONE, Outcome.UNCHANGED, Outcome.WOULD_CHANGE]


class VgpumgrError(Exception):
    """Root of all our errors. Scripts rely on `exit_code` and `outcome` (docs/exit-codes.md).

    `message` is complete; `what` is the message without the leading host, if there is one.
    """

    exit_code = 1
    outcome = Outcome.FAILED
    transient = False

    def __init__(
        self, what: str, *, host: str | None = None, hint: str | None = None, details: Iterable[str] = ()
    ) -> None:
        self.message = what if host is None else say("{}: {}", host, what)
        super().__init__(self.message)
        self.host = host
        self.what = what
        self.hint = hint
        self.details = tuple(details)


class ConfigError(VgpumgrError):
    exit_code = 2
    outcome = Outcome.USAGE


class InventoryError(ConfigError):
    """The inventory has problems; each detail is one, with file:line."""


class TemplateError(ConfigError):
    """A template is missing, broken, or lacks a value that it needs; or libvirt refuses what was rendered."""


class PolicyFailed(ConfigError):
    """A placement policy is not known, cannot be loaded, raised an error, or broke its contract (docs/plugins.md)."""


class RequestError(VgpumgrError):
    exit_code = 2
    outcome = Outcome.USAGE


class UsageError(RequestError):
    """Options that cannot be combined, or a prompt that could not be shown."""


class BadName(RequestError):
    """Text that is not a valid name of its kind (PCI address, slot, profile …)."""


class BadSchedulerValue(RequestError):
    """A policy, time slice, frequency or averaging factor that this GPU does not take, or an invalid combination."""


class Declined(RequestError):
    """The user answered no."""

    exit_code = 1
    outcome = Outcome.FAILED


class UnknownHost(RequestError):
    """No such host in the inventory."""


class UnknownVm(RequestError):
    """No host has such a VM."""


class VmNotSeen(UnknownVm):
    """No host that answered has such a VM, and some could not be asked. `unread`: the reason for each of these."""

    exit_code = 4
    outcome = Outcome.UNREACHED
    unread: tuple[VgpumgrError, ...] = ()


class DeclaredVmUnknown(UnknownVm):
    """The inventory declares a VM for a host that has none of that name. The host's other declarations are served."""

    exit_code = 5
    outcome = Outcome.UNKNOWN_VM


class AmbiguousVm(RequestError):
    """More than one host has a VM of that name."""


class UnknownGpu(RequestError):
    """There is no such GPU on the host, or on any of the hosts."""


class UnknownVgpu(RequestError):
    """The host has no vGPU of that UUID, or on that virtual function."""


class UnknownProfile(RequestError):
    """No board has such a profile."""


class UnknownSlot(RequestError):
    """The VM has no claim in that slot, or it has several and none was named."""


class UnknownName(RequestError):
    """Nothing of that name is known: no VM or host (to the store), group, owner, reservation or page."""


class NoCapacity(RequestError):
    """The request is valid, but no GPU of the VM's host can take it; each detail is one GPU's reason.

    `shortage`: the facts from which core.explain finds what would help; None if nothing more can be found.
    """

    exit_code = 5
    outcome = Outcome.NO_CAPACITY

    def __init__(
        self,
        what: str,
        *,
        host: str | None = None,
        hint: str | None = None,
        details: Iterable[str] = (),
        shortage: object | None = None,
    ) -> None:
        super().__init__(what, host=host, hint=hint, details=details)
        self.shortage = shortage


class ProfileNotHere(NoCapacity):
    """No GPU of the VM's host has a type of that name, but one of another host may."""


class NotReady(NoCapacity):
    """The GPU that is wanted offers no vGPUs now: its host must be repaired first; freeing vGPUs does not help."""

    outcome = Outcome.NOT_READY


class OverQuota(NoCapacity):
    """The VM's owner would hold more than its quota; each detail is what it holds on one host."""


class QuotaNotSeen(RequestError):
    """Some hosts could not be read, so it is unknown whether the VM's owner stays within its quota."""

    exit_code = 4
    outcome = Outcome.UNREACHED


class ConflictingClaim(RequestError):
    """The slot is already claimed with another wish, here or in the inventory."""

    exit_code = 5
    outcome = Outcome.REFUSED


class OtherController(ConflictingClaim):
    """Another controller's inventory declared the slot recently, and no site says whose it is."""


class RefusedPlan(VgpumgrError):
    """A guard refused the plan."""

    exit_code = 5
    outcome = Outcome.REFUSED


class InUse(RefusedPlan):
    """Something holds the vGPU, or it cannot be determined that nothing does.

    `until`: the condition, worded to follow "until", that ends the refusal; None if it does not come about by itself.
    """

    def __init__(
        self,
        what: str,
        *,
        host: str | None = None,
        hint: str | None = None,
        details: Iterable[str] = (),
        until: str | None = None,
    ) -> None:
        super().__init__(what, host=host, hint=hint, details=details)
        self.until = until


class StillEnding(InUse):
    """The holder ends by itself (the QEMU of a stopped VM, its plugin), but it did not within the wait."""


class BlockedWrite(RefusedPlan):
    """An earlier write to the GPU has not returned, so it takes no more."""


class ForeignDevice(RefusedPlan):
    """The step would touch a device that no ledger entry names."""


class SavedImage(RefusedPlan):
    """The VM has a managed-save image, whose own XML would override the definition at the next start."""


class NamedInSnapshot(RefusedPlan):
    """A snapshot of the VM names the device."""


class WillNotStart(RefusedPlan):
    """The VM could not start with the vGPU that it would get."""


class NotWhileRunning(RefusedPlan):
    """The running VM cannot get the vGPU before its next start, or its guest does not release it."""


class Unsure(RefusedPlan):
    """The evidence does not show what a vGPU or GPU is, or whose, so nothing is changed."""


class TooManyDestroys(RefusedPlan):
    """The plan would remove more vGPUs than a reconcile may remove unattended."""


class PlanOutdated(RefusedPlan):
    """The basis of a kept plan has changed, or planning again gives another plan."""


class NotAllowed(RefusedPlan):
    """The login is confined to what is installed on its host, and may not change that."""


class NotInstalled(RefusedPlan):
    """What `host install` leaves on a host is missing, of another version, or altered."""


class HeldBack(RefusedPlan):
    """Nothing is wrong with this VM, but the command serves all VMs or none, and others cannot be served."""


class Cordoned(RefusedPlan):
    """A person keeps new vGPUs from the host, or from every GPU that could take this one."""


class NotDrained(RefusedPlan):
    """Something still runs on the host or GPU that is to be free."""


class HostError(VgpumgrError):
    """One host could not be reached or read. `host` is the inventory name."""

    exit_code = 4
    outcome = Outcome.UNREACHED

    def __init__(self, host: str, message: str, *, hint: str | None = None, details: Iterable[str] = ()) -> None:
        super().__init__(message, host=host, hint=hint, details=details)
        self.host: str = host


class Unreachable(HostError):
    """A host was not reached. `stage`: config, dns, tcp, banner, kex, auth, become, program or libvirt.

    `may_happen`: the request may have been carried out, or may yet be; False only if it was certainly never sent.
    `via`: the jump host that was not reached; None if it was the host itself.
    """

    transient = True
    may_happen = True

    def __init__(
        self,
        host: str,
        stage: str,
        message: str,
        *,
        via: str | None = None,
        hint: str | None = None,
        details: Iterable[str] = (),
    ) -> None:
        way = "" if via is None else say("via {}: ", via)
        super().__init__(host, say("{}{}: {}", way, stage, message), hint=hint, details=details)
        self.stage = stage
        self.via = via
        self._message = message

    def seen_from(self, host: str, via: str) -> Self:
        """The same failure of a jump host, as reported for a host behind it."""
        return type(self)(host, self.stage, self._message, via=self.via or via, hint=self.hint, details=self.details)


class SshConfigRefused(Unreachable):
    """The user's ssh_config cannot be read, or says something that is not honoured."""

    transient = False
    may_happen = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyScan:
    """How to add a host's key to the known_hosts file `file`. `through`: the ssh command to run ssh-keyscan by, if any.

    `key_file`: where the host itself has that key.
    """

    address: str
    port: int
    file: str
    through: str
    key_file: str


class HostKeyRefused(Unreachable):
    """The host's key is unknown, or not the one in known_hosts. `scan` is set if no file has a key of the host."""

    transient = False
    scan: KeyScan | None = None


class AuthenticationFailed(Unreachable):
    transient = False


class BecomeFailed(Unreachable):
    """The login works, but sudo does not run the host program as root."""

    transient = False
    may_happen = False


class NotStarted(Unreachable):
    """The login works, but something other than the host program answers, or nothing there can run it."""

    transient = False
    may_happen = False


class HostDeadline(Unreachable):
    """A stage did not end within its deadline."""


class ProgramFailed(HostError):
    """The host program did not start, ended early, or did not follow the protocol."""


class LedgerBroken(HostError):
    """The host's ledger cannot be read, so nothing may be changed on that host."""


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
    """The host's ledger cannot be written (a full or read-only disk), so nothing is created or removed there.

    `written`: the step's write to the hardware was done; only its end is missing from the ledger.
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


class ToolRefused(HostError):
    """One of NVIDIA's programs on the host (sriov-manage, nvidia-smi) failed; `command` is its command line."""

    exit_code = 1
    outcome = Outcome.FAILED

    def __init__(
        self, host: str, message: str, *, command: str, hint: str | None = None, details: Iterable[str] = ()
    ) -> None:
        super().__init__(host, message, hint=hint, details=details)
        self.command = command


class HypervisorError(HostError):
    """libvirt refused; `code` is its VIR_ERR_ number."""

    SYSTEM_ERROR = 38  # libvirt's virterror.h: the kernel refused a call of libvirtd's, for example a write to its disk

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
    """We no longer hold the host's lock (we were suspended, or the connection died), so nothing more was written."""

    exit_code = 6
    outcome = Outcome.BUSY
    transient = True


class ApplyError(VgpumgrError):
    """A plan could not be carried out completely."""


class StalePlan(ApplyError):
    """The host changed between the plan and the step."""

    exit_code = 6
    outcome = Outcome.BUSY
    transient = True


class PartialApply(ApplyError):
    """Some steps were done and could not be undone; running the same command again continues from there."""


class NotConverged(ApplyError):
    """All steps were done, but the observed state is not the planned one."""


class StoreError(VgpumgrError):
    """The controller's own file cannot be read or written. During a change this is only reported, never raised."""


class JournalCorrupt(StoreError):
    """The file is not one of our journals: it is damaged or another program's."""


class SamplesCorrupt(StoreError):
    """The file is not one of our stores of samples: it is damaged or another program's."""


class NewerSchema(StoreError):
    """A newer version of vgpumgr made the file."""


class UnstorableValue(StoreError):
    """A number or text that our databases cannot hold: nothing that was to be stored with it is stored."""


class AlreadyRunning(VgpumgrError):
    """Another run of the same job is under way on this controller."""

    exit_code = 6
    outcome = Outcome.BUSY
    transient = True


class ExportError(VgpumgrError):
    """Nothing can be exported or served: the file cannot be written, or the address cannot be listened on."""


class Unexpected(VgpumgrError):
    """An unforeseen error: a bug of ours, or a machine short of resources. `of` makes it from the original exception.

    It is reported for one VM, GPU or host like any other error, so that the others go on.
    """

    @classmethod
    def of(cls, error: Exception, *, about: str | None = None, host: str | None = None) -> Unexpected:
        """Make the error. `about` (what was under way) precedes its message; the innermost place in code follows it."""
        where, trace = "", error.__traceback__
        while trace is not None:
            where = f" ({trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"
            trace = trace.tb_next
        unexpected = cls(
            say("{}unexpected {}: {}{}", say("{}: ", about) if about else "", type(error).__name__, error, where),
            host=host,
            hint="this machine is short of memory, threads or open files (`ulimit -a`): free some, then run it again"
            if _is_shortage(error)
            else "this is a bug in vgpumgr: please report it with the output of the same command with -v",
        )
        unexpected.__cause__ = error
        return unexpected


def _is_shortage(error: Exception) -> bool:
    """Whether the controller's machine has run out of a resource."""
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error)):
        return True
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


class LabError(VgpumgrError):
    """The simulated hosts could not do what was requested."""
