"""Requests in, answers out, one JSON line each. The server knows nothing about pipes, so tests can call it directly.

Most sessions only look. So the modules that carry out steps, install, purge or sample are imported only where they are
needed: with them, a session's imports take almost twice as long.
"""

import json
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Collection, Dict, List, Optional, Union

from .facts.facts import observe
from .facts.nvml import load_binding
from .fields import Check, check_fields, is_count, is_text, reader, refuse, type_check
from .files import Root, why
from .ledger.ledger import find_unwritable
from .ledger.lock import HostLock, pause
from .ledger.writer import write_file
from .libvirt.service import Libvirt
from .protocol.libvirt import LibvirtFact, LibvirtQuery
from .protocol.session import INTERNAL, MAX_LINE_BYTES, NOT_LOCKED, NOT_ROOT, UNWRITABLE
from .refusal import PeerGone, Refusal, errno_name
from .timing import of_host

if TYPE_CHECKING:
    from .steps.executor import Executor
    from .steps.guard import RemovalGuard

_LONGEST_WAIT_S = 24 * 3600.0


class Server:
    """One host program. `root` is the prefix of every path; every injected part defaults to the real one.

    `gone` is described at HostLock; `write` writes text to a sysfs file (in a child); `at` is called with the name of
    each point that a step passes, and does nothing outside tests; `guard` decides what can be removed.
    """

    def __init__(
        self,
        root: "Union[str, os.PathLike[str]]" = "/",
        *,
        nvml: Callable[[], Any] = load_binding,
        libvirt: Optional[Libvirt] = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        gone: Callable[[float], bool] = pause,
        write: Callable[[str, bytes], None] = write_file,
        at: "Callable[[str], None]" = lambda _point: None,
        guard: "Optional[RemovalGuard]" = None,
    ) -> None:
        self._root = Root(root)
        self._nvml = nvml
        self._libvirt = libvirt or Libvirt()
        self._sleep = sleep
        self._lock = HostLock(self._root, clock=clock, gone=gone)
        self._executing: "Optional[Executor]" = None
        self._write, self._at, self._guard = write, at, guard
        self._verbs: Dict[str, Callable[[Dict[str, Any]], Any]] = {
            "observe": self._observe,
            "sample": self._sample,
            "lock": self._take_lock,
            "execute": self._execute,
            "ping": lambda _request: {},
            "unlock": self._unlock,
            "libvirt": self._read_libvirt,
            "installed": lambda _request: {"installation": _installation().look(self._root)},
            "install": lambda request: {
                "installation": self._installing(lambda: _installation().install(self._root, request))
            },
            "uninstall": lambda _request: {
                "installation": self._installing(lambda: _installation().uninstall(self._root))
            },
            "purge": self._purge,
            "symptoms": lambda _request: self._symptoms(),
            "capture": self._capture,
        }

    @property
    def locked(self) -> bool:
        """Whether the exclusive lock is held, so that the lease runs."""
        return self._lock.held

    def close(self) -> None:
        """Release the lock."""
        self._lock.give_back()

    def answer(self, line: bytes) -> bytes:
        """The answer to one request, as a line. Raises PeerGone if nobody is left to read it."""
        number: Optional[int] = None
        try:
            request = _parse(line)
            number = _number_of(request)
            result: Dict[str, Any] = {"ok": self._dispatch(request)}
        except Refusal as refusal:
            result = {"err": refusal.as_json()}
        except PeerGone:
            raise
        except Exception as error:  # noqa: BLE001 -- report it to the other end; the program goes on
            result = {"err": {"kind": INTERNAL, "message": "{}: {}".format(type(error).__name__, error)}}
        return json.dumps({"id": number, **result}, separators=(",", ":")).encode("ascii") + b"\n"

    def _dispatch(self, request: Dict[str, Any]) -> Any:
        verb = request.get("do")
        handler = self._verbs.get(verb) if isinstance(verb, str) else None
        if handler is None:
            refuse("there is no verb {!r}".format(verb))
        if not self._root.top and os.geteuid() != 0:
            raise Refusal(NOT_ROOT, "the host program must run as root, but runs as uid {}".format(os.geteuid()))
        return handler(request)

    def _observe(self, request: Dict[str, Any]) -> Any:
        query = _query(request)
        with self._lock.reading(_seconds(request, "wait_s")):
            finish = self._begin(query)
            facts = observe(self._root, self._nvml, pause=self._sleep)
        # Not under the lock: libvirt may be waiting for its hook, which waits for the lock (restoring/lazy.py).
        return {**facts, "libvirt": finish()}

    def _read_libvirt(self, request: Dict[str, Any]) -> Any:
        query = _query(request)
        if query is None:
            refuse("libvirt must say what to read")
        return self._libvirt.begin_reading(query)()

    def _look(self, query: Optional[LibvirtQuery], only: Optional[Collection[str]] = None) -> Dict[str, Any]:
        """The host's facts, or those of these GPUs; libvirt is read meanwhile."""
        finish = self._begin(query)
        facts = observe(self._root, self._nvml, only=only, pause=self._sleep)
        return {**facts, "libvirt": finish()}

    def _begin(self, query: Optional[LibvirtQuery]) -> Callable[[], Optional[LibvirtFact]]:
        return (lambda: None) if query is None else self._libvirt.begin_reading(query)

    def _sample(self, request: Dict[str, Any]) -> Any:
        from .facts.sample import sample

        since = _field(request, "since", _is_since, "microseconds by GPU")
        with self._lock.reading(_seconds(request, "wait_s")):
            return sample(self._root, self._nvml, since, pause=self._sleep)

    def _take_lock(self, request: Dict[str, Any]) -> Any:
        by, query = _field(request, "by", is_text, "who asks"), _query(request)
        self._lock.take(by, _seconds(request, "wait_s"))
        return {**self._look(query), "unwritable": find_unwritable(self._root)}

    def _execute(self, request: Dict[str, Any]) -> Any:
        self._must_be_locked()
        return self._executor.execute(request.get("step"), _seconds(request, "deadline_s"))

    @property
    def _executor(self) -> "Executor":
        if self._executing is None:
            from .steps.executor import Executor

            self._executing = Executor(
                self._root,
                self._nvml,
                self._libvirt,
                write=self._write,
                at=self._at,
                timing=of_host(self._root),
                guard=self._guard,
            )
        return self._executing

    def _unlock(self, request: Dict[str, Any]) -> Any:
        gpus, query = _field(request, "gpu_uuids", *type_check(List[str])), _query(request)
        self._must_be_locked()
        try:
            return self._look(query, frozenset(gpus))
        finally:
            self._lock.give_back()

    def _purge(self, request: Dict[str, Any]) -> Any:
        from . import purging

        if _field(request, "check", *type_check(bool)):
            return purging.look(self._root)
        self._must_be_locked()
        return self._installing(lambda: purging.purge(self._root))

    def _symptoms(self) -> Any:
        from .symptoms.symptoms import read_symptoms  # only doctor asks for them

        return read_symptoms(self._root)

    def _capture(self, request: Dict[str, Any]) -> Any:
        from .certify.capture import capture  # only certify asks for it

        with self._lock.reading(_seconds(request, "wait_s")):
            return capture(self._root, self._nvml, self._sleep)

    def _installing(self, change: Callable[[], Any]) -> Any:
        from .dispatcher import FOLDER

        try:
            return change()
        except OSError as error:
            number = errno_name(error.errno or 0)
            raise Refusal(UNWRITABLE, why(error), path=FOLDER, errno=number) from error

    def _must_be_locked(self) -> None:
        if not self.locked:
            raise Refusal(NOT_LOCKED, "the host's lock is not held; ask `lock` first")


