"""The steps of vGPUs: ledger first, hardware second, read back third, ledger last.

If the program is killed between any two of these, the ledger says what may be on the hardware, and running the step
again gives the same result. Nothing is written if the host is not as the step expects, or if an earlier write to the
same GPU has not returned (blocked_write.py). The first ledger write also records the process that will write to /sys.
"""

from contextlib import contextmanager
from typing import Callable, Iterator, List, NamedTuple, Optional, Sequence

from ..facts.boot import boot_id
from ..files import Root, Unknowns, read_all
from ..ledger.blocked_write import open_ledger, record_of, started
from ..ledger.ledger import PARAMS, UNWRITTEN, Entry, Ledger, identity, write_ledger
from ..ledger.writer import Writer, Writing
from ..protocol.gpu import VgpuFact
from ..protocol.ledger import ASLEEP, LEAVING, MADE, PLANNED, EntryState, OurVgpu
from ..protocol.restored import HOOK_PATH
from ..protocol.session import DEADLINE, INTERNAL, LEDGER_UNWRITABLE, NO_HOOK, SYSFS_REFUSED
from ..protocol.steps import PRESENT, SAME, Step
from ..refusal import Refusal, reason
from .guard import RemovalGuard
from .hardware import (
    Absent,
    Write,
    changed,
    check_left_nothing,
    check_place,
    describe,
    file_of,
    hardware_for,
    is_what_step_means,
)
from .meant_instance import Meant, MeantInstances
from .params import FILE as PARAMS_FILE
from .params import KeptParams, text_for
from .placing import FILE, elsewhere, place_text, where_it_lies
from .reservations import check_ours, check_reservations, place_of, superseded

_NO_ANSWER = "no answer"


class _Begun(NamedTuple):
    """A write that waits for its go-ahead, and the ledger that records it."""

    path: str
    writing: Writing
    ledger: Ledger


class _Outcome(NamedTuple):
    """The outcome of a write: the errno's name if it was refused, and what the hardware shows now."""

    refused: Optional[str]
    found: Optional[VgpuFact]


