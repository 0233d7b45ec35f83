"""A command in a message can be pasted, whatever a VM is called."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.core.commands import command, virsh

NAMES = st.text(st.characters(min_codepoint=33, exclude_characters="/", exclude_categories=["C", "Z"]), min_size=1)


def test_a_plain_name_is_left_as_it_is() -> None:
    assert command("attach", "vm01", options=["--profile", "4Q"], slot="vgpu1", on="kvm01") == (
        "vgpumgr attach vm01 --profile 4Q --slot vgpu1 --on kvm01"
    )


def test_what_a_shell_would_run_is_quoted() -> None:
    assert command("detach", "it's; touch x") == "vgpumgr detach 'it'\"'\"'s; touch x'"
    assert command("detach", "$(id)") == "vgpumgr detach '$(id)'"


@given(NAMES)
def test_a_shell_gives_the_vm_name_back_as_one_word(name: str) -> None:
    """And a name that begins with a dash is never read as an option."""
    words = shlex.split(command("detach", name, slot="vgpu1"))
    assert name in words
    assert not name.startswith("-") or words[words.index(name) - 1] == "--"


@given(NAMES)
def test_virsh_gets_it_as_one_word_that_is_no_option_of_its_own(name: str) -> None:
    words = shlex.split(virsh("managedsave-remove", name))
    assert words[:2] == ["virsh", "managedsave-remove"]
    assert words[2:] == ([f"--domain={name}"] if name.startswith("-") else [name])