def _installation() -> Any:
    from . import installation

    return installation


def _parse(line: bytes) -> Dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        refuse("the line is longer than {} bytes".format(MAX_LINE_BYTES))
    try:
        request = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        refuse("not JSON: {}".format(error))
    if not isinstance(request, dict):
        refuse("not an object")
    return request


def _number_of(request: Dict[str, Any]) -> int:
    number = request.get("id")
    if not isinstance(number, int) or isinstance(number, bool):
        refuse("id must be a number")
    return number


def _query(request: Dict[str, Any]) -> Optional[LibvirtQuery]:
    query = request.get("libvirt")
    return None if query is None else _read_query(query)


def _seconds(request: Dict[str, Any], key: str) -> float:
    return float(_field(request, key, _is_wait, _SECONDS))


def _field(request: Dict[str, Any], key: str, check: Check, text: str) -> Any:
    return check_fields(request, {key: (check, text)}, "the request")[key]


def _is_wait(value: object) -> bool:
    # Written so that NaN, which JSON readers accept, is refused, too.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _LONGEST_WAIT_S


def _is_since(value: object) -> bool:
    return isinstance(value, dict) and all(map(is_count, value.values()))


_SECONDS = "a number of seconds"
_read_query = reader(LibvirtQuery, "libvirt", {"wait_s": (_is_wait, _SECONDS)})
