"""TAB: what a shell is offered, by real bash where a shell matters, and that no host is ever asked for it."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests.unit.store.samples_of import SECOND, T0, load, measured_round
from vgpumgr.cli.main import main, program
from vgpumgr.core.driver import profiles
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Intent
from vgpumgr.store.place import SAMPLES
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Offered = Callable[..., list[str]]

ROOT = Path(__file__).resolve().parents[4]
_PROGRAM = "import sys; from vgpumgr.cli.main import main; main()"

HOSTS = """\
hypervisors:
  hosts: {kvm01: , kvm02: }
rack1: {hosts: {kvm01: }}
"""
KVM01 = """\
vgpumgr_gpus:
  "0000:41:00.0": {mode: equal-size}
  "0000:81:00.0": {mode: equal-size}
vgpumgr_vms:
  vm02: {vgpu0: {profile: 4Q}, big: {profile: 8Q}}
  vm03: {vgpu0: {profile: 4Q}}
"""
KVM02 = """\
vgpumgr_gpus:
  "0000:c1:00.0": {mode: equal-size}
vgpumgr_vms:
  web01: {vgpu0: {profile: 4Q}}
"""

# Ends the program at the first thing that could reach a host, and writes down what was imported.
GUARD = """
import atexit, os, sys

def guard(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork"):
        sys.stderr.write(f"{event} {arguments}")
        sys.stderr.flush()
        os._exit(99)

sys.addaudithook(guard)
atexit.register(lambda: open(os.environ["IMPORTED"], "w").write(" ".join(sys.modules)))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an inventory, one that is broken, and the guard as sitecustomize."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in {
        "inventory/hosts.yml": HOSTS,
        "inventory/host_vars/kvm01.yml": KVM01,
        "inventory/host_vars/kvm02.yml": KVM02,
        "broken/hosts.yml": "hypervisors: [",
        "guard/sitecustomize.py": GUARD,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def environment(site: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(site),
        "PYTHONPATH": f"{site / 'guard'}:{ROOT}",
        "IMPORTED": str(site / "imported"),
        "VGPUMGR_INVENTORY": str(site / "inventory"),
        "VGPUMGR_STORE": str(site / "store.sqlite"),
        **more,
    }


@pytest.fixture
def answered(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """What the program answers a shell that has set these variables: its lines."""
    monkeypatch.chdir(site)

    def ask(**variables: str) -> list[str]:
        with monkeypatch.context() as patch:
            for name, value in environment(site, **variables).items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as end:
                main()
        said = capsys.readouterr()
        assert (end.value.code, said.err) == (0, "")
        return said.out.splitlines()

    return ask


@pytest.fixture
def offered(answered: Callable[..., list[str]]) -> Offered:
    """What bash is offered for a line whose cursor is at its end: the bare names."""

    def ask(line: str, **more: str) -> list[str]:
        answer = answered(COMP_LINE=line, _VGPUMGR_COMPLETE="bash_complete", **more)
        return [row.removeprefix("plain,") for row in answer]

    return ask


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("vgpumgr att", ["attach"]),
        ("vgpumgr lab re", ["reboot"]),
        ("vgpumgr attach vm02 --pro", ["--profile"]),
        ("vgpumgr -o js", ["json", "jsonl"]),
        ("vgpumgr list --output=js", ["json", "jsonl"]),
        ("vgpumgr show ", ["vm02", "vm03", "web01"]),
        ("vgpumgr show --on kvm02 ", ["web01"]),
        ("vgpumgr detach w", ["web01"]),
        ("vgpumgr attach vm02 vm", ["vm03"]),
        ("vgpumgr attach vm02 web01 --slot ", ["vgpu0", "big"]),
        ("vgpumgr attach --par", ["--partial", "--param"]),
        ("vgpumgr list ", ["vm02", "vm03", "web01", "kvm01", "kvm02", "rack1"]),
        ("vgpumgr list kvm01 k", ["kvm02"]),
        ("vgpumgr units ", ["kvm01", "kvm02", "rack1"]),
        ("vgpumgr discover rack1,k", ["rack1,kvm01", "rack1,kvm02"]),
        ("vgpumgr plan '!r", []),  # a word that must be quoted is not completed
        ("vgpumgr plan rack1:kvm0", ["rack1:kvm01", "rack1:kvm02"]),
        ("vgpumgr --group ", ["all", "hypervisors", "rack1", "ungrouped"]),
        ("vgpumgr top r", ["rack1"]),
        ("vgpumgr adopt ", ["kvm01", "kvm02"]),
        ("vgpumgr explain --comp", ["--compute", "--compare"]),
        ("vgpumgr plan --limit ", ["kvm01", "kvm02", "rack1"]),
        ("vgpumgr reconcile --limit kvm01,", ["kvm01,kvm02", "kvm01,rack1"]),
        ("vgpumgr scheduler set --on kvm02 --gpu-id ", ["0000:c1:00.0"]),
        ("vgpumgr scheduler show kvm01 ", ["kvm02", "rack1"]),
        ("vgpumgr show vm02 --on kvm0", ["kvm01", "kvm02"]),
        ("vgpumgr attach vm02 --slot ", ["vgpu0", "big"]),
        ("vgpumgr attach vm03 --slot ", ["vgpu0"]),
        ("vgpumgr attach vm99 --slot ", ["vgpu0"]),
        ("vgpumgr render --slot ", ["vgpu0", "big"]),
        ("vgpumgr attach vm02 --gpu-id ", ["0000:41:00.0", "0000:81:00.0"]),
        ("vgpumgr attach vm99 --gpu-id 0000:c", ["0000:c1:00.0"]),
        ("vgpumgr attach vm02 --profile A40-4", ["A40-4A", "A40-4C", "A40-4Q", "A40-48A", "A40-48C", "A40-48Q"]),
        ("vgpumgr lab up --spec mdev", ["mdev-pf", "mdev-vf"]),
        ("vgpumgr lab ssh ", []),
        ("vgpumgr nosuch ", []),
        ("vgpumgr completion ", ["bash", "zsh", "fish"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tab_offers_what_can_stand_there(offered: Offered, line: str, names: list[str]) -> None:
    """Commands, options, choices, and names from the inventory, narrowed by what the line says already."""
    assert offered(line) == names


def test_short_profiles_come_before_those_with_a_board(offered: Offered) -> None:
    names = offered("vgpumgr attach vm02 --profile ")
    assert {"4Q", "A40-4Q"} <= set(names)
    boards = [profiles.parse_profile(name).board is not None for name in names]
    assert boards == sorted(boards)


def test_tab_reaches_no_host_and_loads_nothing_that_could(site: Path) -> None:
    """Names come without a socket, without a process, and without paramiko or libvirt; the guard does stop those."""

    def ended(program: str, **more: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment(site, **more),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout

    for line in ("vgpumgr show ", "vgpumgr attach vm02 --gpu-id ", "vgpumgr list "):
        code, names = ended(_PROGRAM, COMP_LINE=line, _VGPUMGR_COMPLETE="bash_complete")
        assert (code, bool(names)) == (0, True)
        imported = set((site / "imported").read_text(encoding="utf-8").split())
        assert "vgpumgr.cli.params.candidates" in imported
        assert imported & {"paramiko", "libvirt", "vgpumgr.store.sql.journal", "vgpumgr.link.connection"} == set()
    assert ended("import socket; socket.create_connection(('127.0.0.1', 1))")[0] == 99


def test_a_vm_that_the_journal_has_seen_is_offered_too(offered: Offered, tmp_path: Path) -> None:
    """One that was only ever attached by hand; a journal that is no journal offers nothing more."""
    journal = Journal(tmp_path / "store.sqlite", warn=pytest.fail)
    journal.begin(Intent(verb="attach", why="", host="kvm01", vm="hand01"), by="anna@ctl1", at="2026-11-21T12:00:00Z")
    (tmp_path / "torn").write_bytes(b"no database at all")
    seen, torn = str(journal.path), str(tmp_path / "torn")
    assert offered("vgpumgr show h", VGPUMGR_STORE=seen) == ["hand01"]
    assert offered("vgpumgr history ", VGPUMGR_STORE=seen) == [
        "hand01",
        "vm02",
        "vm03",
        "web01",
        "kvm01",
        "kvm02",
        "rack1",
    ]
    assert offered("vgpumgr show ", VGPUMGR_STORE=torn) == ["vm02", "vm03", "web01"]


def test_what_collect_has_seen_is_offered_and_only_the_profiles_of_those_boards(
    offered: Offered, tmp_path: Path
) -> None:
    """Nothing is known of the boards before: then all profiles are offered, but for those of GPU instances."""
    none = str(tmp_path / "none.sqlite")
    before = offered("vgpumgr attach vm02 --profile 4", VGPUMGR_STORE=none)
    assert {"4C", "4Q", "48Q"} <= {*before}
    assert not any("-" in name for name in before)
    store = tmp_path / "store.sqlite"
    Samples(tmp_path / SAMPLES).add(
        [measured_round({"vm41": load(10)}, since_us=T0, until_us=T0 + SECOND)], every_s=None
    )
    assert offered("vgpumgr show vm4", VGPUMGR_STORE=str(store)) == ["vm41"]
    known = offered("vgpumgr attach vm02 --profile 4", VGPUMGR_STORE=str(store))
    assert set(known) == {"4A", "4C", "4Q", "48A", "48C", "48Q"}
    gpus = offered("vgpumgr attach vm41 --on kvm01 --gpu-id ", VGPUMGR_STORE=str(store))
    assert gpus == ["0000:41:00.0", "0000:81:00.0"]


EVIL = ("web$(touch PWNED)", "web`id`", "web;id", "web 2", "web'", "web\nplain,web9", "web2")


@pytest.mark.parametrize(("shell", "offers"), [("bash", {"web2"}), ("zsh", {*EVIL} - {EVIL[5]})])
def test_a_name_that_a_shell_would_run_or_take_for_two_is_not_offered(
    answered: Callable[..., list[str]], tmp_path: Path, shell: str, offers: set[str]
) -> None:
    """bash puts an answer into the line as it is; zsh and fish quote it, and only a line break would be two answers."""
    journal = Journal(tmp_path / "store.sqlite", warn=pytest.fail)
    for vm in EVIL:
        journal.begin(Intent(verb="attach", why="", host="kvm01", vm=vm), by="anna@ctl1", at="2026-11-21T12:00:00Z")
    line = "vgpumgr show web"
    typed = {"COMP_LINE": line} if shell == "bash" else {"COMP_WORDS": line, "COMP_CWORD": "2"}
    answer = answered(VGPUMGR_STORE=str(journal.path), _VGPUMGR_COMPLETE=f"{shell}_complete", **typed)
    assert {row.removeprefix("plain,") for row in answer} - {"plain", "_", "web01"} == offers


@pytest.mark.parametrize("folder", ["broken", "nosuch"])
def test_a_broken_inventory_offers_nothing_and_says_nothing(site: Path, offered: Offered, folder: str) -> None:
    """By the environment and by the line's own -i; commands and options are still completed."""
    path = str(site / folder)
    assert offered("vgpumgr show ", VGPUMGR_INVENTORY=path) == []
    assert offered(f"vgpumgr -i {path} show ") == []
    assert offered("vgpumgr sh", VGPUMGR_INVENTORY=path) == ["show"]


def test_the_lines_own_inventory_counts(site: Path, offered: Offered) -> None:
    """-i before or after the command, as the command itself would take it."""
    good, path = str(site / "broken"), site / "inventory"
    assert offered(f"vgpumgr -i {path} discover k", VGPUMGR_INVENTORY=good) == ["kvm01", "kvm02"]
    assert offered("vgpumgr discover -i ~/inventory k", VGPUMGR_INVENTORY=good) == ["kvm01", "kvm02"]
    assert offered("vgpumgr --group rack1 discover k") == ["kvm01"]


@pytest.mark.parametrize(
    ("shell", "typed", "answer"),
    [
        ("zsh", "w", ["plain", "web01", "_"]),
        ("zsh", "--on=kvm02", ["plain", "--on=kvm02", "_"]),
        ("fish", "w", ["plain,web01"]),
        ("fish", "--on=kvm02", ["plain,--on=kvm02"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_zsh_and_fish_are_answered_in_their_own_form(
    answered: Callable[..., list[str]], shell: str, typed: str, answer: list[str]
) -> None:
    """zsh gives all words and the index of the one at the cursor, fish the word itself; both replace it whole."""
    word = {"zsh": "2", "fish": typed}[shell]
    found = answered(COMP_WORDS=f"vgpumgr show {typed}", COMP_CWORD=word, _VGPUMGR_COMPLETE=f"{shell}_complete")
    assert found == answer


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_the_program(shell: str) -> None:
    """It names the program and the variable; a shell that is installed here also finds its grammar right."""
    script = source(shell)
    assert f"_VGPUMGR_COMPLETE={shell}_complete" in script
    assert "vgpumgr" in script.splitlines()[0]
    program = shutil.which(shell)
    if program is not None:
        checked = subprocess.run([program, "-n"], input=script, capture_output=True, text=True, check=False, timeout=60)
        assert (checked.returncode, checked.stderr) == (0, "")


def source(shell: str) -> str:
    found = CliRunner().invoke(program, ["completion", shell])
    assert found.exit_code == 0
    return found.stdout


# bash at a terminal: C-g completes, C-t puts every candidate into the line, C-o writes the line to a file.
_RC = """\
PS1=
bind '"\\C-g": complete'
bind '"\\C-t": insert-completions'
bind -x '"\\C-o": printf %s "$READLINE_LINE" > line.new && mv line.new line'
. ./completion.bash
printf %s ready > ready
"""


class Bash:
    """A real bash with the script loaded, in whose line keys can be pressed."""

    def __init__(self, site: Path) -> None:
        (site / "bin").mkdir(exist_ok=True)
        program = site / "bin/vgpumgr"
        program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{_PROGRAM}' \"$@\"\n", encoding="utf-8")
        program.chmod(0o755)
        (site / "completion.bash").write_text(source("bash"), encoding="utf-8")
        (site / "rc").write_text(_RC, encoding="utf-8")
        self._site = site
        self._terminal, inner = pty.openpty()
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--rcfile", "rc", "-i"],
            cwd=site,
            env=environment(site, PATH=f"{site / 'bin'}:/usr/bin:/bin", TERM="dumb"),
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)
        self._await("ready")

    def line(self, typed: str) -> str:
        """The line after these keys; it is cleared afterwards."""
        os.write(self._terminal, f"{typed}\x0f".encode())
        found = self._await("line")
        os.write(self._terminal, b"\x15")
        return found

    def _await(self, name: str) -> str:
        file = self._site / name
        deadline = time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < deadline, f"bash wrote no {name}"
            time.sleep(0.02)
        text = file.read_text(encoding="utf-8")
        file.unlink()
        return text

    def end(self) -> None:
        os.close(self._terminal)  # the terminal goes, and bash with it
        self._process.wait(timeout=30)


@pytest.fixture(scope="module")
def bash(site: Path) -> Iterator[Bash]:
    shell = Bash(site)
    yield shell
    shell.end()


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("vgpumgr att\x07", "vgpumgr attach "),
        ("vgpumgr show w\x07", "vgpumgr show web01 "),
        ("vgpumgr attach vm02 --gpu-id 0000:4\x07", "vgpumgr attach vm02 --gpu-id 0000:41:00.0 "),
        ("vgpumgr attach vm02 --gpu-id=0000:8\x07", "vgpumgr attach vm02 --gpu-id=0000:81:00.0 "),
        ("vgpumgr list --output=y\x07", "vgpumgr list --output=yaml "),
        ("vgpumgr plan --limit kvm01,k\x07", "vgpumgr plan --limit kvm01,kvm02 "),
        ("vgpumgr units \x14", "vgpumgr units kvm01 kvm02 rack1 "),
        ("cd .; LANG=C vgpumgr show vm\x14", "cd .; LANG=C vgpumgr show vm02 vm03 "),
        ("vgpumgr lab up --dir inventory/host_v\x07", "vgpumgr lab up --dir inventory/host_vars/"),
        ("vgpumgr -i nosuch show \x07", "vgpumgr -i nosuch show "),
    ],
    ids=repr,
)
def test_real_bash_completes_the_line(bash: Bash, typed: str, line: str) -> None:
    """Also names with colons, at which bash breaks words, options with =, and folders."""
    assert bash.line(typed) == line
