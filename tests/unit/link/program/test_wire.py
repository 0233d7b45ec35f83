"""The bytes of a session against whatever a host may send."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.link.program.test_session import GREETING, HELLO, SNAPSHOT
from vgpumgr.host.protocol.gpu import EngineSchedulerFact
from vgpumgr.host.protocol.session import MAGIC, MAX_LINE_BYTES, PROTOCOL, Hello
from vgpumgr.host.protocol.snapshot import Snapshot
from vgpumgr.link.program import wire


def make_lines(*chunks: bytes, limit: int = MAX_LINE_BYTES) -> wire.Lines:
    lines = wire.Lines(limit)
    for chunk in chunks:
        lines.feed(chunk)
    return lines


@given(st.lists(st.binary(max_size=20)), st.data())
def test_lines_come_out_whole_however_they_are_cut(texts: list[bytes], data: st.DataObject) -> None:
    wanted = [text.replace(b"\n", b"") for text in texts]
    stream = b"".join(text + b"\n" for text in wanted)
    lines, found = wire.Lines(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        lines.feed(stream[:size])
        stream = stream[size:]
        while (line := lines.take()) is not None:
            found.append(line)
    assert found == wanted


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_over_the_limit_is_refused_whether_it_ends_or_not(end: bytes) -> None:
    with pytest.raises(wire.WireError, match="more than 10"):
        make_lines(b"x" * 11 + end, limit=10).take()


def test_a_greeting_is_read_from_any_pieces() -> None:
    lines = wire.Lines()
    greeting = wire.Greeting(lines)
    for position in range(len(GREETING) - 1):
        lines.feed(GREETING[position : position + 1])
        assert (greeting.read(), greeting.noise) == (None, b"")
    lines.feed(b"\n")
    assert greeting.read() == HELLO


@given(st.binary(max_size=300).filter(lambda noise: MAGIC.encode() not in noise), st.data())
def test_noise_before_the_greeting_is_kept_and_skipped_however_it_is_cut(noise: bytes, data: st.DataObject) -> None:
    lines = wire.Lines()
    greeting = wire.Greeting(lines)
    stream, found = noise + GREETING, None
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        lines.feed(stream[:size])
        stream = stream[size:]
        found = found or greeting.read()
    assert (found, greeting.noise) == (HELLO, noise)


def test_no_greeting_is_looked_for_behind_more_noise_than_a_login_prints() -> None:
    greeting = wire.Greeting(make_lines(b"x" * 65_537, GREETING))
    assert (greeting.read(), greeting.is_drowned) == (None, True)


def test_another_protocol_version_is_named() -> None:
    text = MAGIC.encode() + b'{"protocol":1}\n'
    with pytest.raises(
        wire.WireError, match=rf"protocol 1, but this vgpumgr speaks {PROTOCOL}: .*install vgpumgr again"
    ):
        wire.Greeting(make_lines(text)).read()


@given(st.binary(max_size=300))
def test_no_bytes_make_the_greeting_fail_in_another_way(noise: bytes) -> None:
    with contextlib.suppress(wire.WireError):
        assert wire.Greeting(make_lines(noise)).read() is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "ok", "err", "kind", "x"]), inner)
    ),
    max_leaves=8,
)


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_an_answer_is_an_id_with_ok_or_err_or_it_is_refused(line: bytes) -> None:
    try:
        number, ok, err = wire.parse_answer(line)
    except wire.WireError:
        return
    assert type(number) is int
    assert isinstance(ok, dict) or isinstance(err["kind"], str)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"id":' + b"9" * 5000 + b',"ok":{}}',
        b'{"id":NaN,"ok":{}}',
        b'{"id":true,"ok":{}}',
        b'{"id":1,"ok":{},"err":{"kind":"x"}}',
        b'{"id":1}',
        b'{"id":1,"err":{"kind":3}}',
        b"\xff\xfe",
    ],
)
def test_hostile_answers_are_refused(line: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.parse_answer(line)


def make_snapshot() -> dict[str, Any]:
    """What a session's host says, with much that is unknown."""
    unknown = dict.fromkeys(("handles", "qemus", "ledger", "blocked_writes", "modprobe"))
    facts = {key: value for key, value in SNAPSHOT.items() if key != "libvirt"}
    row = {"gpu": None, "what": "a", "why": "b"}
    return {**facts, **unknown, "versions": {"driver": None}, "unknown": [row]}


