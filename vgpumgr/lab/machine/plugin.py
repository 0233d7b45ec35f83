"""A vGPU's plugin: a process that has the vGPU's character device open while a VM runs, and for some time after.

On a real host it is a child of the daemon, one for each vGPU: its name is nvidia-vgpu-mgr, its command line `vgpu`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.lab.machine.machine import Machine

_FOLDER = "/run/lab-plugins"
_PROGRAM = f"{_FOLDER}/nvidia-vgpu-mgr"
# Starts one process for each number; it keeps its device open, and its pid is in a file.
_START = f"""mkdir -p {_FOLDER} && ln -sf /usr/bin/sleep {_PROGRAM}
for number; do
  (exec {{device}}<>/dev/nvidia-vgpu$number; exec -a vgpu {_PROGRAM} infinity) </dev/null >/dev/null 2>&1 &
  echo $! >{_FOLDER}/$number.pid
done"""


def node(number: int) -> str:
    """The name of a vGPU's character device, below /dev."""
    return f"nvidia-vgpu{number}"


def start(machine: Machine, numbers: Sequence[int]) -> None:
    """Start the plugins of the vGPUs with these numbers."""
    machine.must(["bash", "-c", _START, "plugins", *map(str, numbers)])


def stop(machine: Machine, numbers: Sequence[int]) -> None:
    """End those plugins of the vGPUs with these numbers that are alive."""
    files = " ".join(shlex.quote(_pid_file(number)) for number in numbers)
    machine.run(["bash", "-c", f"kill -KILL $(cat {files} 2>/dev/null) 2>/dev/null; rm -f {files}"])


def lives(machine: Machine, numbers: Sequence[int]) -> bool:
    """Return whether the plugin of at least one of these vGPUs is alive."""
    return any(machine.alive(_pid_file(number)) is not None for number in numbers)


def _pid_file(number: int) -> str:
    return f"{_FOLDER}/{number}.pid"
