"""A vGPU's plugin parameters (nvidia/vgpu_params: enable_uvm=1, frame_rate_limiter=0 and the like), kept across re-creation.

The driver keeps them in memory for that one vGPU, and they are lost with it. While the vGPU's VM starts or stops, reading
them blocks, takes no signals, and holds up all other vGPU work of the host. So a child with a deadline reads them, and only
from a vGPU that nothing can hold (guard.py). A write stores all but its last byte, whatever that is, at most 1023 (NVIDIA's
open kernel part 525.85.07, nvidia-vgpu-vfio.c: vgpu_params_show, vgpu_params_store).
"""

import errno
import os
import select
import time
from typing import Optional

from ..ledger.writer import keep_only
from ..protocol import NOT_YET, Step
from ..refusal import Refusal, errno_name

FILE = "vgpu_params"
READ_S = 3.0
_NONE = (errno.ENOENT, errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV)  # no such file: an older branch, or no vGPU
_MOST = 4096
_OK = 0


def text_for(params: str) -> bytes:
    """The text to write, so that the driver keeps all parameters."""
    return params.encode("latin-1") + b"\n"


def read_params(path: str, step: Step) -> str:
    """The vGPU's parameters; empty if it has none, or its driver does not know them. `path` is the real one.

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
        left = until - time.monotonic()
        if not poll.poll(max(0.0, left) * 1000):
            if left <= 0:
                return None
            continue
        piece = os.read(descriptor, _MOST + 1)
        if not piece:
            return pieces
        pieces += piece
