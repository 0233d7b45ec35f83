"""Plugin parameters of vGPUs (nvidia/vgpu_params: enable_uvm=1, frame_rate_limiter=0 and the like): read, kept and set.

The driver forgets them when the vGPU is removed. So the ledger keeps them, for this vGPU and for its replacement. While
the vGPU's VM starts or stops, a read of them blocks, takes no signals, and holds up all other vGPU work of the host. So
a child with a deadline reads them, and only from a vGPU that nothing can hold (guard.py). A write stores all bytes but
the last, at most 1023 (NVIDIA's open kernel part 525.85.07, nvidia-vgpu-vfio.c: vgpu_params_show, vgpu_params_store).
"""

import errno
import os
import select
import time
from typing import Dict, Optional, cast

from ..files import Root
from ..ledger.ledger import UNWRITTEN, Ledger, facts_of, identity
from ..ledger.writer import keep_only
from ..protocol.ledger import LedgerEntry
from ..protocol.session import NOT_YET, SYSFS_REFUSED
from ..protocol.steps import Step
from ..refusal import Refusal, errno_name, reason
from .guard import RemovalGuard
from .hardware import Absent, file_of, hardware_for, is_what_step_means

FILE = "vgpu_params"
READ_S = 3.0
_NONE = (errno.ENOENT, errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV)  # no such file: an older branch, or no vGPU
_MOST = 4096
_OK = 0
_PLACEMENT = "vgpu-placement-id"  # a place on one GPU, which means nothing on another


class KeptParams:
    """The known parameters of this host's vGPUs: from the ledger, or from the driver if nothing holds the vGPU."""

    def __init__(self, root: Root, guard: RemovalGuard) -> None:
        self._root = root
        self._guard = guard

    def of_new(self, ledger: Ledger, step: Step) -> str:
        """The parameters of a new vGPU: its entry's, else those of the vGPU it replaces, overlaid by requested ones.

        The record of a freed vGPU with the same key counts only if the step replaces that one: a slot that was detached
        and is attached again has the same generation, and so the same key.
        """
        of_entry = ledger._replace(freed=()).params_of(identity(step))
        return merged(of_entry or self._of_replaced(ledger, step), step["param"] or "")

    def of_idle(self, ledger: Ledger, step: Step) -> str:
        """The parameters of a vGPU that nothing holds. Raises Refusal if they cannot be read."""
        path = file_of(step, FILE)
        try:
            params = read_params(self._root.path(path), step)
        except OSError as error:
            message = "{}: {}; a vGPU is not moved if its parameters cannot be kept".format(path, reason(error))
            raise Refusal(
                SYSFS_REFUSED, message, path=path, errno=errno_name(error.errno or 0), read_back=None
            ) from error
        unwritten = any(identity(each) == identity(step) and each.get(UNWRITTEN) for each in ledger.entries)
        return merged(ledger.params_of(identity(step)), params) if unwritten else params

    def of_leaving(self, ledger: Ledger, step: Step) -> str:
        """The parameters of a vGPU that is about to be removed for good; the ledger's if the driver refuses."""
        try:
            return self.of_idle(ledger, step)
        except Refusal as refusal:
            if refusal.kind != SYSFS_REFUSED:
                raise
            return ledger.params_of(identity(step))

    def _of_replaced(self, ledger: Ledger, step: Step) -> str:
        if step["replaces"] is None:
            return ""
        key = (step["vm_uuid"], step["slot"], step["replaces"])
        if key == identity(step):
            return ledger.params_of(key)
        entry = next((each for each in ledger.entries if identity(each) == key), None)
        predecessor = None if entry is None else cast("Step", {**step, **facts_of([entry], LedgerEntry)[0]})
        if predecessor is None or not self._is_idle(predecessor):
            return _elsewhere(ledger.params_of(key))
        return _elsewhere(self.of_idle(ledger, predecessor))

    def _is_idle(self, step: Step) -> bool:
        """Whether the step's vGPU is there, and nothing can hold it. Only then may its parameters be read."""
        try:
            vgpu = hardware_for(self._root, step).find()
            if vgpu is None or not is_what_step_means(vgpu, step):
                return False
            self._guard.refuse_by_now(step, vgpu)
        except (OSError, ValueError, Refusal, Absent):  # whoever removes it says so
            return False
        return True


def merged(before: str, over: str) -> str:
    """Both texts as one, in their order. If both have a parameter, the value in `over` counts."""
    if not before or not over:
        return before or over
    pairs: Dict[str, str] = {}
    for pair in (*before.split(","), *over.split(",")):
        name = pair.partition("=")[0].strip()
        if name:
            pairs[name] = pair.strip()
    return ",".join(pairs.values())


def _elsewhere(params: str) -> str:
    return ",".join(pair for pair in params.split(",") if pair.partition("=")[0].strip() != _PLACEMENT)


def text_for(params: str) -> bytes:
    """The text to write. Its last byte is for the driver to drop, so that it keeps all parameters."""
    return params.encode("latin-1") + b"\n"


def read_params(path: str, step: Step) -> str:
    """The vGPU's parameters; empty if it has none, or its driver does not know them. `path`: its file, with the root.

    Raises Refusal(NotYet) if the read does not return, OSError if it is refused.
    """
    hear, say = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _child(path, say)
    os.close(say)
    try:
        answer = _receive(hear, time.monotonic() + READ_S)
    finally:
        os.close(hear)
    if answer is None:
        line = "reading {} does not return (pid {}): a VM starts or stops with it".format(path, pid)
        message = "{} ({} slot {}) may still be held".format(step["type_name"], step["vm_name"], step["slot"])
        raise Refusal(NOT_YET, message, vm=step["vm_name"], waits_for=[line])
    os.waitpid(pid, 0)
    number = answer[0] if answer else errno.EINTR
    if number in _NONE:
        return ""
    if number != _OK:
        raise OSError(number, errno_name(number))
    return answer[1:].decode("latin-1").removesuffix("\n")


def _child(path: str, say: int) -> None:
    answer = bytes([errno.EIO])
    try:
        keep_only(say)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        answer = bytes([_OK]) + os.read(descriptor, _MOST)
    except OSError as error:
        answer = bytes([error.errno or errno.EIO])
    finally:
        try:
            os.write(say, answer)
        finally:
            os._exit(0)


def _receive(descriptor: int, until: float) -> Optional[bytes]:
    """All of the child's output; None if it does not finish in time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    pieces = b""
    while True:
        remaining_s = until - time.monotonic()
        if not poll.poll(max(0.0, remaining_s) * 1000):
            if remaining_s <= 0:
                return None
            continue
        piece = os.read(descriptor, _MOST + 1)
        if not piece:
            return pieces
        pieces += piece
