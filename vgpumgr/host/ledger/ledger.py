"""The ledger: this host's vGPUs and GPU instances of ours, the writes under way, the cordons and reservations.

It is written before the hardware is touched.

An existing file that cannot be understood is never overwritten: it may be another version's, and it is the only record
of ownership. Keys that this version does not know are kept.
"""

import errno
import json
import os
import time
from typing import (
    Any,
    ClassVar,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypedDict,
    cast,
)

from ..fields import Checks, Shape, checks_of, is_count, is_text
from ..files import Root, read_all, sync_folder, write_whole
from ..protocol.ledger import (
    LEAVING,
    LEDGER_PATH,
    LEDGER_VERSION,
    LEDGER_VERSION_WITHOUT_CORDONED_VFS,
    LEDGER_VERSION_WITHOUT_CORDONS,
    LEDGER_VERSION_WITHOUT_INSTANCES,
    LEDGER_VERSION_WITHOUT_LAZIES,
    LEDGER_VERSION_WITHOUT_RESERVATIONS,
    MADE,
    PLANNED,
    BlockedWriteFact,
    CordonFact,
    CordonText,
    FreedFact,
    InstanceEntry,
    LedgerEntry,
    OurVgpu,
    ReservationFact,
    ReservationRow,
    ReservationTerms,
    UnwritableFact,
)
from ..protocol.mig import MigPlace
from ..protocol.session import LEDGER_BROKEN, LEDGER_UNWRITABLE
from ..refusal import Refusal, errno_name, reason

STATES = (PLANNED, MADE, LEAVING)
PARAMS = "vgpu_params"  # in an entry or a freed row: the vGPU's plugin parameters, as they were last written or read
UNWRITTEN = "vgpu_params_unwritten"  # in an entry: the driver refused them
_MOST_FREED = 500  # the newest ones; older ones are forgotten
_ROOM = 128 * 1024  # the space that must be free: a ledger of a hundred entries, and as many freed ones as it can hold

_VERSIONS = (
    LEDGER_VERSION,
    LEDGER_VERSION_WITHOUT_LAZIES,
    LEDGER_VERSION_WITHOUT_CORDONED_VFS,
    LEDGER_VERSION_WITHOUT_RESERVATIONS,
    LEDGER_VERSION_WITHOUT_INSTANCES,
    LEDGER_VERSION_WITHOUT_CORDONS,
)

Entry = Dict[str, Any]  # a LedgerEntry, plus any keys that a later version added
Record = Dict[str, Any]  # a BlockedWriteFact, likewise


