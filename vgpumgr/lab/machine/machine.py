"""The running part of a simulated host: a pid namespace with its own /proc, and how to start programs in it.

The chain of processes: the supervisor's main thread starts `setpriv --pdeathsig KILL unshare --kill-child=KILL`, whose
child is the host's first process. If the supervisor is killed, unshare gets a SIGKILL; if unshare is killed, the first
process gets one; when that ends, the kernel kills everything in the host. So a SIGKILL in the chain leaves nothing
behind. `pdeathsig` follows the *thread* that started it: call power_on() from a thread that lives as long as the host.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from vgpumgr.errors import LabError
from vgpumgr.lab.layout import start_time
from vgpumgr.lab.requirements import PROGRAM_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_OFF_S = 30.0
_RUN_S = 60.0
_POLL_S = 0.01
PROC_DRIVER = "sys/kernel/debug/nvlab/proc-driver"

# Runs as the first process, in the directory that becomes /. It reads its pid in the supervisor's namespace from
# /proc/self before it mounts the host's own /proc, and reports it once the root is the host's, where programs are
# started from then on. A host's root user must neither change the machine's sysctls nor trigger its reboot (sysrq).
# `--ignore-signal=CHLD` makes the kernel reap orphans: libvirtd waits 40 s for a dead QEMU that stays a zombie.
_FIRST_PROCESS = f"""set -e
read -r pid _ </proc/self/stat
mount -t proc -o nosuid,nodev,noexec proc proc
if [ -d {PROC_DRIVER} ]; then mount --bind {PROC_DRIVER} proc/driver; fi
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --bind run/boot_id proc/sys/kernel/random/boot_id
if [ -e proc/sysrq-trigger ]; then mount --bind dev/null proc/sysrq-trigger; fi
mount --move . /
exec chroot . bash -c 'echo "$1"; exec env --ignore-signal=CHLD sleep infinity >/dev/null' up "$pid"
"""

_CHAIN = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--pid", "--mount", "--propagation", "private", "--fork", "--kill-child=KILL"),
)

ENVIRONMENT = {"PATH": PROGRAM_PATH, "HOME": "/root", "USER": "root", "LOGNAME": "root", "LANG": "C.UTF-8"}


class Machine:
    """One host's processes. Off at first."""

    def __init__(self, root: Path, log: IO[bytes]) -> None:
        self._root = root
        self._log = log
        self._chain: subprocess.Popen[bytes] | None = None
        self.first_process = 0  # its pid in the machine's namespace; 0 while the host is off

    def power_on(self, boot_id: str) -> None:
        (self._root / "run/boot_id").write_text(f"{boot_id}\n", encoding="ascii")
        self._chain = subprocess.Popen(
            [*_CHAIN, "bash", "-c", _FIRST_PROCESS],
            cwd=self._root,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self._chain.stdout is not None
        with self._chain.stdout as lines:
            answer = lines.readline().strip()
        if not answer:
            self.kill()
            self.wait_off()
            raise LabError("the host's first process did not start", hint="the preceding lines of the log say why")
        self.first_process = int(answer)

    def kill(self) -> None:
        """Send SIGKILL to everything in the host, like a power cut. wait_off() waits until it is gone."""
        if self._chain is None:
            return
        if self.first_process and start_time(self.first_process) is not None:
            # The first process does not end before all others in its namespace have.
            os.kill(self.first_process, signal.SIGKILL)
        else:
            self._chain.kill()

    def wait_off(self) -> None:
        """Wait until every process of the host is gone.

        A write to /sys that waits in the driver cannot be killed: the driver has to end its waits first.
        """
        if self._chain is not None:
            try:
                self._chain.wait(_OFF_S)
            except subprocess.TimeoutExpired as error:
                raise LabError(f"processes of the host still live {_OFF_S:.0f} s after SIGKILL") from error
        self._chain, self.first_process = None, 0

    def run(self, argv: Sequence[str], *, extra: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program in the host and wait for it. The caller checks the exit status."""
        try:
            return subprocess.run(
                [*self._enter(), *argv],
                input="",
                env={**ENVIRONMENT, **(extra or {})},
                capture_output=True,
                text=True,
                check=False,
                timeout=_RUN_S,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(f"`{' '.join(argv)}` in the host did not end within {_RUN_S:.0f} s") from error

    def must(self, argv: Sequence[str], *, extra: Mapping[str, str] | None = None) -> str:
        """Run a program in the host that must succeed; return its output."""
        process = self.run(argv, extra=extra)
        if process.returncode != 0:
            raise LabError(
                f"`{' '.join(argv)}` in the host ended with {process.returncode}",
                details=process.stderr.strip().splitlines(),
            )
        return process.stdout

    def alive(self, pid_file: str) -> int | None:
        """The pid (in the host) that a pid file of the host names, if that process is alive."""
        try:
            pid = int((self._root / pid_file.lstrip("/")).read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None
        return pid if Path(f"/proc/{self.first_process}/root/proc/{pid}").exists() else None

    def _enter(self) -> list[str]:
        if not self.first_process:
            raise LabError("the host is off")
        # --wd without a value: the first process's own working directory, which is the host's /.
        return ["nsenter", "--target", str(self.first_process), "--pid", "--mount", "--root", "--wd"]


def wait_until(condition: Callable[[], bool], what: str, *, timeout: float = 30) -> None:
    """Poll until the condition holds. Raises LabError naming what was waited for when the time is over."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"{what}: not within {timeout:.0f} s")
        time.sleep(_POLL_S)
