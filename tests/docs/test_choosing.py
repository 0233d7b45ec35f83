"""docs/choosing.md: its inventory is read, every row of its table is tried, and its commands answer as they are shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from vgpumgr.cli.main import run
from vgpumgr.cli.params.choosing import expanded
from vgpumgr.inventory_files.reader import load

PAGE = (Path(__file__).parents[2] / "docs/choosing.md").read_text(encoding="utf-8")
SITE = re.search(r"```yaml\n(hypervisors:.*?)```", PAGE, re.DOTALL)
ROWS = re.findall(r"^\| (`.+`) \| ([a-z0-9. ]+) \|$", PAGE.partition("| argument | hosts |")[2], re.MULTILINE)
COMMANDS = re.findall(r"^\$ vgpumgr (.+)\n((?:(?!\$ |```).+\n)+)", PAGE, re.MULTILINE)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the page's inventory and file."""
    assert SITE is not None
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/hosts.yml").write_text(SITE[1], encoding="utf-8")
    (tmp_path / "tonight.retry").write_text("kvm03\n\n gpu01.example.net\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VGPUMGR_INVENTORY", raising=False)
    return tmp_path


@pytest.mark.parametrize(("written", "names"), ROWS)
def test_each_row_of_the_table_is_true(folder: Path, written: str, names: str) -> None:
    found = load(folder / "inventory", home=folder, environ={})
    for text in re.findall(r"`(.+?)`", written.replace(r"\|", "|")):
        chosen = found.chosen(expanded(shlex.split(text)))
        assert sorted(host.name for host in chosen) == sorted(names.split())


@pytest.mark.parametrize(("command", "told"), COMMANDS)
def test_each_command_answers_as_it_is_shown(
    folder: Path, command: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shlex.split(command)) == 2
    assert capsys.readouterr().err.replace(str(folder), "/etc/vgpumgr") == told


def test_all_examples_were_found() -> None:
    assert (len(ROWS), len(COMMANDS)) == (14, 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("@none", "@none cannot be read: No such file"),
        ("@empty", "@empty names nothing"),
        ("kvm01,@.", "@. cannot be read"),
        ("@~nobody-of-that-name/list", "cannot be read: No such file"),
    ],
)
def test_a_file_that_names_no_host_is_not_taken_for_all_of_them(
    folder: Path, text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").write_text("\n \n")
    assert run(["list", text]) == 2
    assert told in capsys.readouterr().err
    assert run(["show", "vm01", "--on", text]) == 2
    assert told in capsys.readouterr().err


def test_a_comment_in_a_file_names_nothing_and_the_missing_host_of_a_range_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "few").write_text("# tonight\nkvm01\n  # and\nkvm02\n")
    assert expanded(["@few"]) == ("kvm01", "kvm02")
    (folder / "of-windows").write_bytes(b"\xef\xbb\xbfkvm01\r\nkvm02\r\n")
    assert expanded(["@of-windows"]) == ("kvm01", "kvm02")
    assert run(["discover", "kvm[01:99]"]) == 2
    assert re.search(r"no host 'kvm\d\d' in .*\nhint: it is one of kvm\[01:99\]", capsys.readouterr().err)


def test_arguments_and_limit_name_the_hosts_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "kvm01", "--limit", "kvm02"]) == 2
    assert "--limit and arguments cannot be combined" in capsys.readouterr().err
