"""Executing one step: ledger first, hardware second, read back third, ledger last.

Killed between any two of these, what is on disk says what may be on the hardware, and the same step run again gets to
the same end. Where the host is not as the step expects it, nothing is written at all.
"""

from typing import Any, Callable, Dict, NamedTuple, NoReturn, Optional, Tuple

from .facts import boot_id
from .files import Root, Unknowns
from .hardware import Absent, Write, changed, check_place, describe, hardware_for, holders, is_what_step_means
from .ledger import Entry, Ledger, entry_fact, identity, read_ledger, write_ledger
from .protocol import DEADLINE, IN_USE, INTERNAL, SYSFS_REFUSED, Step, VgpuFact
from .refusal import Refusal, reason
from .step import CREATE, PRESENT, SAME, entry_of, identity_of, parse_step
from .vfio import Unreadable
from .writer import Writer


def at_nothing(point: str) -> None:
    """The default for who watches a step's points: nobody."""
    del point


class _Outcome(NamedTuple):
    """How a write went: the errno's name where it was refused, and what the hardware shows now."""

    refused: Optional[str]
    found: Optional[VgpuFact]


class Executor:
    """Executes steps on one host. The caller holds the host's exclusive lock."""

    def __init__(self, root: Root, *, write: Callable[[str, bytes], None], at: Callable[[str], None]) -> None:
        self._root = root
        self._writer = Writer(write)
        self._at = at

    def execute(self, data: Any, deadline_s: float) -> Dict[str, Any]:
        """Carry out one step. Raises Refusal."""
        step = parse_step(data)
        if step["verb"] == CREATE:
            return self._create(step, deadline_s)
        return self._destroy(step, deadline_s)

    def _create(self, step: Step, deadline_s: float) -> Dict[str, Any]:
        ledger = read_ledger(self._root)
        try:
            check_place(self._root, step)
            found = self._find(step)
        except Absent as error:
            raise changed("{} VF {}".format(step["gpu_pci"], step["vf"]), "no such function") from error
        _check_reservations(ledger, step)
        if step["expect"] == SAME:
            if not is_what_step_means(found, step):
                raise changed("{} there already".format(step["type_name"]), describe(found))
            entry = self._enter(ledger, step, "made")
            return _answer(entry, found, None)
        if found is not None:
            raise changed("nothing on {}".format(step["parent"]), describe(found))
        path, text = hardware_for(self._root, step).create()
        self._refuse_pending(path)
        self._enter(ledger, step, "planned")
        self._at("planned")
        outcome = self._write(step, (path, text), deadline_s)
        if not is_what_step_means(outcome.found, step):
            if outcome.found is None:
                write_ledger(self._root, ledger)
            raise _refused(path, outcome)
        entry = self._enter(ledger, step, "made")
        self._at("made")
        note = "the write answered {}, and yet it is there".format(outcome.refused) if outcome.refused else None
        return _answer(entry, outcome.found, note)

    def _destroy(self, step: Step, deadline_s: float) -> Dict[str, Any]:
        ledger = read_ledger(self._root)
        _check_ours(ledger, step)
        try:
            check_place(self._root, step)
            found = self._find(step)
        except Absent:
            found = None
        if step["expect"] != PRESENT:
            if found is not None and (step["uuid"] is None or found["uuid"] == step["uuid"]):
                raise changed("nothing on {}".format(step["parent"]), describe(found))
            self._take_out(ledger, step)
            return _answer(None, None, None)
        if found is None or not is_what_step_means(found, step):
            raise changed("{} on {}".format(step["type_name"], step["parent"]), describe(found))
        path, text = hardware_for(self._root, step).destroy()
        self._refuse_pending(path)
        self._refuse_held(step, found)
        self._enter(ledger, step, "leaving")
        self._at("leaving")
        try:
            # Again, as late as can be: a VM may have been started while the ledger was on its way to the disk.
            self._refuse_held(step, found)
        except Refusal:
            write_ledger(self._root, ledger)
            raise
        outcome = self._write(step, (path, text), deadline_s)
        if outcome.found is not None:
            if is_what_step_means(outcome.found, step):
                write_ledger(self._root, ledger)
            raise _refused(path, outcome)
        self._take_out(ledger, step)
        self._at("out")
        note = "the write answered {}, and yet it is gone".format(outcome.refused) if outcome.refused else None
        return _answer(None, None, note)

    def _find(self, step: Step) -> Optional[VgpuFact]:
        try:
            return hardware_for(self._root, step).find()
        except (OSError, ValueError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            raise changed("a readable {}".format(step["parent"]), why) from error

    def _write(self, step: Step, write: Write, deadline_s: float) -> _Outcome:
        path, text = write
        try:
            refused = self._writer.run(self._root.path(path), text, deadline_s)
        except TimeoutError as error:
            _deadline(path, "did not return in {:g} s".format(deadline_s), error)
        self._at("written")
        try:
            found = hardware_for(self._root, step).find()
        except Absent:
            found = None
        except (OSError, ValueError) as error:
            message = "{}: after the write ({}) the hardware cannot be read: {}".format(path, refused or "taken", error)
            raise Refusal(SYSFS_REFUSED, message, path=path, errno=refused or "EIO", read_back=None) from error
        self._at("read-back")
        return _Outcome(refused=refused, found=found)

    def _refuse_pending(self, path: str) -> None:
        if self._writer.pending(self._root.path(path)):
            _deadline(path, "an earlier write has still not returned", None)

    def _refuse_held(self, step: Step, found: VgpuFact) -> None:
        try:
            open_by = holders(self._root, found)
        except Unreadable as error:
            open_by = ["cannot tell: {}".format(error)]
        if open_by:
            message = "{} ({} slot {}) is in use".format(_place(step), step["vm_name"], step["slot"])
            raise Refusal(IN_USE, message, vm=step["vm_name"], holders=open_by)

    def _enter(self, ledger: Ledger, step: Step, state: str) -> Entry:
        """Put the step's entry on disk in this state, in the place of what it supersedes."""
        boot = boot_id(self._root, Unknowns())
        if not boot:
            raise Refusal(INTERNAL, "/proc/sys/kernel/random/boot_id cannot be read")
        entry = entry_of(step, boot=boot, state=state)
        entries = []
        placed = False
        for each in ledger.entries:
            if identity(each) == identity_of(step):
                entries.append({**each, **entry})  # keys that a later version put there stay
                placed = True
            elif not _superseded(each, step):
                entries.append(each)
        if not placed:
            entries.append(entry)
        write_ledger(self._root, ledger.with_entries(tuple(entries)))
        return entry

    def _take_out(self, ledger: Ledger, step: Step) -> None:
        left = tuple(each for each in ledger.entries if identity(each) != identity_of(step))
        write_ledger(self._root, ledger.with_entries(left))


def _same_place(entry: Entry, step: Step) -> bool:
    """Whether the entry reserves what the step is about: its VF, or its mdev."""
    on_vf = step["vf"] is not None and (entry["gpu_uuid"], entry["vf_index"]) == (step["gpu"], step["vf"])
    return on_vf or (step["uuid"] is not None and entry["uuid"] == step["uuid"])


def _superseded(entry: Entry, step: Step) -> bool:
    """An older generation of the same slot on the very same place: two entries for one vGPU would be one too many."""
    return (entry["vm_uuid"], entry["slot"]) == (step["vm"], step["slot"]) and _same_place(entry, step)


def _check_reservations(ledger: Ledger, step: Step) -> None:
    """No other entry has the place, and the step's own entry is not for another one."""
    for entry in ledger.entries:
        if identity(entry) == identity_of(step):
            if not _is_entry_for(entry, step):
                raise changed(_place(step), "its entry is for {} ({})".format(entry["parent"], entry["type_name"]))
            if entry["state"] == "leaving":
                raise changed("no detach under way", "its entry is leaving")
        elif _same_place(entry, step) and not _superseded(entry, step):
            raise changed(
                "no entry for {}".format(step["parent"]),
                "one for {} slot {}".format(entry["vm_name"], entry["slot"]),
            )


def _check_ours(ledger: Ledger, step: Step) -> None:
    for entry in ledger.entries:
        if identity(entry) == identity_of(step):
            if not _is_entry_for(entry, step):
                raise changed(_place(step), "its entry is for {} ({})".format(entry["parent"], entry["type_name"]))
            return
    raise changed("an entry for {} slot {}".format(step["vm_name"], step["slot"]), "no entry")


def _is_entry_for(entry: Entry, step: Step) -> bool:
    """By the GPU's UUID and the VF's index: addresses may change over a boot."""
    mine: Tuple[Any, ...] = (step["gpu"], step["vf"], step["uuid"], step["type_id"])
    return (entry["gpu_uuid"], entry["vf_index"], entry["uuid"], entry["type_id"]) == mine


def _place(step: Step) -> str:
    return "{} on {}".format(step["type_name"], step["parent"])


def _refused(path: str, outcome: _Outcome) -> Refusal:
    word = outcome.refused or "NONE"
    how = "refused with {}".format(word) if outcome.refused else "accepted, but without effect"
    message = "{}: {}; read back: {}".format(path, how, describe(outcome.found))
    return Refusal(SYSFS_REFUSED, message, path=path, errno=word, read_back=outcome.found)


def _deadline(path: str, why: str, error: Optional[Exception]) -> NoReturn:
    raise Refusal(DEADLINE, "{}: {}; it may still happen".format(path, why), path=path) from error


def _answer(entry: Optional[Entry], vgpu: Optional[VgpuFact], note: Optional[str]) -> Dict[str, Any]:
    return {"entry": None if entry is None else entry_fact(entry), "vgpu": vgpu, "note": note, "scheduler": None}
