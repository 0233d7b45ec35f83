"""The bytes of the host program's session, both ways: pure, and safe against anything that a host may send.

It cuts chunks into lines with a limit, reads the greeting and one JSON object per line, and checks the object's shape
against the TypedDicts of host/protocol: values that pass need no further checks.
"""

from __future__ import annotations

import functools
import json
import types
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from vgpumgr.host.protocol.session import MAGIC, MAX_LINE_BYTES, PROTOCOL, Hello
from vgpumgr.link.program import sanity

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN_BYTES = 160
_MOST_NOISE = 64 * 1024
_MAGIC = MAGIC.encode()


class WireError(Exception):
    """The input does not follow the protocol; the text says how, for the error that the session raises."""


class Lines:
    """Cuts a stream of chunks into lines."""

    __slots__ = ("_buffer", "_limit", "_searched")

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._limit = limit

    def feed(self, chunk: bytes) -> None:
        self._buffer += chunk

    def take(self) -> bytes | None:
        """The next complete line without its newline; None while it is incomplete. WireError if it is too long."""
        # Bytes are searched only once: a 16 MiB line comes in hundreds of chunks.
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            if self._searched > self._limit:
                raise WireError(f"a line of more than {self._limit} bytes: {show(self.pending)}")
            return None
        if end > self._limit:
            raise WireError(f"a line of {end} bytes, more than {self._limit}: {show(self.pending)}")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    @property
    def pending(self) -> bytes:
        """The incomplete line."""
        return bytes(self._buffer)


class Greeting:
    """The host program's greeting, behind whatever the login prints before it (~/.bashrc, a message of the day)."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._skipped = bytearray()

    @property
    def noise(self) -> bytes:
        """The bytes that came before the greeting."""
        tail = self._lines.pending
        return bytes(self._skipped) + (b"" if _MAGIC.startswith(tail[: len(_MAGIC)]) else tail)

    @property
    def is_drowned(self) -> bool:
        """Whether there is more noise than any login prints."""
        return len(self.noise) > _MOST_NOISE

    def read(self) -> Hello | None:
        """The greeting; None while it is incomplete. WireError if it is malformed or of another version."""
        while not self.is_drowned and (line := self._lines.take()) is not None:
            # Noise may end without a newline, as the title of a terminal's window does.
            noise, magic, tail = line.partition(_MAGIC)
            self._skipped += noise if magic else line + b"\n"
            if magic:
                return _read_hello(tail)
        return None


def _read_hello(text: bytes) -> Hello:
    hello = _load(text)
    # The version first: the greeting of another version may have another shape.
    if hello.get("protocol") != PROTOCOL:
        raise WireError(
            f"it speaks protocol {hello.get('protocol')!r:.40}, but this vgpumgr speaks {PROTOCOL}: the program comes "
            "from the controller, so the installation mixes two versions; install vgpumgr again"
        )
    return check(hello, Hello, "greeting")  # type: ignore[no-any-return]


def show(data: bytes) -> str:
    """The beginning of the text, printable."""
    return repr(bytes(data[:_SHOWN_BYTES]))[1:] + ("…" if len(data) > _SHOWN_BYTES else "")


def render_request(number: int, verb: str, fields: dict[str, Any]) -> bytes:
    line = json.dumps({"id": number, "do": verb, **fields}, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise WireError("a request of more bytes than the protocol allows")
    return line


def parse_answer(line: bytes) -> tuple[int, dict[str, Any] | None, dict[str, Any]]:
    """An answer as (id, ok, {}) or (id, None, err)."""
    answer = _load(line)
    number, ok, err = answer.get("id"), answer.get("ok"), answer.get("err")
    if type(number) is not int:
        raise WireError(f"an answer without an id: {show(line)}")
    if isinstance(ok, dict) and err is None:
        return number, ok, {}
    if isinstance(err, dict) and ok is None and isinstance(err.get("kind"), str):
        return number, None, err
    raise WireError(f"an answer with neither ok nor err: {show(line)}")


def read(facts: dict[str, Any], hint: Any, where: str) -> Any:
    """The facts, checked. Impossible values become unknown, and the facts are checked again. Raises WireError."""
    try:
        return check(facts, hint, where)
    except WireError:
        sanity.mend(facts)
        return check(facts, hint, where)


def check(value: Any, hint: Any, where: str) -> Any:
    """`value` itself, if it has the shape of the type hint (TypedDict, List, Dict, Optional, Literal, str, int, bool).

    Otherwise raises WireError. Every key must be present; additional keys are accepted: a host program may report more.
    """
    try:
        _checker(hint)(value)
    except WireError as error:
        raise WireError(f"{where}{error}") from error
    return value


@functools.cache
def _checker(hint: Any) -> Callable[[Any], None]:
    """A check that refuses a value of another shape. Made once per hint: a host has thousands of creatable types."""
    origin, inner = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        return functools.partial(_check_object, {key: _checker(one) for key, one in get_type_hints(hint).items()})
    if origin is list:
        return functools.partial(_check_list, _checker(inner[0]))
    if origin is Literal:
        return functools.partial(_check_word, inner)
    if origin is dict:
        return functools.partial(_check_values, _checker(inner[1]))
    if origin in (Union, types.UnionType):
        (one,) = (one for one in inner if one is not type(None))
        return functools.partial(_check_optional, _checker(one))
    return functools.partial(_check_plain, hint)


def _check_object(keys: dict[str, Callable[[Any], None]], value: Any) -> None:
    if type(value) is not dict:
        raise _wrong("an object", value)
    for key, check_inner in keys.items():
        if key not in value:
            raise WireError(f".{key} is missing")
        try:
            check_inner(value[key])
        except WireError as error:
            raise WireError(f".{key}{error}") from error


def _check_list(check_item: Callable[[Any], None], value: Any) -> None:
    if type(value) is not list:
        raise _wrong("a list", value)
    for position, item in enumerate(value):
        try:
            check_item(item)
        except WireError as error:
            raise WireError(f"[{position}]{error}") from error


def _check_values(check_item: Callable[[Any], None], value: Any) -> None:
    if type(value) is not dict:
        raise _wrong("an object", value)
    _check_object(dict.fromkeys(value, check_item), value)


def _check_word(words: tuple[str, ...], value: Any) -> None:
    if value not in words:
        raise _wrong(f"one of {', '.join(words)}", value)


def _check_optional(check_inner: Callable[[Any], None], value: Any) -> None:
    if value is not None:
        check_inner(value)


def _check_plain(kind: type[str | float], value: Any) -> None:
    if type(value) is not kind:  # type, not isinstance: true is not an int
        raise _wrong(kind.__name__, value)
    if sanity.is_odd(value):
        raise _wrong("a possible value", value)


def _wrong(kind: str, value: Any) -> WireError:
    return WireError(f" is {value!r:.60}, not {kind}")


def _load(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    # RecursionError: thousands of opening brackets. UnicodeDecodeError is a ValueError.
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON ({error}): {show(text)}") from error
    if not isinstance(value, dict):
        raise WireError(f"not a JSON object: {show(text)}")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
