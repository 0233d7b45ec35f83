"""The program of the unit that `host install --restore` leaves: it restores this host's ledger after a boot.

It takes the plan's steps by the executor that controllers use, looks again, and so on until all is there, or nothing
has come for ROUND_TIMEOUT_S. The driver is ready bit by bit: nvidia-vgpud offers types some seconds after its unit has
started, sriov-manage ends before its functions are there, an NVML client holds the unbindLock for a moment. So what is
refused is tried again, TRIES times in all. If it is killed and run again, it goes on where it was.
"""

import json
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Set, cast

from .. import dispatcher
from ..facts.boot import boot_id
from ..facts.facts import observe
from ..facts.nvml import load_binding
from ..facts.pci import count_vfs
from ..fields import reader
from ..files import Root, Unknowns, read_all
from ..ledger.ledger import read_ledger
from ..ledger.lock import HostLock
from ..ledger.writer import write_file
from ..libvirt.service import Libvirt
from ..protocol.ledger import LEAVING
from ..protocol.restored import RESTORED_PATH, RestoredFact, RestoredVgpuFact
from ..protocol.snapshot import Snapshot
from ..protocol.steps import CREATE_VGPU, Step
from ..refusal import Refusal
from ..steps.executor import Executor, at_nothing
from ..steps.mig_gpu import open_gpu
from ..timing import of_host
from .plan import Key, Plan, RestoreStep, key_of, name_of, plan, wanted

BY = "vgpumgr restore, after the boot"
ROUND_TIMEOUT_S = 90.0
TRIES = 3
_PAUSE_S = 2.0


def main() -> NoReturn:
    """The dispatcher's entry point. The exit status is 1 unless everything is there."""
    fact = Restore(Root()).run()
    for line in lines(fact):
        sys.stdout.write(line + "\n")
    sys.exit(1 if fact["problem"] or any(vgpu["missing"] for vgpu in fact["vgpus"]) else 0)


def lines(fact: RestoredFact) -> List[str]:
    """What was done, for the journal."""
    if fact["problem"]:
        return [fact["problem"]]
    return [
        "{vm_name} slot {slot}: {type_name} on {parent} ".format(**vgpu)
        + ("is missing: {}".format(vgpu["missing"]) if vgpu["missing"] else "is there")
        + ("; {}".format(vgpu["note"]) if vgpu["note"] else "")
        for vgpu in fact["vgpus"]
    ] or ["the ledger has no vGPUs"]


class Restore:
    """One run on one host. Every injected part defaults to the real one, as in Server."""

    def __init__(
        self,
        root: Root,
        *,
        nvml: Callable[[], Any] = load_binding,
        write: Callable[[str, bytes], None] = write_file,
        at: Callable[[str], None] = at_nothing,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        lock_wait_s: float = 60.0,
    ) -> None:
        self._root = root
        self._nvml = nvml
        self._clock = clock
        self._pause = pause
        self._lock_wait_s = lock_wait_s
        self._executor = Executor(root, nvml, Libvirt(), write=write, at=at, timing=of_host(root))
        self._taken: "Counter[str]" = Counter()  # how often each step was taken, by its name
        self._refused: Dict[str, str] = {}  # why steps were refused or had no effect, by their names
        self._notes: Dict[Key, str] = {}

    def run(self) -> RestoredFact:
        """Restore what can be restored, and write what became of it to RESTORED_PATH."""
        fact: RestoredFact = {"boot": boot_id(self._root, Unknowns()), "at": "", "problem": None, "vgpus": []}
        lock = HostLock(self._root)
        try:
            lock.take(BY, self._lock_wait_s)
            if any(entry["state"] != LEAVING for entry in read_ledger(self._root).entries):
                fact["vgpus"] = self._restore()
        except Refusal as refusal:
            fact["problem"] = refusal.message
        finally:
            lock.give_back()
        fact["at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with suppress(OSError):  # the journal has it, too
            text = json.dumps(fact, indent=1) + "\n"
            dispatcher.write(self._root.path(RESTORED_PATH), text.encode("ascii"), 0o600)
        return fact

    def _restore(self) -> List[RestoredVgpuFact]:
        count, last_s = -1, self._clock()
        while True:
            snapshot = observe(self._root, self._nvml, pause=self._pause)
            vfs = self._count_vfs(snapshot)
            failed = {name: why for name, why in self._refused.items() if self._taken[name] >= TRIES}
            now = plan(snapshot, vfs, failed)
            if len(now.there) > count:
                count, last_s = len(now.there), self._clock()
            if not now.waits or self._clock() - last_s > ROUND_TIMEOUT_S:
                return self._rows(snapshot, plan(snapshot, vfs, self._refused))
            if self._take(now.steps):
                last_s = self._clock()
            else:
                self._open_unread(snapshot)
                self._pause(_PAUSE_S)

    def _take(self, steps: Sequence[RestoreStep]) -> bool:
        """Take the steps, those of a GPU until one of them is refused. Returns whether any was taken.

        Each has the whole time: a GPU that is waited for in vain takes none from the next one.
        """
        taken = False
        stopped: Set[str] = set()
        for step in steps:
            if step["gpu"] in stopped:
                continue
            name = name_of(step)
            self._taken[name] += 1
            try:
                done = self._executor.execute(step, ROUND_TIMEOUT_S)
            except Refusal as refusal:
                stopped.add(step["gpu"])
                self._refused[name] = refusal.message
            else:
                taken = True
                self._refused[name] = "without effect: {}".format(step["verb"])
                if done["note"] and step["verb"] == CREATE_VGPU:
                    self._notes[key_of(cast("Step", step))] = done["note"]
        return taken

    def _count_vfs(self, snapshot: Snapshot) -> Dict[str, int]:
        counts: Dict[str, int] = {}
        for gpu in snapshot["gpus"]:
            with suppress(OSError):
                counts[gpu["pci"]] = count_vfs(self._root, gpu["pci"])
        return counts

    def _open_unread(self, snapshot: Snapshot) -> None:
        """The driver shows a GPU's UUID once the GPU was opened, which nobody may have done since it was bound."""
        for gpu in snapshot["gpus"]:
            if gpu["uuid"] is None:
                with suppress(Refusal, ImportError), open_gpu(self._nvml, gpu["pci"]):
                    pass

    def _rows(self, snapshot: Snapshot, last: Plan) -> List[RestoredVgpuFact]:
        return [
            {
                "vm_name": entry["vm_name"],
                "slot": entry["slot"],
                "parent": entry["parent"],
                "type_name": entry["type_name"],
                "missing": last.lost.get(key_of(entry)) or last.waits.get(key_of(entry)),
                "note": self._notes.get(key_of(entry)),
            }
            for entry in wanted(snapshot)
        ]


def read_last(root: Root) -> Optional[RestoredFact]:
    """The run of this boot; None if there was none, or its file cannot be read."""
    try:
        fact = _read_fact(json.loads(read_all(root.path(RESTORED_PATH)).decode("utf-8")))
        fact["vgpus"] = [_read_vgpu(vgpu) for vgpu in fact["vgpus"]]
    except (OSError, ValueError, RecursionError, Refusal):
        return None
    return fact if fact["boot"] == boot_id(root, Unknowns()) else None


_read_vgpu = reader(RestoredVgpuFact, "vgpu", {})
_read_fact = reader(RestoredFact, "restored", {"vgpus": (lambda value: isinstance(value, list), "a list")})
