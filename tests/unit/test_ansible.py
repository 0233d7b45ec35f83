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
from vgpumgr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
    run.warnings.append("name the host with --on")
    row = {"msg": "use --slot", "requested": "--gpu 0.2", "details": ["see --gpu-id 0000:41:00.0"]}
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
# Use cases of commands that no module has. A task never comes there.
NOT_OF_A_TASK = {
    "controller/drain.py",
    "controller/install_files.py",
    "core/model/login_lines.py",  # host sudoers, host user
    "core/slot/kept.py",  # a plan in a file
    "core/slot/live.py",  # attach --live
    "core/gpu/size_mode.py",
    "core/report/capacity.py",
}
# A plan in a file, slots without a name and running VMs, which no task has; and an option of virsh.
OF_OTHERS = {"--out", "--all", "--live", "--force-live-detach", "--count", "--remove", "--list"}
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OURS = re.compile(r"`vgpumgr (?:attach|reconcile) [^`]*`")


@pytest.fixture(scope="module")
def said(running: Any) -> Any:
    return importlib.import_module(f"{running.__package__}.spelling").said


def _spoken() -> list[tuple[str, str]]:
    assert all((PRODUCT / name).is_file() for name in NOT_OF_A_TASK)
    names = {str(file.relative_to(PRODUCT)): file for file in sources.files("vgpumgr")}
    return [
        (name, text)
        for name, file in names.items()
        if name.partition("/")[0] in SPOKEN_BY and name not in NOT_OF_A_TASK and OPTION.search(sources.text(file))
        for text in sentences.texts(sources.tree(file))
        if OPTION.search(text) and " " in text.strip()
    ]


def test_no_sentence_that_a_task_can_say_holds_an_option_of_the_command_line(said: Any) -> None:
    spoken = _spoken()
    assert len(spoken) > 20
    for name, text in spoken:
        told = said(text)
        outside = "".join(told.split("`")[::2])
        assert set(OPTION.findall(outside)) <= OF_OTHERS, f"{name}: {told}"
        assert not OURS.search(told), f"{name}: {told}"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("name the VM's host with --on", "name the VM's host with `host:`"),
        ("name one: --on kvm01", "name one: `host: kvm01`"),
        ("ask with --gpu or --gpu-memory", "ask with `gpu:` or `gpu_memory:`"),
        ("has --gpu 0.2 --max-waste 30, not that", "has `gpu: 0.2` `max_waste: 30`, not that"),
        ("--replace creates another one and keeps it", "`replace: always` creates another one and keeps it"),
        ("-i/--inventory: no such folder", "`inventory:`: no such folder"),
        ("a larger --timeout waits longer", "a larger `timeout:` waits longer"),
        (
            "`vgpumgr attach vm01 --profile 8Q --gpu-id 0000:81:00.0 --replace` replaces it",
            "`vgpumgr.kvm.vgpu: {name: vm01, profile: 8Q, gpu_id: '0000:81:00.0', replace: always}` replaces it",
        ),
        (
            "`vgpumgr detach --slot vgpu1 --on kvm01 --keep-snapshots -- -vm` frees it",
            "`vgpumgr.kvm.vgpu: {name: -vm, slot: vgpu1, host: kvm01, keep_snapshots: true, state: absent}` frees it",
        ),
        (
            "if the inventory is right: `vgpumgr reconcile --confirm-destroys 3`",
            "if the inventory is right: `vgpumgr.kvm.vgpu_reconcile: {confirm_destroys: 3}`",
        ),
        # No task does these: they stay commands of a shell, whole.
        ("`vgpumgr detach vm01` frees its only slot", "`vgpumgr detach vm01` frees its only slot"),
        ("`vgpumgr attach vm01 --profile 4Q --live`", "`vgpumgr attach vm01 --profile 4Q --live`"),
        ("`vgpumgr uncordon kvm01 --gpu-id X`", "`vgpumgr uncordon kvm01 --gpu-id X`"),
        ("`virsh attach-device VM FILE --config`", "`virsh attach-device VM FILE --config`"),
        ("`it's no command`", "`it's no command`"),
        ("inspect it with --check --diff", "inspect it with --check --diff"),  # ansible-playbook has these itself
        ("ssh -- kvm01", "ssh -- kvm01"),
    ],
)
def test_an_option_becomes_the_modules_own_and_a_command_its_task(said: Any, ours: str, theirs: str) -> None:
    assert said(ours) == theirs