class VgpuSteps:
    """Creates and removes vGPUs. The caller holds the host's exclusive lock; every method may raise Refusal.

    What create, destroy and evacuate return, if anything, is a note for the user.
    """

    def __init__(
        self,
        root: Root,
        guard: RemovalGuard,
        instances: MeantInstances,
        *,
        write: Callable[[str, bytes], None],
        at: Callable[[str], None],
    ) -> None:
        self._root = root
        self._guard = guard
        self._instances = instances
        self._params = KeptParams(root, guard)
        self._writer = Writer(write)
        self._at = at

    def create(self, step: Step, deadline_s: float) -> Optional[str]:
        """Create the vGPU, again if it was evacuated or lost in a reboot; or enter the existing one as ours."""
        ledger = self._open(step)
        try:
            check_place(self._root, step)
            vgpu = self._find(step)
        except Absent as absent:
            raise absent.refusal() from absent
        check_reservations(ledger, step)
        if step["expect"] == SAME:
            if not is_what_step_means(vgpu, step):
                raise changed("{} there already".format(step["type_name"]), describe(vgpu))
            meant = self._instances.find(ledger, step, room=False)
            self._refuse_elsewhere(ledger, step, vgpu, meant, deadline_s)
            return self._entered(ledger, step, vgpu, deadline_s)
        if vgpu is not None:
            raise changed("nothing on {}".format(step["parent"]), describe(vgpu))
        meant = self._instances.find(ledger, step, room=True)
        params = self._params.of_new(ledger, step)
        with self._begin(ledger, step, hardware_for(self._root, step).create()) as begun:
            self._enter(begun.ledger, step, PLANNED, params)
            self._at("planned")
            outcome = self._write(step, begun, deadline_s)
        if not is_what_step_means(outcome.found, step):
            if outcome.found is None:
                write_ledger(self._root, ledger)
            raise _refused(begun.path, outcome)
        self._refuse_elsewhere(ledger, step, outcome.found, meant, deadline_s)
        notes = [_unread(step, outcome.found), self._move(step, outcome.found, deadline_s)]
        refused = self._give(step, params, deadline_s)
        is_new = not any(identity(each) == identity(step) for each in ledger.entries)
        if step["param"] and is_new and outcome.found and refused not in (None, _NO_ANSWER):
            self._remove_again(ledger, self._open(step), step, outcome.found, deadline_s)
            raise Refusal(
                SYSFS_REFUSED,
                _unwritten(step, params, refused),
                path=file_of(step, PARAMS_FILE),
                errno=refused,
                read_back=None,
            )
        with _after_write():
            notes.append(self._made(ledger, step, params, refused))
        self._at("made")
        if outcome.refused:
            notes.append("the write failed with {}, yet the vGPU exists".format(outcome.refused))
        return _joined(notes)

    def _refuse_elsewhere(
        self, before: Ledger, step: Step, vgpu: Optional[VgpuFact], meant: Optional[Meant], deadline_s: float
    ) -> None:
        """Refuse if the driver put the vGPU into another GPU instance than the step's.

        A vGPU that was just created, or whose creation was interrupted, is removed; the ledger is then as `before`.
        """
        why = None if vgpu is None else self._instances.why_elsewhere(step, meant, vgpu)
        if vgpu is None or why is None:
            return
        ledger = self._open(step)
        if any(identity(each) == identity(step) and each["state"] == PLANNED for each in ledger.entries):
            self._remove_again(before, ledger, step, vgpu, deadline_s)
        raise why

    def _remove_again(self, before: Ledger, ledger: Ledger, step: Step, vgpu: VgpuFact, deadline_s: float) -> None:
        """Remove the vGPU that this step created. The ledger is then as `before`."""
        self._guard.refuse_by_now(step, vgpu)
        with self._begin(ledger, step, hardware_for(self._root, step).destroy(), vgpu) as begun:
            write_ledger(self._root, begun.ledger)
            self._at("elsewhere")
            outcome = self._write(step, begun, deadline_s)
        if outcome.found is not None:
            raise _refused(begun.path, outcome)
        with _after_write():
            write_ledger(self._root, before)

    def _entered(self, ledger: Ledger, step: Step, vgpu: Optional[VgpuFact], deadline_s: float) -> Optional[str]:
        """Enter an existing vGPU as made. If its creation was interrupted, first give it its place and parameters.

        A vGPU that may be in use keeps its place.
        """
        notes: List[Optional[str]] = []
        params = ledger.params_of(identity(step))
        if vgpu is not None and any(
            identity(each) == identity(step) and each["state"] == PLANNED for each in ledger.entries
        ):
            try:
                if elsewhere(step, vgpu):
                    self._guard.refuse_by_now(step, vgpu)
                notes.append(self._move(step, vgpu, deadline_s))
            except Refusal as refusal:
                notes.append(where_it_lies(step, vgpu, refusal.message))
            return _joined([*notes, self._made(ledger, step, params, self._give(step, params, deadline_s))])
        self._enter(ledger, step, MADE, params)
        return None

    def _move(self, step: Step, vgpu: Optional[VgpuFact], deadline_s: float) -> Optional[str]:
        """Move a new vGPU to the step's place. Returns a note if it lies elsewhere then: the driver decides."""
        if vgpu is None or not elsewhere(step, vgpu):
            return None
        with self._writer.ready(self._root.path(file_of(step, FILE)), place_text(step)) as writing:
            try:
                refused = writing.run(deadline_s)
            except TimeoutError:
                refused = _NO_ANSWER
        self._at("moved")
        now = self._find(step) or vgpu
        return where_it_lies(step, now, refused or "accepted, but without effect") if elsewhere(step, now) else None

    def destroy(self, step: Step, deadline_s: float) -> Optional[str]:
        """Remove the vGPU and its entry."""
        ledger = self._open(step)
        check_ours(ledger, step)
        try:
            check_place(self._root, step)
            vgpu = self._find(step)
        except Absent as absent:
            if step["expect"] == PRESENT:
                raise absent.refusal() from absent
            check_left_nothing(self._root, step)
            vgpu = None
        if step["expect"] != PRESENT:
            if vgpu is not None and (step["uuid"] is None or vgpu["uuid"] == step["uuid"]):
                raise changed("nothing on {}".format(step["parent"]), describe(vgpu))
            self._take_out(ledger, step, ledger.params_of(identity(step)))
            return None
        if vgpu is None or not is_what_step_means(vgpu, step):
            raise changed("{} on {}".format(step["type_name"], step["parent"]), describe(vgpu))
        self._guard.refuse(step, vgpu)
        params = self._params.of_leaving(ledger, step)
        with self._begin(ledger, step, hardware_for(self._root, step).destroy(), vgpu) as begun:
            self._enter(begun.ledger, step, LEAVING, params)
            self._at("leaving")
            self._refuse_held_by_now(step, vgpu, ledger)
            outcome = self._write(step, begun, deadline_s)
        if outcome.found is not None:
            if is_what_step_means(outcome.found, step):
                write_ledger(self._root, ledger)
            raise _refused(begun.path, outcome)
        with _after_write():
            self._take_out(ledger, step, params)
        self._at("out")
        return _yet_gone(outcome)

    def defer(self, step: Step) -> None:
        """Enter a vGPU that libvirt's hook makes whenever its VM starts, or give it another place until then."""
        ledger = self._open(step)
        try:
            if b"release)" not in read_all(self._root.path(HOOK_PATH)):
                raise FileNotFoundError
        except OSError as error:
            raise Refusal(NO_HOOK, "{} is not there, or an older one".format(HOOK_PATH)) from error
        try:
            check_place(self._root, step)
            vgpu = self._find(step)
        except Absent as absent:
            raise absent.refusal() from absent
        if vgpu is not None:
            raise changed("nothing on {}".format(step["parent"]), describe(vgpu))
        before = next((each for each in ledger.entries if identity(each) == identity(step)), None)
        if before is not None and not before.get("lazy"):
            raise changed("no entry for {} slot {}".format(step["vm_name"], step["slot"]), "one that is not lazy")
        others = tuple(each for each in ledger.entries if each is not before)
        check_reservations(ledger.with_entries(others), step)
        params = self._params.of_new(ledger, step)
        self._enter(ledger, step, MADE, params, boot=ASLEEP)
        self._at("deferred")

    def evacuate(self, step: Step, deadline_s: float) -> Optional[str]:
        """Remove an idle vGPU briefly: its entry stays `made`, so nothing else gets its place."""
        ledger = self._open(step)
        entry = check_ours(ledger, step)
        if entry["state"] != MADE:
            raise changed("{} made".format(place_of(step)), "its entry is {}".format(entry["state"]))
        try:
            check_place(self._root, step)
            vgpu = self._find(step)
        except Absent as absent:
            raise absent.refusal() from absent
        if vgpu is None or not is_what_step_means(vgpu, step):
            raise changed(place_of(step), describe(vgpu))
        self._guard.refuse(step, vgpu)
        before, ledger = ledger, self._with_params(ledger, step)
        with self._begin(ledger, step, hardware_for(self._root, step).destroy(), vgpu) as begun:
            write_ledger(self._root, begun.ledger)
            self._at("evacuating")
            self._refuse_held_by_now(step, vgpu, before)
            outcome = self._write(step, begun, deadline_s)
        if outcome.found is not None:
            write_ledger(self._root, before)
            raise _refused(begun.path, outcome)
        with _after_write():
            write_ledger(self._root, _asleep(ledger, step))
        self._at("evacuated")
        return _yet_gone(outcome)

    def _with_params(self, ledger: Ledger, step: Step) -> Ledger:
        """The ledger with the vGPU's parameters in its entry, which keeps them until the vGPU is back."""
        params = self._params.of_idle(ledger, step)
        entries = (_with(each, params) if identity(each) == identity(step) else each for each in ledger.entries)
        return ledger.with_entries(tuple(entries))

    def _give(self, step: Step, params: str, deadline_s: float) -> Optional[str]:
        """Give a new vGPU its parameters. Returns why the driver refused them, in a word; None if it did not."""
        if not params:
            return None
        with self._writer.ready(self._root.path(file_of(step, PARAMS_FILE)), text_for(params)) as writing:
            try:
                return writing.run(deadline_s)
            except TimeoutError:
                return _NO_ANSWER

    def _made(self, ledger: Ledger, step: Step, params: str, refused: Optional[str]) -> Optional[str]:
        """Set a new vGPU's entry to made; return a note if the driver refused its parameters."""
        self._enter(ledger, step, MADE, params, unwritten=refused is not None)
        return None if refused is None else _unwritten(step, params, refused)

    def _find(self, step: Step) -> Optional[VgpuFact]:
        try:
            return hardware_for(self._root, step).find()
        except (OSError, ValueError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
            raise changed("a readable {}".format(step["parent"]), why) from error

    def _open(self, step: Step) -> Ledger:
        return open_ledger(self._root, step["gpu_uuid"], boot_id(self._root, Unknowns()))

    @contextmanager
    def _begin(self, ledger: Ledger, step: Step, write: Write, vgpu: Optional[VgpuFact] = None) -> Iterator[_Begun]:
        """A write that waits for its go-ahead, and the ledger with its record, which must be on disk before that.

        `vgpu`: the vGPU that the write removes.
        """
        path, text = write
        with self._writer.ready(self._root.path(path), text) as writing:
            vfio = vgpu["vfio"] if vgpu is not None else ()
            record = record_of(step, path, vfio, boot=self._boot(), child=started(writing.pid))
            yield _Begun(path, writing, ledger.with_blocked_writes((*ledger.blocked_writes, record)))

    def _write(self, step: Step, begun: _Begun, deadline_s: float) -> _Outcome:
        path = begun.path
        try:
            refused = begun.writing.run(deadline_s)
        except TimeoutError as error:
            message = (
                "{}: did not return in {:g} s; it may still happen, and GPU {} takes no more writes until then".format(
                    path, deadline_s, step["gpu"]
                )
            )
            raise Refusal(DEADLINE, message, path=path) from error
        self._at("written")
        try:
            vgpu = hardware_for(self._root, step).find()
        except Absent:
            vgpu = None
        except (OSError, ValueError) as error:
            message = "{}: after the write ({}) the hardware cannot be read: {}".format(path, refused or "taken", error)
            raise Refusal(SYSFS_REFUSED, message, path=path, errno=refused or "EIO", read_back=None) from error
        self._at("read-back")
        return _Outcome(refused=refused, found=vgpu)

    def _refuse_held_by_now(self, step: Step, vgpu: VgpuFact, before: Ledger) -> None:
        """Check as late as possible: a VM may have been started while the ledger was being written to disk.

        If the vGPU is held, the ledger becomes `before` again.
        """
        try:
            self._guard.refuse_by_now(step, vgpu)
        except Refusal:
            write_ledger(self._root, before)
            raise

    def _boot(self) -> str:
        boot = boot_id(self._root, Unknowns())
        if not boot:
            raise Refusal(INTERNAL, "/proc/sys/kernel/random/boot_id cannot be read")
        return boot

    def _enter(
        self,
        ledger: Ledger,
        step: Step,
        state: EntryState,
        params: str = "",
        *,
        unwritten: bool = False,
        boot: Optional[str] = None,
    ) -> None:
        """Write the step's entry to disk in this state, replacing what it supersedes.

        With `boot`, which is ASLEEP then, the entry is a lazy one. An entry of the other framework (mdev or VF) stays
        until its vGPU is destroyed: without it, nothing could be undone.
        """
        entry = _entry_of(step, boot=boot or self._boot(), state=state)
        if boot is not None:
            entry["lazy"] = True
        entries = []
        placed = False
        base = ledger.without_freed(identity(step))
        for each in ledger.entries:
            if identity(each) == identity(step):
                entries.append(
                    _with({**each, **entry}, params, unwritten=unwritten)
                )  # keys of a later version are kept
                placed = True
            elif superseded(each, step) and (each["uuid"] is None) == (step["uuid"] is None):
                base = base.with_freed(identity(each))
            else:
                entries.append(each)
        if not placed:
            entries.append(_with(entry, params, unwritten=unwritten))
        write_ledger(self._root, base.with_entries(tuple(entries)))

    def _take_out(self, ledger: Ledger, step: Step, params: str = "") -> None:
        entries = tuple(each for each in ledger.entries if identity(each) != identity(step))
        write_ledger(self._root, ledger.with_entries(entries).with_freed(identity(step), params))


def _entry_of(step: Step, *, boot: str, state: EntryState) -> Entry:
    """The ledger's entry for the step's vGPU."""
    keys = {key: value for key, value in step.items() if key in OurVgpu.__annotations__}
    if step["mig"] is None:
        del keys["mig"]  # an older vgpumgr reads the file as long as nothing in it is MIG-backed
    return {**keys, "boot": boot, "state": state}


def _asleep(ledger: Ledger, step: Step) -> Ledger:
    """The ledger after the step's vGPU was removed. If its entry is lazy, it is ASLEEP: no vGPU there is ours then."""
    entries = (
        {**each, "boot": ASLEEP} if each.get("lazy") and identity(each) == identity(step) else each
        for each in ledger.entries
    )
    return ledger.with_entries(tuple(entries))


def _with(entry: Entry, params: str, *, unwritten: bool = False) -> Entry:
    """An entry with the vGPU's plugin parameters; `unwritten`: the driver does not have them."""
    fields = {key: entry[key] for key in entry if key not in (PARAMS, UNWRITTEN)}
    return {**fields, **({PARAMS: params} if params else {}), **({UNWRITTEN: True} if params and unwritten else {})}


@contextmanager
def _after_write() -> Iterator[None]:
    """A block that writes the ledger after the hardware. Its refusal says so, and the next run resumes there."""
    try:
        yield
    except Refusal as refusal:
        if refusal.kind == LEDGER_UNWRITABLE:
            refusal.fields["written"] = True
        raise


def _refused(path: str, outcome: _Outcome) -> Refusal:
    word = outcome.refused or "NONE"
    how = "refused with {}".format(word) if outcome.refused else "accepted, but without effect"
    message = "{}: {}; read back: {}".format(path, how, describe(outcome.found))
    return Refusal(SYSFS_REFUSED, message, path=path, errno=word, read_back=outcome.found)


def _unwritten(step: Step, params: str, refused: str) -> str:
    return "{} of {} slot {} could not be written ({}): {}".format(
        file_of(step, PARAMS_FILE), step["vm_name"], step["slot"], refused, params
    )


def _joined(notes: Sequence[Optional[str]]) -> Optional[str]:
    return "; ".join(note for note in notes if note is not None) or None


def _unread(step: Step, vgpu: Optional[VgpuFact]) -> Optional[str]:
    """The note if the driver does not say in which GPU instance a MIG-backed vGPU is."""
    if step["mig"] is None or vgpu is None or vgpu["gpu_instance"] is not None:
        return None
    return "{} of {} slot {}: the driver does not say which GPU instance it is in".format(
        step["type_name"], step["vm_name"], step["slot"]
    )


def _yet_gone(outcome: _Outcome) -> Optional[str]:
    return "the write failed with {}, yet the vGPU is gone".format(outcome.refused) if outcome.refused else None