class Ledger(NamedTuple):
    """The file's whole document, entries in order of creation. It may lack each of the lists below.

    `blocked_writes`: the writes that began but were not seen to return, under way or not (blocked_write.py).
    `freed`: the vGPUs that were removed on purpose, oldest first, at most the newest 500. A claim that names one of
    them is out of date; for any other claim without an entry, the ledger may have been lost.
    `cordons`: at most one of the host, of each GPU and of each function. `reservations`: the places kept for vGPUs;
    the next write drops those that have ended. `instances`: our GPU instances, by GPU, profile and start.
    `without_vfs`: the GPUs whose virtual functions this program removed, each with the boot.
    `on_disk`: False if there was no file to read.
    """

    document: Dict[str, Any]
    entries: Tuple[Entry, ...]
    blocked_writes: Tuple[Record, ...] = ()
    on_disk: bool = True
    freed: Tuple[Record, ...] = ()
    cordons: Tuple[Record, ...] = ()
    instances: Tuple[Record, ...] = ()
    without_vfs: Tuple[Record, ...] = ()
    reservations: Tuple[Record, ...] = ()

    def instance_of(self, place: Mapping[str, Any]) -> Optional[Record]:
        """The entry of the instance that a step or another entry names; None if that is not ours."""
        return next((row for row in self.instances if instance_key(row) == instance_key(place)), None)

    def with_instance(self, entry: Record) -> "Ledger":
        """The ledger with this instance entry in place of the earlier one. Keys of later versions are kept."""
        before = self.instance_of(entry)
        if before is None:
            return self._replace(instances=(*self.instances, entry))
        return self._replace(instances=tuple({**row, **entry} if row is before else row for row in self.instances))

    def without_instances(self, gone: Sequence[Record]) -> "Ledger":
        keys = {instance_key(row) for row in gone}
        return self._replace(instances=tuple(row for row in self.instances if instance_key(row) not in keys))

    def took_vfs(self, gpu_uuid: Optional[str], boot: str) -> bool:
        """Whether this program removed a GPU's virtual functions in this boot, and has not made them again."""
        return any((row["gpu_uuid"], row["boot"]) == (gpu_uuid, boot) for row in self.without_vfs)

    def with_vfs_taken(self, gpu_uuid: str, boot: str, *, taken: bool) -> "Ledger":
        """The ledger with or without the note that this program removed a GPU's virtual functions.

        Notes of earlier boots are dropped.
        """
        others = tuple(row for row in self.without_vfs if row["gpu_uuid"] != gpu_uuid and row["boot"] == boot)
        return self._replace(without_vfs=(*others, *([{"gpu_uuid": gpu_uuid, "boot": boot}] if taken else [])))

    def cordon_of(self, place: Mapping[str, Any]) -> Optional[CordonText]:
        """The cordon of the place that a step names; None if there is none."""
        rows = [row for row in self.cordons if _cordon_key(row) == _cordon_key(place)]
        return facts_of(rows, CordonText)[0] if rows else None

    def with_cordon(self, place: Mapping[str, Any], cordon: Optional[CordonText]) -> "Ledger":
        """The ledger with this cordon of the place that a step names; with None, the place has no cordon any more."""
        others = tuple(row for row in self.cordons if _cordon_key(row) != _cordon_key(place))
        keys = ("gpu_uuid", "gpu") if place["vf_index"] is None else _CORDONED
        row = () if cordon is None else ({**{key: place[key] for key in keys}, **cordon},)
        return self._replace(cordons=(*others, *row))

    def reserved(self, now: float) -> Tuple[Record, ...]:
        """The reservations that have not ended at that time, in seconds since the epoch."""
        return tuple(row for row in self.reservations if row["until"] > now)

    def with_reservation(self, key: Tuple[str, str, int], row: Optional[Record]) -> "Ledger":
        """The ledger with this row as the reservation of that identity; with None, without a reservation of it."""
        others = tuple(one for one in self.reservations if identity(one) != key)
        return self._replace(reservations=(*others, *([] if row is None else [row])))

    def with_entries(self, entries: Tuple[Entry, ...]) -> "Ledger":
        return self._replace(entries=entries)

    def with_blocked_writes(self, records: Tuple[Record, ...]) -> "Ledger":
        return self._replace(blocked_writes=records)

    def with_freed(self, key: Tuple[str, str, int], params: str = "") -> "Ledger":
        """The ledger with this vGPU as the newest freed one. `params`: plugin parameters that its successor keeps."""
        vm_uuid, slot, generation = key
        row: Record = {"vm_uuid": vm_uuid, "slot": slot, "generation": generation}
        if params:
            row[PARAMS] = params
        return self._replace(freed=(*self.without_freed(key).freed, row)[-_MOST_FREED:])

    def params_of(self, key: Tuple[str, str, int]) -> str:
        """The known plugin parameters of a vGPU; empty if none are known."""
        rows = [row for row in (*self.entries, *self.freed) if identity(row) == key]
        return next((row[PARAMS] for row in rows if isinstance(row.get(PARAMS), str)), "")

    def without_freed(self, key: Tuple[str, str, int]) -> "Ledger":
        """The ledger without this vGPU among the freed ones: it is re-created."""
        return self._replace(freed=tuple(row for row in self.freed if identity(row) != key))


