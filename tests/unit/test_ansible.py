"""The collection without Ansible: the inventory that a task acts on, and hints in Ansible's words."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import sources
from tests.sources import PRODUCT
from tests.unit import sentences
from vgpumgr.core.commands import command, virsh
from vgpumgr.errors import UsageError
from vgpumgr.wording import Command, Option, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.wording import Message


COLLECTION = Path(__file__).resolve().parents[2] / "ansible"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The module under the name that Ansible gives it, without Ansible."""
    folder = tmp_path_factory.mktemp("collections")
    (folder / "ansible_collections" / "vgpumgr").mkdir(parents=True)
    (folder / "ansible_collections" / "vgpumgr" / "kvm").symlink_to(COLLECTION)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield importlib.import_module("ansible_collections.vgpumgr.kvm.plugins.module_utils.running")


@pytest.fixture
def given(running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What a task takes, in a folder with an ./inventory that nobody named."""
    monkeypatch.chdir(tmp_path)
    for name in ("inventory", "staging", "common"):
        (tmp_path / name).mkdir()
    (tmp_path / "one.yml").write_text("all: {}\n")
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)

    def take(*sources: str) -> list[str]:
        found: list[str] = running.Run(params={}, check=False, diff=False, sources=sources)._given()
        return found

    return take


@pytest.mark.parametrize("sources", [("staging",), ("one.yml",), ("common", "staging")])
def test_those_that_ansible_was_given_are_the_tasks(
    given: Callable[..., list[str]], tmp_path: Path, sources: tuple[str, ...]
) -> None:
    assert given(*sources) == [str(tmp_path / source) for source in sources]


@pytest.mark.parametrize("sources", [("script",), ("kvm01,",), ("nowhere",), ("staging", "script")])
def test_one_that_is_not_read_is_a_mistake_that_names_the_option(
    given: Callable[..., list[str]], sources: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as raised:
        given(*sources)
    assert sources[-1] in raised.value.message
    assert "inventory: DIR" in str(raised.value.hint)


@pytest.mark.parametrize("sources", [(), ("/etc/ansible/hosts",)])
def test_where_ansible_was_given_none_the_usual_places_count(
    given: Callable[..., list[str]], sources: tuple[str, ...]
) -> None:
    assert given(*sources) == []


def test_what_a_person_reads_is_in_ansibles_words_and_data_stay_as_they_are(running: Any) -> None:
    run = running.Run(params={}, check=False, diff=False)
    run.warnings.append(say("name the host with {}", Option("--on")))
    see = say("see {}", Option("--gpu-id", "0000:41:00.0"))
    row = {"msg": say("use {}", Option("--slot")), "requested": "--gpu 0.2", "details": [see]}
    result = running.caught(lambda _run: {"vms": [row]}, run)
    assert result["warnings"] == ["name the host with `host:`"]
    assert result["vms"] == [
        {"msg": "use `slot:`", "requested": "--gpu 0.2", "details": ["see `gpu_id: 0000:41:00.0`"]}
    ]


def test_what_a_hypervisor_says_is_cleaned_in_the_whole_result(running: Any) -> None:
    run = running.Run(params={}, check=False, diff=False)
    run.warnings.append("a\x1b[2J")
    result = running.caught(lambda _run: {"msg": "b\x07", "vms": [{"vm": "c\x9b", "changed": False}], "n": 1}, run)
    assert result == {
        "msg": "b\\x07",
        "vms": [{"vm": "c\\x9b", "changed": False}],
        "n": 1,
        "warnings": ["a\\x1b[2J"],
    }


# What a task of the collection runs. The rest of the package speaks to people at a command line only.
SPOKEN_BY = ("controller", "core", "documents", "inventory_files", "link", "names.py", "store")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OURS = re.compile(r"`vgpumgr (?:attach|detach|reconcile) (?!x1)[^`]*`")


def test_each_option_and_command_that_a_task_can_say_is_a_value_in_its_message(running: Any) -> None:
    """Only then a task says it as Ansible does."""
    spoken = [
        (file, text)
        for file in sources.files("vgpumgr")
        if str(file.relative_to(PRODUCT)).partition("/")[0] in SPOKEN_BY
        for text in sentences.texts(sources.tree(file), filled=False)
        if " " in text.strip() and (OPTION.search(text) or OURS.search(text))
    ]
    assert spoken, "virsh's options stay in sentences"
    for file, text in spoken:
        assert not {*OPTION.findall(text)} & {*running.spelling._KEYS, *running.spelling._SWITCHES}, f"{file}: {text}"
        assert not OURS.search(text), f"{file}: {text}"


def attach(*words: str) -> Command:
    return Command("vgpumgr", "attach", *words)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (say("the VM's host with {}", Option("--on")), "the VM's host with `host:`"),
        (say("name one: {}", Option("--on", "kvm01")), "name one: `host: kvm01`"),
        (say("ask with {} or {}", Option("--gpu"), Option("--gpu-memory")), "ask with `gpu:` or `gpu_memory:`"),
        (say("{} makes another", Option("--replace")), "`replace: always` makes another"),
        (say("{}: no such folder", Option("-i/--inventory")), "`inventory:`: no such folder"),
        (
            say("`{}`", attach("vm01", "--profile", "8Q", "--gpu-id", "0000:81:00.0", "--replace")),
            "`vgpumgr.kvm.vgpu: {name: vm01, profile: 8Q, gpu_id: '0000:81:00.0', replace: always}`",
        ),
        (
            say("`{}`", command("detach", "-vm", slot="vgpu1", on="kvm01", options=("--keep-snapshots",))),
            "`vgpumgr.kvm.vgpu: {name: -vm, keep_snapshots: true, slot: vgpu1, host: kvm01, state: absent}`",
        ),
        (
            say("`{}`", Command("vgpumgr", "reconcile", "--confirm-destroys", "3")),
            "`vgpumgr.kvm.vgpu_reconcile: {confirm_destroys: 3}`",
        ),
        # No task does these: they stay commands of a shell, whole.
        (say("`{}` frees its only slot", command("detach", "vm01")), "`vgpumgr detach vm01` frees its only slot"),
        (say("{}", attach("vm01", "--profile", "4Q", "--live")), "vgpumgr attach vm01 --profile 4Q --live"),
        (say("{}", Command("vgpumgr", "uncordon", "kvm01", "--gpu-id", "X")), "vgpumgr uncordon kvm01 --gpu-id X"),
        (say("{}", virsh("edit", "vm01")), "virsh edit vm01"),
        (say("inspect it with {}", Option("--check")), "inspect it with --check"),  # ansible-playbook has it itself
    ],
)
def test_an_option_becomes_the_modules_own_and_a_command_its_task(running: Any, ours: Message, theirs: str) -> None:
    said = running.spelling.in_words_of_ansible(say("a: {}", ours))
    assert (said, type(said)) == (f"a: {theirs}", str)


def test_a_message_that_is_nothing_but_an_option_or_a_command_is_said_alike(running: Any) -> None:
    alone = [Option("--policy", "fixed-share"), Command("vgpumgr", "reconcile", "--confirm-destroys", "3")]
    assert running.spelling.in_words_of_ansible(alone) == [
        "`policy: fixed-share`",
        "vgpumgr.kvm.vgpu_reconcile: {confirm_destroys: 3}",
    ]
