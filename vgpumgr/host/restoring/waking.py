"""Makes a VM's lazy vGPUs before it starts, and frees them once it has ended, by the executor that controllers use.

libvirt runs this in its hook, with the VM locked, so libvirt is never asked here. Whoever has the host's lock may wait
for that very VM: then this gives up first, and says so. A run that is killed leaves what the next start of the VM uses,
or the next reconcile frees.
"""

import time
from typing import Any, Callable, Dict, List, Optional
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
from ..refusal import Refusal
from ..steps.executor import Executor, at_nothing
from ..timing import of_host
from . import lazy
from .plan import name_of

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
        """Make the lazy vGPUs that the definition names. Why one cannot be made, in one line; None if all are there."""
        return self._run(definition, self._wake, named=True)

    def put_to_sleep(self, definition: bytes) -> Optional[str]:
        """Free the VM's lazy vGPUs. Why one stays, in one line."""
        return self._run(definition, self._put_to_sleep, named=False)

    def _run(
        self, definition: bytes, do: Callable[[ElementTree.Element], Optional[str]], *, named: bool
    ) -> Optional[str]:
        domain = ElementTree.fromstring(definition)  # noqa: S314 -- libvirt wrote it
        if not lazy.of_vm(facts_of(read_ledger(self._root).entries, LedgerEntry), domain, named=named):
            return None
        name, lock = domain.findtext("name"), HostLock(self._root)
        try:
            lock.take("libvirt's hook for {}".format(name), self._lock_wait_s)
            return do(domain)
        except Refusal as refusal:
            end = "; once that has ended, try again" if refusal.kind == LOCKED else ""
            return "nothing was done for {}: {}{}".format(name, refusal.message, end)
        finally:
            lock.give_back()

    def _wake(self, domain: ElementTree.Element) -> Optional[str]:
        until_s = self._clock() + WAKE_S
        failed: Dict[str, str] = {}
        while True:
            snapshot = observe(self._root, self._nvml, pause=self._pause)
            vfs = {gpu["pci"]: count_vfs(self._root, gpu["pci"]) for gpu in snapshot["gpus"]}
            now = lazy.wake(snapshot, lazy.of_vm(snapshot["ledger"] or [], domain, named=True), vfs, failed)
            if now.why is None or now.lasts or self._clock() >= until_s:
                return now.why
            for step in now.steps:
                try:
                    self._executor.execute(step, _STEP_S)
                except Refusal as refusal:
                    failed[name_of(step)] = refusal.message
                    break
                failed[name_of(step)] = "without effect: {}".format(step["verb"])
            if not now.steps:
                self._pause(_PAUSE_S)

    def _put_to_sleep(self, domain: ElementTree.Element) -> Optional[str]:
        until_s = self._clock() + SLEEP_S
        snapshot = observe(self._root, self._nvml, pause=self._pause)
        stays: List[str] = []
        for step in lazy.put_to_sleep(snapshot, lazy.of_vm(snapshot["ledger"] or [], domain, named=False)):
            while True:
                try:
                    self._executor.execute(step, _STEP_S)
                except Refusal as refusal:
                    if refusal.kind == NOT_YET and self._clock() < until_s:
                        self._pause(_PAUSE_S)
                        continue
                    stays.append(refusal.message)
                break
        return "; ".join(stays) or None