def facts_of(rows: Iterable[Mapping[str, Any]], shape: Type[Shape]) -> List[Shape]:
    """The rows, with only the protocol's keys."""
    return [cast("Shape", {key: row.get(key) for key in shape.__annotations__}) for row in rows]


def reservation_facts(ledger: Ledger) -> List[ReservationFact]:
    """The reservations that have not ended."""
    now = time.time()
    return [_reservation_fact(row, int(row["until"] - now)) for row in ledger.reserved(now)]


def _reservation_fact(row: Record, left_s: int) -> ReservationFact:
    place = facts_of([row], OurVgpu)[0]
    terms = facts_of([{**row, "left_s": left_s}], ReservationTerms)[0]
    return {**place, "terms": terms}


def _cordon_key(place: Mapping[str, Any]) -> Tuple[Optional[str], Optional[int]]:
    return place["gpu_uuid"], place.get("vf_index")


def identity(entry: Mapping[str, Any]) -> Tuple[str, str, int]:
    """The identity of a vGPU, from its entry or from a step about it: both have these keys."""
    return entry["vm_uuid"], entry["slot"], entry["generation"]


def instance_key(place: Mapping[str, Any]) -> Tuple[str, str, int]:
    """The identity of an instance, from its entry or from a step about it."""
    return place["gpu_uuid"], place["profile"], place["start"]


def read_ledger(root: Root) -> Ledger:
    """The ledger; an empty one if there is no file. Raises Refusal(LedgerBroken)."""
    path = root.path(LEDGER_PATH)
    if os.path.islink(path):  # a write would replace the link with a file, and leave its target behind
        _broken("it is a symbolic link")
    try:
        _check_owned(os.path.dirname(path))
        text = read_all(path)
        _check_owned(path)
    except FileNotFoundError:
        document = {"version": LEDGER_VERSION_WITHOUT_CORDONS, "settings": {}, "entries": []}
        return Ledger(document=document, entries=(), on_disk=False)
    except OSError as error:
        _broken(reason(error))
    return parse_ledger(text)


class _LastSeen:
    """The text that was read or written last, its document, and the text of each row.

    If a step finds the same text on disk, it need not check it again, and reuses the text of unchanged rows.
    """

    whole: Tuple[bytes, Optional[Ledger]] = (b"", None)
    rows: ClassVar[Dict[int, Tuple[Any, str]]] = {}  # by the row's id


def parse_ledger(text: bytes) -> Ledger:
    """Read and check the whole file. Raises Refusal(LedgerBroken) with the first error."""
    last_text, ledger = _LastSeen.whole
    if ledger is None or text != last_text:
        ledger = _parse(text)
        _LastSeen.whole = text, ledger
    return ledger


def _parse(text: bytes) -> Ledger:
    try:
        document = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        _broken("not JSON: {}".format(error))
    if not isinstance(document, dict):
        _broken("not an object")
    version = document.get("version")
    if not isinstance(version, int) or not is_count(version):
        _broken("no version")
    if version not in _VERSIONS:
        _broken(_other_version(version))
    if not isinstance(document.get("settings"), dict):
        _broken("settings is not an object")
    entries = document.get("entries")
    if not isinstance(entries, list):
        _broken("entries is not a list")
    identities = set()
    for number, entry in enumerate(entries):
        problem = _problem(entry)
        if problem:
            _broken("entries[{}]: {}".format(number, problem))
        if identity(entry) in identities:
            _broken("entries[{}]: the same vm, slot and generation a second time".format(number))
        identities.add(identity(entry))
    return Ledger(
        document=document,
        entries=tuple(entries),
        blocked_writes=_parse_rows(document, "blocked_writes", BlockedWriteFact),
        freed=_parse_rows(document, "freed", FreedFact),
        cordons=_parse_rows(document, "cordons", CordonFact, optional=_OF_A_VF),
        instances=_parse_instances(document),
        without_vfs=_parse_rows(document, "without_vfs", _WithoutVfs),
        reservations=_parse_reservations(document),
    )


