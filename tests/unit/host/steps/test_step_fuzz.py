"""Whatever comes as a step: a bad request, or a step in which every part that reaches a path or a driver is sound."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.unit.host.fakehost import (
    MDEV_VF,
    make_destroy,
    make_evacuate,
    make_instance_step,
    make_mig_step,
    make_modprobe_step,
    make_scheduler_step,
    make_setting,
    make_step,
)
from vgpumgr.host.protocol.session import BAD_REQUEST
from vgpumgr.host.protocol.steps import SHAPES
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.steps.executor import VERBS, parse_step

POLICIES = ("best-effort", "equal-share", "fixed-share")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=4,
)
NUMBERS = st.none() | st.integers(-1, 2**33) | st.booleans() | st.floats()
PATHS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["/etc/modprobe.d/", "/etc/modprobe.d/../", "etc/modprobe.d/", ""]),
        st.lists(st.sampled_from(["a", "9", ".", "/", "-", "_", "\n", "\0", "é", " ", "~"]), max_size=3).map("".join),
        st.sampled_from([".conf", ".conf\n", ".conf ", ".txt", "a" * 65 + ".conf"]),
    ),
)


def change(step: dict[str, Any], values: st.SearchStrategy[Any] = JSON) -> st.SearchStrategy[dict[str, Any]]:
    """The step with any of its keys replaced, and some of them left out."""
    changed = st.dictionaries(st.sampled_from(sorted(step)), values, max_size=2)
    left_out = st.lists(st.sampled_from(sorted(step)), max_size=1)
    return st.tuples(changed, left_out).map(
        lambda pair: {key: value for key, value in {**step, **pair[0]}.items() if key not in pair[1]}
    )


def refusal_of(data: object, verb: str) -> tuple[Any, str | None]:
    """The step, or why it is none. `data` is of that verb: the verb says what else a step has."""
    try:
        return parse_step({**data, "verb": verb} if isinstance(data, dict) else data), None
    except Refusal as refusal:
        return None, refusal.kind


@given(JSON | change(make_evacuate(MDEV_VF)))
def test_an_evacuation_is_a_bad_request_or_sound(data: Any) -> None:
    step, kind = refusal_of(data, "evacuate_vgpu")
    assert kind in (None, BAD_REQUEST)
    if step is not None:
        assert step["expect"] == "present"
        assert re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f:.]+", step["parent"])


@given(JSON | change(make_instance_step()) | change(make_instance_step(), NUMBERS))
def test_a_step_of_an_instance_is_a_bad_request_or_sound(data: Any) -> None:
    step, kind = refusal_of(data, "create_instance")
    assert kind in (None, BAD_REQUEST)
    if step is not None:
        assert step["expect"] in {"empty", "same"}
        assert all(type(step[key]) is int and 0 <= step[key] < 2**32 for key in ("profile_id", "start", "size"))
        assert re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f:.]+", step["gpu"])
        assert re.fullmatch(r"[A-Za-z0-9_.+-]+", step["profile"])


@given(change(make_mig_step(), JSON | change(make_mig_step()["mig"], NUMBERS)))
def test_where_a_mig_backed_vgpu_is_meant_to_be_is_a_bad_request_or_sound(data: Any) -> None:
    step, kind = refusal_of(data, "create_vgpu")
    assert kind in (None, BAD_REQUEST)
    if step is not None and step["mig"] is not None:
        assert set(step["mig"]) == {"profile", "profile_id", "start"}
        assert all(type(step["mig"][key]) is int and 0 <= step["mig"][key] < 2**32 for key in ("profile_id", "start"))


@given(
    JSON
    | change(make_scheduler_step(1))
    | st.builds(
        make_scheduler_step,
        st.sampled_from([0, 1, 2, True, 3]),
        setting=JSON | change(make_setting(), NUMBERS | st.sampled_from(POLICIES)),
        expect=st.dictionaries(st.sampled_from(["graphics", "nvenc0", "../x"]), st.none() | st.sampled_from(POLICIES)),
    )
)
def test_a_scheduler_step_is_a_bad_request_or_sound(data: Any) -> None:
    step, kind = refusal_of(data, "set_scheduler")
    assert kind in (None, BAD_REQUEST)
    if step is not None:
        setting = step["setting"]
        assert setting["policy"] in POLICIES
        for key in ("averaging_factor", "frequency_hz", "time_slice_ns"):
            assert setting[key] is None or (type(setting[key]) is int and 0 <= setting[key] < 2**32)
        if setting["time_slice_ns"] is not None:
            assert (setting["arr"], step["api"]) == (False, 1)
        assert "graphics" in step["expect"]
        assert set(step["expect"]) <= {"graphics", "nvenc0", "nvenc1"}
        assert type(step["api"]) is int


@settings(max_examples=dose(300, 1000))  # each is a word or two
@given(PATHS | JSON)
@example("/etc/modprobe.d/a/b.conf")
@example("/etc/modprobe.d/a/../../b.conf")
def test_a_path_that_is_taken_is_a_plain_name_in_the_one_folder(path: object) -> None:
    step, kind = refusal_of(make_modprobe_step(path=path), "write_modprobe")
    assert kind in (None, BAD_REQUEST)
    if step is not None:
        folder, _, name = step["path"].rpartition("/")
        assert folder == "/etc/modprobe.d"
        assert name.isascii()
        assert name.isprintable()
        assert name.endswith(".conf")
        assert len(name) < 70
        assert not name.startswith((".", "-"))


@given(change(make_modprobe_step(), JSON | st.text(alphabet=st.characters())))
def test_a_text_that_is_taken_can_be_written(data: Any) -> None:
    step, kind = refusal_of(data, "write_modprobe")
    assert kind in (None, BAD_REQUEST)
    for key in ("text", "expect"):
        if step is not None and step[key] is not None:
            assert step[key].encode().decode() == step[key]
            assert "\0" not in step[key]


@pytest.mark.parametrize(
    "wrong",
    [
        {"setting": make_setting(time_slice_ns=2_000_000)},
        {"setting": make_setting(arr=True, time_slice_ns=2_000_000)},
        {"setting": make_setting(arr=False, frequency_hz=480)},
        {"setting": make_setting(arr=False, averaging_factor=33)},
        {"setting": make_setting(frequency_hz=2**32)},
        {"setting": make_setting("round-robin")},
        {"api": 2, "setting": make_setting(arr=False)},
        {"api": True},
        {"expect": {}},
        {"expect": {"graphics": "best-effort", "nvenc0": "best-effort"}},
        {"gpu": "../41:00.0"},
    ],
)
def test_a_scheduler_step_that_means_nothing_is_a_bad_request(wrong: dict[str, Any]) -> None:
    assert refusal_of(make_scheduler_step(**wrong), "set_scheduler") == (None, BAD_REQUEST)


@pytest.mark.parametrize(
    ("step", "expect"),
    [
        (make_step(MDEV_VF), {"empty", "same"}),
        (make_evacuate(MDEV_VF), {"present"}),
        (make_destroy(MDEV_VF), {"present", "absent"}),
        (make_instance_step("create_instance"), {"empty", "same"}),
        (make_instance_step("destroy_instance"), {"present", "absent"}),
    ],
    ids=lambda value: value["verb"] if isinstance(value, dict) else "",
)
def test_a_step_expects_only_what_its_verb_may(step: dict[str, Any], expect: set[str]) -> None:
    words = ("empty", "same", "present", "absent", "enter", None)
    assert {word for word in words if refusal_of({**step, "expect": word}, step["verb"])[1] is None} == expect


def test_every_verb_of_the_protocol_is_carried_out_and_no_other() -> None:
    assert [*VERBS] == [*SHAPES]
