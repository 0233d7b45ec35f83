"""The program of the unit that `host install --restore` leaves: it restores this host's ledger after a boot.

It takes the plan's steps by the executor that controllers use, looks again, and so on until all is there, or nothing
has come for ROUND_TIMEOUT_S. The driver is ready bit by bit: nvidia-vgpud offers types some seconds after its unit has
started, sriov-manage ends before its functions are there, an NVML client holds the unbindLock for a moment. So what is
refused is tried again, TRIES times in all, and the GPUs take turns. Each look writes which vGPUs are there and which
are not. If the program is killed and run again, it goes on where it was.
"""

import json
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, cast

from .. import dispatcher
from ..facts.boot import boot_id
from ..facts.facts import observe
from ..facts.nvml import load_binding
from ..facts.pci import count_vfs
from ..files import Root, Unknowns
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
RUN_S = 720.0  # of a whole run, once it has the lock; systemd ends it after 15 minutes
TRIES = 3
_LEAST_S = 10.0  # for a step, near the end of the run
_RUNNING = "the restore has not ended"
_PAUSE_S = 2.0


def main() -> NoReturn:
    """The dispatcher's entry point. The exit status is 1 unless everything is there."""
    fact = Restore(Root()).run()
    for line in lines(fact):
        sys.stdout.write(line + "\n")
    sys.exit(1 if fact["problem"] or any(vgpu["missing"] for vgpu in fact["vgpus"]) else 0)


def lines(fact: RestoredFact) -> List[str]:
    """What was done, for the journal."""
    problem = [fact["problem"]] if fact["problem"] else []
    return [*problem, *map(_line, fact["vgpus"])] or ["the ledger has no vGPUs"]


def _line(vgpu: RestoredVgpuFact) -> str:
    return (
        "{vm_name} slot {slot}: {type_name} on {parent} ".format(**vgpu)
        + ("is missing: {}".format(vgpu["missing"]) if vgpu["missing"] else "is there")
        + ("; {}".format(vgpu["note"]) if vgpu["note"] else "")
    )


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
        self._turns: "Counter[str]" = Counter()  # of each GPU
        self._tries: "Counter[str]" = Counter()  # of each step, by its name
        self._refused: Dict[str, str] = {}  # why steps were refused or had no effect, by their names
        self._notes: Dict[Key, str] = {}
        self._fact: RestoredFact = {"boot": boot_id(root, Unknowns()), "at": "", "problem": None, "vgpus": []}

    def run(self) -> RestoredFact:
        """Restore what can be restored. What has become of it is in RESTORED_PATH all the time."""
        self._write(problem=_RUNNING)
        lock = HostLock(self._root)
        try:
            lock.take(BY, self._lock_wait_s)
            needed = any(
                entry["state"] != LEAVING and not entry.get("lazy") for entry in read_ledger(self._root).entries
            )
            self._write(problem=self._restore() if needed else None)
        except Refusal as refusal:
            self._write(problem=refusal.message)
        finally:
            lock.give_back()
        return self._fact

    def _write(self, *, problem: Optional[str]) -> None:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._fact = {**self._fact, "at": at, "problem": problem}
        with suppress(OSError):  # the journal has it, too
            text = json.dumps(self._fact, indent=1) + "\n"
            dispatcher.write(self._root.path(RESTORED_PATH), text.encode("ascii"), 0o600)

    def _restore(self) -> Optional[str]:
        """Take steps until all vGPUs are there or nothing comes. Returns why not all was tried; None if it was."""
        last_s = self._clock()
        until_s = last_s + RUN_S
        while True:
            snapshot = observe(self._root, self._nvml, pause=self._pause)
            vfs = self._count_vfs(snapshot)
            now = plan(snapshot, vfs, {name: why for name, why in self._refused.items() if self._tries[name] >= TRIES})
            self._say(snapshot, plan(snapshot, vfs, self._refused))
            if now.waits and self._clock() >= until_s:
                return "the restore ended after {:g} minutes, and not all was tried".format(RUN_S / 60)
            owed = any(self._turns[step["gpu"]] == 0 for step in now.steps)
            if not now.waits or (not owed and self._clock() - last_s > ROUND_TIMEOUT_S):
                return None
            if now.steps and self._take(now.steps, until_s):
                last_s = self._clock()
            else:
                self._open_unread(snapshot)
                self._pause(_PAUSE_S)

    def _take(self, steps: Sequence[RestoreStep], until_s: float) -> bool:
        """Give the next GPU its turn: take its steps until one is refused. Returns whether any was taken.

        Each GPU has its share of the time: a GPU that is waited for in vain takes none from the others.
        """
        gpus = sorted({step["gpu"] for step in steps})
        gpu = min(gpus, key=self._turns.__getitem__)
        self._turns[gpu] += 1
        taken = False
        for step in (one for one in steps if one["gpu"] == gpu):
            name = name_of(step)
            self._tries[name] += 1
            share_s = (until_s - self._clock()) / len(gpus)
            try:
                done = self._executor.execute(step, max(_LEAST_S, min(ROUND_TIMEOUT_S, share_s)))
            except Refusal as refusal:
                self._refused[name] = refusal.message
                break
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
        """Open each GPU whose UUID is unknown: the driver shows it only once the GPU was opened after it was bound."""
        for gpu in snapshot["gpus"]:
            if gpu["uuid"] is None:
                with suppress(Refusal, ImportError), open_gpu(self._nvml, gpu["pci"]):
                    pass

    def _say(self, snapshot: Snapshot, now: Plan) -> None:
        vgpus: List[RestoredVgpuFact] = [
            {
                "vm_name": entry["vm_name"],
                "slot": entry["slot"],
                "parent": entry["parent"],
                "type_name": entry["type_name"],
                "missing": now.lost.get(key_of(entry)) or now.waits.get(key_of(entry)),
                "note": self._notes.get(key_of(entry)),
            }
            for entry in wanted(snapshot)
        ]
        if vgpus != self._fact["vgpus"]:
            self._fact["vgpus"] = vgpus
            self._write(problem=_RUNNING)