def _parse_reservations(document: Dict[str, Any]) -> Tuple[Record, ...]:
    rows = _parse_rows(document, "reservations", ReservationRow)
    for number, row in enumerate(rows):
        problem = _wrong_key(row["mig"], checks_of(MigPlace, {})) if row["mig"] is not None else ""
        if problem:
            _broken("reservations[{}]: mig: {}".format(number, problem))
    return rows


def _parse_instances(document: Dict[str, Any]) -> Tuple[Record, ...]:
    rows = _parse_rows(document, "instances", InstanceEntry)
    keys = set()
    for number, row in enumerate(rows):
        if instance_key(row) in keys:
            _broken("instances[{}]: the same GPU, profile and start a second time".format(number))
        keys.add(instance_key(row))
    return rows


def _other_version(version: int) -> str:
    message = "its version is {}, but this vgpumgr knows {}".format(version, LEDGER_VERSION)
    if version > LEDGER_VERSION:
        return message + ": use the vgpumgr that wrote it, or a newer one"
    return message + ": detach what it names with the vgpumgr that wrote it, then move the file away"


def _parse_rows(
    document: Dict[str, Any], name: str, shape: type, *, optional: Sequence[str] = ()
) -> Tuple[Record, ...]:
    """The rows of one list, checked. A row may lack the `optional` keys; its facts have null for them."""
    rows = document.get(name, [])
    if not isinstance(rows, list):
        _broken("{} is not a list".format(name))
    checks = checks_of(shape, _NARROWER)
    for number, row in enumerate(rows):
        problem = _wrong_key(row, checks, optional)
        if problem:
            _broken("{}[{}]: {}".format(name, number, problem))
    return tuple(rows)


def _problem(entry: object) -> str:
    problem = _wrong_key(entry, _ENTRY_CHECKS, ("lazy",))
    if problem or not isinstance(entry, dict) or entry.get("mig") is None:
        return problem
    problem = _wrong_key(entry["mig"], checks_of(MigPlace, {}))
    return "mig: {}".format(problem) if problem else ""


def _wrong_key(row: object, checks: Checks, optional: Sequence[str] = ()) -> str:
    """The first error in one row of the file; empty if there is none."""
    if not isinstance(row, dict):
        return "not an object"
    for key, (check, text) in checks.items():
        if key not in row and key not in optional:
            return "{} is missing".format(key)
        if key in row and not check(row[key]):
            return "{} is not {}".format(key, text)
    if "state" in checks and row["state"] not in STATES:
        return "state is none of {}".format(", ".join(STATES))
    return ""


class _WithoutVfs(TypedDict):
    gpu_uuid: str
    boot: str


_OF_A_VF = ("vf_index", "vf")
_CORDONED = ("gpu_uuid", "gpu", *_OF_A_VF)
_NARROWER: Checks = {"state": (is_text, "a text")}
_ENTRY_CHECKS: Checks = {key: each for key, each in checks_of(LedgerEntry, _NARROWER).items() if key != "mig"}


def _broken(why: str) -> NoReturn:
    raise Refusal(LEDGER_BROKEN, "the ledger {} cannot be used: {}".format(LEDGER_PATH, why), path=LEDGER_PATH)


def write_ledger(root: Root, ledger: Ledger) -> None:
    """Write the ledger so that at every instant either the old or the new one is on disk, complete and durable.

    Raises Refusal(LedgerUnwritable): then the old one is there.
    """
    try:
        _write(root, ledger)
    except OSError as error:
        name = errno_name(error.errno) if error.errno is not None else "EIO"
        message = "the ledger {} cannot be written: {}".format(LEDGER_PATH, reason(error))
        raise Refusal(LEDGER_UNWRITABLE, message, path=LEDGER_PATH, errno=name, written=False) from error


