"""What remains of a VM for a while after it stopped: a QEMU that is still exiting, then plugins that have not ended.

This happens only with the faults `slow-exit:SECONDS` and `slow-plugin:SECONDS`; by default everything ends at once.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr.errors import LabError
from vgpumgr.lab.machine import holder, plugin
from vgpumgr.lab.machine.threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vgpumgr.lab.driver.driver import Driver
    from vgpumgr.lab.driver.model import Vgpu
    from vgpumgr.lab.machine.machine import Machine

SLOW_EXIT = "slow-exit"
SLOW_PLUGIN = "slow-plugin"
_FAULT = re.compile(rf"({SLOW_EXIT}|{SLOW_PLUGIN}):([0-9]{{1,4}}(?:\.[0-9]{{1,3}})?)")
_POLL_S = 0.05
_END_S = 10.0


def parse_fault(name: str) -> tuple[str, float] | None:
    """(kind, seconds) of `slow-exit:SECONDS` and `slow-plugin:SECONDS`; None if it is neither."""
    match = _FAULT.fullmatch(name)
    return None if match is None else (match[1], float(match[2]))


def seconds(faults: Iterable[str], kind: str) -> float:
    """How long that kind of fault lasts; 0 if it is not set."""
    return max((fault[1] for name in faults if (fault := parse_fault(name)) and fault[0] == kind), default=0.0)


@dataclass(slots=True, kw_only=True)
class Lingering:
    """The lingering processes of one host."""

    machine: Machine
    driver: Driver
    _over: threading.Event = field(default_factory=threading.Event)
    _left: set[str] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def stop(self, vm_uuid: str, vgpus: Sequence[Vgpu], *, exit_s: float, plugin_s: float) -> None:
        """Kill the VM's holder and start its lingering phase; at its end the driver learns that everything is gone."""
        numbers = [vgpu.number for vgpu in vgpus]
        if not plugin_s:
            plugin.stop(self.machine, numbers)
        if exit_s:
            self.driver.begin_exit(vm_uuid, plugin_stays=plugin_s > 0)
            holder.kill(self.machine, vm_uuid)
        else:
            holder.stop(self.machine, vm_uuid)
            self.driver.release(vm_uuid, plugin_stays=plugin_s > 0)
        if not (exit_s or plugin_s):
            return
        self._left.add(vm_uuid)

        def end() -> None:
            with contextlib.suppress(LabError):  # the host is off: everything ended with it
                if exit_s:
                    self._wait(exit_s, lambda: holder.is_running(self.machine, vm_uuid))
                    self.driver.release(vm_uuid, plugin_stays=plugin_s > 0)
                if plugin_s:
                    self._wait(plugin_s, lambda: plugin.lives(self.machine, numbers))
                    # As with a real descriptor, the driver's part of a close ends before the process does.
                    for vgpu in vgpus:
                        self.driver.end_plugin(vgpu)
                    plugin.stop(self.machine, numbers)
            with self._changed:
                self._left.discard(vm_uuid)
                self._changed.notify_all()

        start_thread(f"lingering-{vm_uuid}", end)

    def end_all(self) -> None:
        """End everything that is left of any VM."""
        self._over.set()
        with self._changed:
            ended = self._changed.wait_for(lambda: not self._left, _END_S)
        self._over.clear()
        if not ended:
            raise LabError(f"processes of a stopped VM are still there after {_END_S:.0f} s")

    def _wait(self, timeout: float, alive: Callable[[], bool]) -> None:
        """Wait until the time is over, everything must end, or the process has been killed."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and alive() and not self._over.wait(_POLL_S):
            pass
