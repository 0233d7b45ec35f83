"""Which inventory a task of the collection acts on: the one that Ansible was given, or a named one, and never a third."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

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
def given(running: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str | None]:
    """What a task takes, in a folder with an ./inventory that nobody named."""
    monkeypatch.chdir(tmp_path)
    for name in ("inventory", "staging", "common"):
        (tmp_path / name).mkdir()
    (tmp_path / "one.yml").write_text("all: {}\n")
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)

    def take(*sources: str) -> str | None:
        found: str | None = running.Run(params={}, check=False, diff=False, sources=sources)._given()
        return found

    return take


@pytest.mark.parametrize("source", ["staging", "one.yml"])
def test_the_one_that_ansible_was_given_is_the_tasks(
    given: Callable[..., str | None], tmp_path: Path, source: str
) -> None:
    assert given(source) == str(tmp_path / source)


@pytest.mark.parametrize("sources", [("staging", "common"), ("script",), ("kvm01,",), ("nowhere",)])
def test_several_or_one_that_is_not_read_is_a_mistake_that_names_the_option(
    given: Callable[..., str | None], sources: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as raised:
        given(*sources)
    assert all(source in raised.value.message for source in sources)
    assert "inventory: DIR" in str(raised.value.hint)


@pytest.mark.parametrize("sources", [(), ("/etc/ansible/hosts",)])
def test_where_ansible_was_given_none_the_usual_places_count(
    given: Callable[..., str | None], sources: tuple[str, ...]
) -> None:
    assert given(*sources) is None


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
