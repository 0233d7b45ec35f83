"""A text for people is what it would be anyway, and keeps what it was made of however it was put together."""

from __future__ import annotations

import ast
import copy
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import sources
from vgpumgr.wording import Command, GpuAddress, Option, Own, cut, joined, say, values

if TYPE_CHECKING:
    from vgpumgr.wording import Message

WORDS = st.text(alphabet="ab {}:", max_size=4)
LITERALS = WORDS.map(lambda text: text.replace("{}", ""))
VALUES = WORDS | WORDS.map(Own) | WORDS.map(GpuAddress) | st.builds(Option, WORDS, st.none() | WORDS) | st.integers()
PLAIN = st.lists(st.tuples(LITERALS, VALUES), max_size=3)


def made(parts: list[tuple[str, object]], last: str) -> tuple[Message, str]:
    """The message, and the text that it must have."""
    template = "".join(f"{before}{{}}" for before, _ in parts) + last
    return say(template, *(value for _, value in parts)), "".join(f"{a}{b}" for a, b in parts) + last


@given(PLAIN, LITERALS, PLAIN, LITERALS)
def test_it_is_the_text_that_it_would_be_anyway_and_the_parts_of_its_parts_are_its_own(
    inner: list[tuple[str, object]], inner_last: str, outer: list[tuple[str, object]], last: str
) -> None:
    part, text = made(inner, inner_last)
    whole, full = made([*outer, (": ", part)], last)
    assert (part, whole) == (text, full.replace(str(part), text))
    assert values(whole) == (*(str(value) for _, value in outer), *values(part))
    assert [type(value) for value in values(whole)][len(outer) :] == [type(value) for value in values(part)]
    assert hash(whole) == hash(str(whole))


@given(PLAIN, LITERALS, st.sets(WORDS))
def test_what_is_cut_is_all_of_it_and_each_second_piece_is_somebodys_own(
    parts: list[tuple[str, object]], last: str, own: set[str]
) -> None:
    message, text = made(parts, last)
    pieces = cut(message, own)
    assert "".join(pieces) == text
    assert pieces[1::2] == [str(value) for _, value in parts if isinstance(value, Own) or str(value) in own]
    assert cut(text, own) == [text], "a plain text has no parts, whatever it says"


def test_texts_are_joined_with_their_parts() -> None:
    several = [say("ask with {}", Option("--gpu")), "or wait", say("{} s", Own("5"))]
    assert joined("; ", several) == "ask with --gpu; or wait; 5 s"
    assert values(joined("; ", several)) == ("--gpu", "or wait", "5")
    assert joined("; ", []) == ""


def test_a_command_is_quoted_for_a_shell_and_keeps_its_words() -> None:
    found = Command("vgpumgr", "attach", "a vm", "--profile", "4Q")
    assert found == "vgpumgr attach 'a vm' --profile 4Q"
    assert found.words == ("vgpumgr", "attach", "a vm", "--profile", "4Q")


def test_each_value_is_told_as_the_teller_has_it() -> None:
    message = say("{} on {}", Option("--slot", "vgpu1"), "kvm01")
    told = message.told(lambda value: value.name if isinstance(value, Option) else value.upper())
    assert (told, type(told)) == ("--slot on KVM01", str)


def test_a_copy_and_json_take_it_as_a_text() -> None:
    message = say("{}", Command("vgpumgr", "list"))
    assert copy.deepcopy({"a": message})["a"] is message
    assert json.dumps(message) == '"vgpumgr list"'


def test_a_template_with_another_number_of_gaps_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="argument"):
        say("{} and {}", "one")


def test_no_message_of_the_product_is_such_a_mistake() -> None:
    """Many are of errors that few tests raise: there the mistake would stand in place of the error."""
    calls = [
        (file, call)
        for file in sources.files("vgpumgr", "ansible")
        for call in ast.walk(sources.tree(file))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "say"
    ]
    assert len(calls) > 500
    for file, call in calls:
        template, *parts = call.args
        if isinstance(template, ast.Constant) and not any(isinstance(part, ast.Starred) for part in parts):
            assert str(template.value).count("{}") == len(parts), f"{file}:{call.lineno}"
