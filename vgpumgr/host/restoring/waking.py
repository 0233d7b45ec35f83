"""Makes a VM's lazy vGPUs before it starts, and frees them once it has ended, by the executor that controllers use.

libvirt runs this in its hook, with the VM locked, so libvirt is never asked here. The run that has the host's lock may
itself wait for that VM: then this one gives up first, and says so. What a killed run leaves is used by the VM's next
start, or freed by the next reconcile.
"""

import time
from typing import Any, Callable, Dict, Optional, Sequence
from xml.etree import ElementTree

from ..facts.facts import observe
from ..facts.nvml import load_binding
from ..facts.pci import count_vfs
from ..files import Root
from ..ledger.ledger import facts_of, read_ledger
from ..ledger.lock import HostLock
from ..ledger.writer import write_file
from ..libvirt.service import Libvirt
from ..protocol.ledger import LedgerEntry
from ..protocol.session import LOCKED, NOT_YET
from ..protocol.snapshot import Snapshot
from ..refusal import Refusal
from ..steps.executor import Executor, at_nothing
from ..timing import of_host
from . import lazy
from .plan import RestoreStep, name_of

LOCK_WAIT_S = 15.0
WAKE_S = 60.0  # of all steps before a start; virtual functions may have to be made
SLEEP_S = 20.0  # the driver's plugin ends some seconds after the VM (steps/guard.py)
_STEP_S = 30.0
_PAUSE_S = 0.5


class Waker:
    """One run of the hook on one host. Every injected part defaults to the real one, as in Server."""

    def __init__(
        self,
        root: Root,
        *,
        nvml: Callable[[], Any] = load_binding,
        write: Callable[[str, bytes], None] = write_file,
        at: Callable[[str], None] = at_nothing,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        self._root = root
        self._nvml = nvml
        self._clock = clock
        self._pause = pause
        self._lock_wait_s = lock_wait_s
        self._executor = Executor(root, nvml, Libvirt(), write=write, at=at, timing=of_host(root))

    def wake(self, definition: bytes) -> Optional[str]:
        """Make the lazy vGPUs that the definition names. Returns why one is not there, in one line, or None."""
        return self._run(definition, lazy.wake, named=True, limit_s=WAKE_S)

    def put_to_sleep(self, definition: bytes) -> Optional[str]:
        """Free the VM's lazy vGPUs. Returns why one stays, in one line, or None."""
        return self._run(definition, lazy.put_to_sleep, named=False, limit_s=SLEEP_S)

    def _run(self, definition: bytes, plan: lazy.Planner, *, named: bool, limit_s: float) -> Optional[str]:
        domain = ElementTree.fromstring(definition)  # noqa: S314 -- libvirt wrote it
        if not lazy.of_vm(facts_of(read_ledger(self._root).entries, LedgerEntry), domain, named=named):
            return None
        name, lock = domain.findtext("name"), HostLock(self._root)
        try:
            lock.take("libvirt's hook for {}".format(name), self._lock_wait_s)
            until_s = self._clock() + limit_s
            failed: Dict[str, str] = {}
            while True:
                snapshot = observe(self._root, self._nvml, pause=self._pause)
                now = plan(
                    snapshot, lazy.of_vm(snapshot["ledger"] or [], domain, named=named), self._vfs(snapshot), failed
                )
                if now.why is None or now.lasts or self._clock() >= until_s:
                    return now.why
                self._take(now.steps, failed)
        except Refusal as refusal:
            end = "; once that has ended, try again" if refusal.kind == LOCKED else ""
            return "nothing was done for {}: {}{}".format(name, refusal.message, end)
        finally:
            lock.give_back()

    def _vfs(self, snapshot: Snapshot) -> Dict[str, int]:
        return {gpu["pci"]: count_vfs(self._root, gpu["pci"]) for gpu in snapshot["gpus"]}

    def _take(self, steps: Sequence[RestoreStep], failed: Dict[str, str]) -> None:
        """Take the steps until one is refused. `failed` gets the reason, unless that step is to be tried again.

        It also gets the accepted steps: one that has to be taken a second time was without effect.
        """
        for step in steps:
            failed[name_of(step)] = "without effect: {}".format(step["verb"])
            try:
                self._executor.execute(step, _STEP_S)
            except Refusal as refusal:
                failed[name_of(step)] = refusal.message
                if refusal.kind == NOT_YET:
                    del failed[name_of(step)]
                    self._pause(_PAUSE_S)
                return
        if not steps:
            self._pause(_PAUSE_S)