HANDLE = {"path": "/dev/vfio/1", "pid": 1, "start": 1, "command": "", "vm_name": None, "vm_uuid": None}


def test_a_snapshot_of_the_protocols_shape_passes_as_it_is_with_keys_to_spare() -> None:
    snapshot = make_snapshot() | {"more": 1}
    assert wire.check(snapshot, Snapshot, "snapshot") is snapshot


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"boot": None}, r"snapshot\.boot is None, not str"),
        ({"protocol": True}, r"snapshot\.protocol is True, not int"),
        ({"gpus": None}, r"snapshot\.gpus is None, not a list"),
        ({"gpus": [{}]}, r"snapshot\.gpus\[0\]\.pci is missing"),
        ({"unknown": [{"gpu": None, "what": 1, "why": ""}]}, r"snapshot\.unknown\[0\]\.what is 1, not str"),
        ({"versions": []}, r"snapshot\.versions is \[\], not an object"),
        ({"versions": {"driver": 3}}, r"snapshot\.versions\.driver is 3, not str"),
        ({"gpus": {}}, r"snapshot\.gpus is \{\}, not a list"),
        ({"gpus": ["A40"]}, r"snapshot\.gpus\[0\] is 'A40', not an object"),
        ({"ledger": [{}]}, r"snapshot\.ledger\[0\]\.\w+ is missing"),
        ({"handles": [HANDLE, HANDLE | {"pid": "1"}]}, r"snapshot\.handles\[1\]\.pid is '1', not int"),
        ({"handles": [HANDLE | {"pid": True}]}, r"snapshot\.handles\[0\]\.pid is True, not int"),
    ],
)
def test_another_shape_is_refused_by_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(wire.WireError, match=said):
        wire.check(make_snapshot() | change, Snapshot, "snapshot")


def test_a_word_of_few_is_one_of_them() -> None:
    fact = {"engine": "graphics", "policy": "weighted", "arr": None, "averaging_factor": None, "time_slice_ns": None}
    with pytest.raises(wire.WireError, match=r"policy is 'weighted', not one of best-effort, equal-share, fixed-share"):
        wire.check(fact, EngineSchedulerFact, "engine")
    assert wire.check(fact | {"policy": None}, EngineSchedulerFact, "engine")["policy"] is None


@pytest.mark.parametrize("key", list(make_snapshot()))
def test_every_key_of_a_snapshot_must_be_there(key: str) -> None:
    short = {name: value for name, value in make_snapshot().items() if name != key}
    with pytest.raises(wire.WireError, match=rf"snapshot\.{key} is missing"):
        wire.read(short, Snapshot, "snapshot")


def test_an_odd_value_is_unknown_where_it_may_be_and_else_refuses_the_snapshot() -> None:
    odd = make_snapshot() | {"versions": {"driver": "5\ud800"}, "handles": [HANDLE], "ledger": [2**60]}
    read = wire.read(odd, Snapshot, "snapshot")
    assert (read["versions"], read["ledger"]) == ({"driver": "5?"}, None)
    assert [row["what"] for row in read["unknown"]] == ["a", "ledger", "blocked_writes"]
    with pytest.raises(wire.WireError, match=r"snapshot\.handles\[0\]\.pid is None, not int"):
        wire.read(make_snapshot() | {"handles": [HANDLE | {"pid": 2**60}]}, Snapshot, "snapshot")


@given(st.dictionaries(st.sampled_from(sorted(HELLO)), JSON))
def test_a_checked_greeting_has_every_key_with_its_type(value: dict[str, Any]) -> None:
    try:
        wire.check(value, Hello, "greeting")
    except wire.WireError:
        return
    assert {key: type(one) for key, one in value.items()} == {key: type(one) for key, one in HELLO.items()}
