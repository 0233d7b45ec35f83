"""Names of VMs on a command line: ranges, duplicates, and what cannot be said beside a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from vgpumgr.cli.commands.change import detach
from vgpumgr.cli.main import program
from vgpumgr.cli.params import several
from vgpumgr.errors import BadName, UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("vm02", "vm01"), ("vm01", "vm02")),
        (("vm10", "vm9"), ("vm9", "vm10")),
        (("vm[05:07]", "vm01"), ("vm01", "vm05", "vm06", "vm07")),
        (("web-[a:c]", "db[1:3:2]"), ("db1", "db3", "web-a", "web-b", "web-c")),
        (("r[1:2]n[01:02]",), ("r1n01", "r1n02", "r2n01", "r2n02")),
        (("vm[1]", "vm[1:2]"), ("vm1", "vm2", "vm[1]")),
    ],
)
def test_names_and_ranges_come_in_the_order_of_names(arguments: tuple[str, ...], names: tuple[str, ...]) -> None:
    """A range is Ansible's; `vm[1]` is none, and a VM may be called so."""
    assert several.names_of(arguments) == names
    assert several.names_of(arguments[::-1]) == names


def test_commas_divide_and_a_name_that_looks_like_no_pattern_is_one() -> None:
    assert several.names_of(("vm01,vm03", "win 10", "a:b", "R&D")) == ("R&D", "a:b", "vm01", "vm03", "win 10")


@pytest.mark.parametrize("text", ["web*", "vm0?", "~web", "!vm01", "vm01,&web"])
def test_attach_guesses_no_vm(text: str) -> None:
    with pytest.raises(UsageError, match="does not name VMs"):
        several.names_of(("vm09", text))
    assert several.are_wild((text,))
    assert several.only_one((text,), None) is None


@pytest.mark.parametrize("arguments", [("vm01", "vm01"), ("vm[01:03]", "vm02"), ("vm[1:2]", "vm[2:3]")])
def test_a_vm_named_twice_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="named twice: vm"):
        several.names_of(arguments)


@pytest.mark.parametrize("text", ["vm[01:03", "vm01:03]", "vm[5:1]", "vm[01:100]", "vm[1:999999999999]", "vm[a:2]"])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        several.names_of((text,))


@pytest.mark.parametrize(
    ("vms", "one"), [(("vm01",), "vm01"), (("vm[1]",), "vm[1]"), (("vm[01:01]",), None), (("vm01", "vm02"), None)]
)
def test_what_is_said_of_one_vm_is_printed_as_of_one(vms: tuple[str, ...], one: str | None) -> None:
    """A range of one is still a range: what a script reads does not depend on how many there are."""
    assert several.only_one(vms, None) == one


@pytest.mark.parametrize(
    "words",
    [
        *(
            f"attach {one}"
            for one in ("vm01", "--profile 4Q", "--gpu-memory 4G", "--max-waste 5", "--usable", "--count 1")
        ),
        *("attach --slot vgpu0", "attach --gpu-id 0000:41:00.0", "detach vm01", "detach --slot vgpu0", "detach --all"),
    ],
)
def test_what_a_file_says_cannot_be_said_beside_it(words: str) -> None:
    found = CliRunner().invoke(program, [*words.split(), "-f", "vms.yml"])
    assert isinstance(found.exception, UsageError)
    assert "-f" in found.exception.message


@pytest.mark.parametrize("slot", ["vgpu0", "vgpu1"])
def test_a_slot_cannot_be_named_beside_a_count(slot: str) -> None:
    """Not even the one that is the default."""
    found = CliRunner().invoke(program, ["attach", "vm01", "--profile", "4Q", "--count", "2", "--slot", slot])
    assert isinstance(found.exception, UsageError)
    assert found.exception.message == "--slot and --count cannot be combined"


def test_a_list_of_vms_is_read_from_a_file_and_an_at_within_a_name_is_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "vms").write_text("vm01\n# off\nvm02\n")
    with detach.make_context("detach", [f"@{tmp_path / 'vms'}", "web@site b"]) as context:
        assert context.params["vms"] == ("vm01", "vm02", "web@site b")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("attach", "-f", "one.yml", "-f", "two.yml"), "-f is given 2 times: one.yml, two.yml"),
        (("--group", "kvm", "--group", "web", "list"), "--group is given 2 times: kvm, web"),
    ],
)
def test_of_an_option_given_twice_the_first_is_not_dropped(words: tuple[str, ...], said: str) -> None:
    """found: fresh eyes"""
    error = CliRunner().invoke(program, words, standalone_mode=False).exception
    assert isinstance(error, UsageError)
    assert error.message == said


def test_inventories_before_and_after_the_command_are_merged(tmp_path: Path) -> None:
    """found: fresh eyes"""
    words: list[str] = []
    for name, host in (("base", "kvm01"), ("site", "kvm02")):
        (tmp_path / f"{name}.yml").write_text(f"hypervisors: {{hosts: {{{host}: }}}}\n")
        words += ["-i", str(tmp_path / f"{name}.yml")]
    found = CliRunner().invoke(program, [*words[:2], "inventory", "check", *words[2:]])
    assert "2 hosts, 0 VMs declared" in found.output
