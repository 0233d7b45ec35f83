"""Where a person watches: the line about the progress, and the pager."""

from __future__ import annotations

import io
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from vgpumgr.cli import wiring
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.text import output, status_line
from vgpumgr.cli.text.status_line import StatusLine
from vgpumgr.controller.context import Done, Progress, Slow, Steps
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from pathlib import Path


SLOW = (Slow(HostName("kvm05"), 9.4), Slow(HostName("kvm11"), 6.0), Slow(HostName("kvm12"), 5.1))


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (79, "12 of 20 hosts read; slow: kvm05 (9 s), kvm11 (6 s), kvm12 (5 s)"),
        (63, "12 of 20 hosts read; slow: kvm05 (9 s), kvm11 (6 s) and 1 more"),
        (52, "12 of 20 hosts read; slow: kvm05 (9 s) and 2 more"),
        (40, "12 of 20 hosts read; 3 slow"),
        (10, "12 of 20 h"),
    ],
)
def test_it_names_as_many_slow_hosts_as_fit(width: int, said: str) -> None:
    assert status_line.text(Progress(ended=12, hosts=20, slow=SLOW), width) == said


def test_it_counts_steps_while_hosts_are_changed_of_one_host_too() -> None:
    slow = (Slow(HostName("kvm05"), 9.4, "execute"),)
    changing = Progress(ended=12, hosts=40, slow=slow, steps=Steps(48, 160))
    assert status_line.text(changing, 79) == "48 of 160 steps done; slow: kvm05 (change, 9 s)"
    assert status_line.text(changing, 30) == "48 of 160 steps done; 1 slow"
    alone = Progress(ended=0, hosts=1, slow=slow, steps=Steps(0, 1))
    assert status_line.text(alone, 79) == "0 of 1 step done; slow: kvm05 (change, 9 s)"


def test_it_says_at_what_a_host_is_waited_for() -> None:
    one = Slow(HostName("kvm07"), 6.2, "auth")
    assert (
        status_line.text(Progress(ended=1, hosts=2, slow=(one,)), 79) == "1 of 2 hosts read; slow: kvm07 (login, 6 s)"
    )
    assert status_line.text(Progress(ended=0, hosts=1, slow=(one,)), 79) == "waiting for kvm07: login (6 s)"
    behind = Slow(HostName("kvm07"), 6.2, "via jump01")
    assert status_line.text(Progress(ended=0, hosts=1, slow=(behind,)), 79) == "waiting for kvm07: via jump01 (6 s)"


def test_it_comes_late_and_goes_when_all_have_ended_or_something_else_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: moment)
    status = StatusLine()
    monkeypatch.setattr(output, "STATUS", status)
    status.show(Progress(ended=0, hosts=2))
    moment += 0.5
    status.show(Progress(ended=0, hosts=2))
    assert capsys.readouterr().err == ""
    moment += 1
    status.show(Progress(ended=1, hosts=2))
    status.show(Progress(ended=1, hosts=2))
    assert capsys.readouterr().err == "\r\x1b[K1 of 2 hosts read"
    output.progress(Settings(), "a line")
    assert capsys.readouterr().err == "\r\x1b[Ka line\n"
    output.echo("another")
    moment += 1
    status.show(Progress(ended=1, hosts=2))
    status.show(Progress(ended=2, hosts=2))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("another\n", "\r\x1b[K1 of 2 hosts read\r\x1b[K")


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        (Settings(), True),
        (Settings(output="wide"), True),
        (Settings(output="json"), False),
        (Settings(quiet=True), False),
        (Settings(verbose=1), False),
        (Settings(log_format="json"), False),
    ],
)
def test_only_a_person_who_watches_gets_one(settings: Settings, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_line, "is_possible", lambda: True)
    assert wiring._shows_status(settings) is shown
    monkeypatch.setattr(status_line, "is_possible", lambda: False)
    assert wiring._shows_status(settings) is False


@pytest.mark.parametrize(
    ("settings", "terminal", "said"),
    [
        (Settings(), False, "kvm01: vm07 vgpu0 done (4 of 12 steps)\n"),
        (Settings(), True, ""),
        (Settings(verbose=1), True, ""),
        (Settings(quiet=True), False, ""),
        (Settings(output="json"), False, ""),
    ],
)
def test_where_it_is_not_possible_each_change_gets_a_line_of_its_own(
    settings: Settings,
    *,
    terminal: bool,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(status_line, "is_possible", lambda: terminal)
    monkeypatch.setattr(wiring, "collect_seldom", lambda: None)
    (tmp_path / "hosts.yml").write_text("hypervisors: {hosts: {kvm01: }}\n")
    context = wiring.build_context(replace(settings, inventory=(str(tmp_path),), check=True))
    context.done(Done(HostName("kvm01"), "vm07 vgpu0", Steps(4, 12)))
    assert capsys.readouterr() == ("", said)


LINES = [f"line {number}" for number in range(24)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def paged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A terminal of 24 lines, and a pager that keeps what it is given."""
    pager, kept = tmp_path / "pager", tmp_path / "kept"
    pager.write_text(f'#!/bin/sh\necho "$LESS" > {kept}\ncat >> {kept}\n', encoding="utf-8")
    pager.chmod(0o755)
    monkeypatch.setenv("VGPUMGR_PAGER", str(pager))
    monkeypatch.setenv("PAGER", "false")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("LESS", raising=False)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(output, "_height", lambda: 24)
    monkeypatch.setattr("click._termui_impl.isatty", lambda _stream: True)
    return kept


def test_what_is_as_long_as_the_terminal_is_paged_with_its_colours(paged: Path) -> None:
    output.write_long(Settings(), [output.coloured(line, "red") for line in LINES])
    assert paged.read_text(encoding="utf-8").splitlines() == ["FIRX", *(f"\x1b[31m{line}\x1b[0m" for line in LINES)]


@pytest.mark.parametrize(
    "why",
    ["it is short", "-o wide", "nobody types", "a pipe", "it is switched off"],
    ids=lambda why: why.replace(" ", "-"),
)
def test_else_it_is_printed(
    why: str, paged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if why == "nobody types":
        monkeypatch.setattr("sys.stdin", io.StringIO())
    if why == "a pipe":
        monkeypatch.setattr(output, "_height", lambda: None)
    if why == "it is switched off":
        monkeypatch.setenv("VGPUMGR_PAGER", "")
    lines = LINES[1:] if why == "it is short" else LINES
    output.write_long(Settings(output="wide" if why == "-o wide" else "table"), lines)
    assert capsys.readouterr().out.splitlines() == lines
    assert not paged.exists()


def test_a_terminal_without_a_size_or_a_dumb_one_is_not_paged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    assert output._height() is None
    monkeypatch.setattr(os, "get_terminal_size", lambda _number: os.terminal_size((80, 24)))
    monkeypatch.setenv("TERM", "dumb")
    assert output._height() is None
