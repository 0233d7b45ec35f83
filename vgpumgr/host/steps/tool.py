"""NVIDIA's own programs on the host, run with a deadline: sriov-manage and nvidia-smi."""

import os
import shlex
from typing import List, NamedTuple, Sequence

from ..files import Root
from ..protocol import DEADLINE, TOOL_REFUSED
from ..refusal import Refusal, reason

_MOST_LINES = 5


class Ended(NamedTuple):
    """`output` is what the program printed, of both kinds."""

    command: str
    status: int
    output: str

    def refusal(self, why: str) -> Refusal:
        """The answer if the program did not do its work."""
        lines = _last(self.output)
        message = "{}: {}{}".format(self.command, why, ": " + " / ".join(lines) if lines else "")
        return Refusal(TOOL_REFUSED, message, command=self.command, status=self.status, output="\n".join(lines))


def run_tool(root: Root, program: str, arguments: Sequence[str], deadline_s: float) -> Ended:
    """Run it to its end. Raises Refusal: ToolRefused if it cannot be started, Deadline if it does not end in time.

    One that does not end is left alone: it is in the middle of a change of the driver, which it alone can finish. It has neither the
    lock nor the controller's channel.
    """
    import subprocess

    command = shlex.join([program, *arguments])
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            [root.path(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        message = "{}: cannot be run: {}".format(command, reason(error))
        raise Refusal(TOOL_REFUSED, message, command=command, status=None, output="") from error
    try:
        output, _ = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired as error:
        message = "{}: did not end in {:g} s (pid {}); it may still do its work".format(
            command, deadline_s, process.pid
        )
        raise Refusal(DEADLINE, message, path=program) from error
    return Ended(command, process.returncode, output.decode("utf-8", "replace"))


def _last(output: str) -> List[str]:
    return [line.strip() for line in output.splitlines() if line.strip()][-_MOST_LINES:]