def find_unwritable(root: Root) -> Optional[UnwritableFact]:
    """Why the ledger could not be written now, tested with a file without a name; None if it could.

    On file systems without such files (open(2), O_TMPFILE), only statvfs(3) is checked.
    """
    folder = os.path.dirname(LEDGER_PATH)
    while not os.path.isdir(root.path(folder)) and folder != "/":
        folder = os.path.dirname(folder)
    try:
        _try_folder(root.path(folder))
    except OSError as error:
        return {"path": folder, "errno": errno_name(error.errno) if error.errno is not None else "EIO"}
    return None


def _try_folder(folder: str) -> None:
    state = os.statvfs(folder)
    if state.f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    if (state.f_blocks and not state.f_bfree) or (state.f_files and not state.f_ffree):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            return
        raise
    try:
        write_whole(descriptor, bytes(_ROOM))
    finally:
        os.close(descriptor)


def _write(root: Root, ledger: Ledger) -> None:
    document = dict(ledger.document)
    document["version"] = _version_of(ledger)
    document["entries"] = list(ledger.entries)
    for name, rows in (
        ("blocked_writes", ledger.blocked_writes),
        ("freed", ledger.freed),
        ("cordons", ledger.cordons),
        ("instances", ledger.instances),
        ("without_vfs", ledger.without_vfs),
        ("reservations", ledger.reserved(time.time())),
    ):
        document.pop(name, None)
        if rows:
            document[name] = list(rows)
    text = render(document)
    path = root.path(LEDGER_PATH)
    folder = os.path.dirname(path)
    _make_folder(folder)
    _check_owned(folder)
    # The lock makes us the only writer, so one fixed name is enough, and a killed run's file is simply overwritten.
    temporary = path + ".new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        write_whole(descriptor, text)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(temporary, path)
    sync_folder(folder)
    _LastSeen.whole = text, ledger._replace(document=document, on_disk=True)


def _version_of(ledger: Ledger) -> int:
    """The oldest version of the file's format that can hold this ledger."""
    if any(entry.get("lazy") for entry in ledger.entries):
        return LEDGER_VERSION
    if any(row.get("vf_index") is not None for row in ledger.cordons):
        return LEDGER_VERSION_WITHOUT_LAZIES
    if ledger.reserved(time.time()):
        return LEDGER_VERSION_WITHOUT_CORDONED_VFS
    if ledger.instances or any(entry.get("mig") is not None for entry in ledger.entries):
        return LEDGER_VERSION_WITHOUT_RESERVATIONS
    return LEDGER_VERSION_WITHOUT_INSTANCES if ledger.cordons else LEDGER_VERSION_WITHOUT_CORDONS


def render(document: Dict[str, Any]) -> bytes:
    """JSON with one line per key and per row of a list. (With an indent, json does not use its C encoder.)"""
    lines = []
    cache, rows = _LastSeen.rows, {}
    for key, value in document.items():
        if isinstance(value, list) and value:
            for row in value:
                pair = cache.get(id(row))
                rows[id(row)] = pair if pair is not None and pair[0] is row else (row, _dumps(row))
            text = "[\n  {}\n ]".format(",\n  ".join(rows[id(row)][1] for row in value))
        else:
            text = _dumps(value)
        lines.append(" {}: {}".format(_dumps(key), text))
    _LastSeen.rows = rows
    return "{{\n{}\n}}\n".format(",\n".join(lines)).encode("utf-8")


_dumps = json.JSONEncoder(ensure_ascii=False).encode


def _check_owned(path: str) -> None:
    """Raises Refusal(LedgerBroken) if a user other than ours (root) could have written it; OSError if it is missing."""
    status = os.stat(path)
    if status.st_uid != os.geteuid():
        _broken("{} belongs to the user with uid {}, not to root; check it, then chown it".format(path, status.st_uid))
    if status.st_mode & 0o022:
        mode = "{:04o}".format(status.st_mode & 0o7777)
        _broken("{} has mode {}: users other than root can write there; check it, then chmod go-w".format(path, mode))


def _make_folder(folder: str) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_folder(os.path.dirname(folder))
        os.mkdir(folder, 0o700)
    os.chmod(folder, 0o700)
    sync_folder(os.path.dirname(folder))
