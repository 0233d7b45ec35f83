"""NVIDIA's own programs on the host, run with a deadline: sriov-manage and nvidia-smi."""

import os
import shlex
import signal
import time
from typing import List, NamedTuple, Optional, Sequence

from ..files import Root
from ..protocol.session import DEADLINE, TOOL_REFUSED
from ..refusal import Refusal, reason

_MOST_LINES = 5
_MOST_BYTES = 64 * 1024
_SLICE_S = 0.05


class Ended(NamedTuple):
    """A program that has ended. `output`: what it printed on stdout and stderr."""

    command: str
    status: int
    output: str

    def refusal(self, why: str, found: Sequence[str] = ()) -> Refusal:
        """The refusal if the program did not do its work. `found`: possible reasons, a sentence each.

        Output of several lines is only in `output`, which the user sees below the message.
        """
        lines = [*_last(self.output), *found]
        message = "{}: {}{}".format(self.command, why, ": " + lines[0] if len(lines) == 1 else "")
        return Refusal(TOOL_REFUSED, message, command=self.command, status=self.status, output="\n".join(lines))


def run_tool(root: Root, program: str, arguments: Sequence[str], deadline_s: float) -> Ended:
    """Run a program to its end. Raises Refusal: ToolRefused if it cannot start, Deadline if it does not end in time.

    A program that does not end in time is not killed: only it can finish the change that it has begun in the driver.
    It has neither the lock nor the controller's channel.
    """
    command = shlex.join([program, *arguments])
    # A file in memory, not a pipe: one that outlives us must not end because nobody reads what it says.
    output = os.memfd_create("tool", os.MFD_CLOEXEC)
    try:
        pid = os.posix_spawn(
            root.path(program),
            [program, *arguments],
            {**os.environ, "LC_ALL": "C"},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE],
        )
        status = _wait(pid, deadline_s)
        if status is None:
            message = "{}: did not end in {:g} s (pid {}); it may still do its work".format(command, deadline_s, pid)
            raise Refusal(DEADLINE, message, path=program)
        return Ended(command, status, os.pread(output, _MOST_BYTES, 0).decode("utf-8", "replace"))
    except OSError as error:
        message = "{}: cannot be run: {}".format(command, reason(error))
        raise Refusal(TOOL_REFUSED, message, command=command, status=None, output="") from error
    finally:
        os.close(output)


def _wait(pid: int, deadline_s: float) -> Optional[int]:
    """The program's exit status, or minus the number of the signal that ended it; None if it does not end in time."""
    until = time.monotonic() + deadline_s
    while True:
        child, status = os.waitpid(pid, os.WNOHANG)
        if child:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        if time.monotonic() >= until:
            return None
        time.sleep(_SLICE_S)


def _last(output: str) -> List[str]:
    return [line.strip() for line in output.splitlines() if line.strip()][-_MOST_LINES:]
