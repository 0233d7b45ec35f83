"""What is printed and logged: errors with their host, one object a line where JSON is asked for, and nothing that moves a cursor."""

from __future__ import annotations

import json
import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from vgpumgr import errors
from vgpumgr.cli.main import run
from vgpumgr.cli.rows import printing
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.text import log_lines, output
from vgpumgr.cli.text.alike import Failed
from vgpumgr.core.model.view import Finding
from vgpumgr.link import stages
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vgpumgr.errors import VgpumgrError


ERRORS = [
    errors.SysfsRefused("kvm01", "refused", path="/sys/create", errno_name="EIO"),
    errors.NvmlRefused("kvm01", "refused", function="nvmlInit", code=9),
    errors.HypervisorError("kvm01", "refused", code=1),
    errors.Unreachable("kvm01", "tcp", "refused"),
    errors.NoCapacity("refused"),
]


@contextmanager
def logging_as(settings: Settings) -> Iterator[None]:
    """Log lines go to stderr as these settings say, and afterwards where they went before."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        log_lines.start(settings)
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_any_class_is_told_with_its_host_once_and_what_of_it(
    error: VgpumgrError, capsys: pytest.CaptureFixture[str]
) -> None:
    about = Failed(host="kvm01", vm="vm05", slot="vgpu0", subject="vm05 vgpu0", error=error)
    output.print_error(Settings(), error, about=about)
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith("error: kvm01: vm05 vgpu0: ")
    assert said.endswith("refused")
    assert said.count("kvm01") == 1
    output.print_error(Settings(log_format="json"), error, about=about)
    line = json.loads(capsys.readouterr().err)
    assert (f"error: {line['message']}", line["host"]) == (said, "kvm01")


HOSTILE = "\x1b]0;PWNED\x07\nerror: forged line"


def test_a_hosts_words_move_no_cursor_and_forge_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = errors.ProgramFailed("kvm02", HOSTILE, hint=HOSTILE, details=[HOSTILE])
    output.print_error(Settings(), error)
    output.print_warning(Settings(), HOSTILE)
    output.progress(Settings(), HOSTILE)
    output.echo(HOSTILE)
    printing.print_table(Settings(), [{"why": HOSTILE}], ["why"])
    with logging_as(Settings(verbose=2)):  # a server's version line is logged before any key of it is checked
        logging.getLogger("paramiko").debug("Remote version %s", HOSTILE)
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert not any(line.startswith("error: forged") for line in (said.out + said.err).splitlines())


IN_JSON = Settings(log_format="json")


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    found = [json.loads(line) for line in captured.err.splitlines()]
    for line in found:
        assert list(line)[:5] == ["ts", "level", "message", "host", "run"]
        assert line["ts"].endswith("Z")
    return found


def test_progress_findings_and_errors_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its level and, where it is about one, its host."""
    output.progress(IN_JSON, "reading 2 hosts …")
    finding = Finding(kind="gone", host=HostName("kvm01"), vm="vm01", slot=None, text="vm01: its vGPU is gone")
    output.print_findings(IN_JSON, [finding])
    output.print_error(IN_JSON, errors.Unreachable("kvm02", "tcp", "refused", hint="is it up?", details=["a", "b"]))
    lines = told(capsys)
    assert [(line["level"], line["host"], line["message"]) for line in lines] == [
        ("info", None, "reading 2 hosts …"),
        ("warning", "kvm01", "vm01: its vGPU is gone"),
        ("error", "kvm02", "kvm02: tcp: refused"),
    ]
    assert (lines[2]["error"], lines[2]["hint"], lines[2]["details"]) == ("Unreachable", "is it up?", ["a", "b"])
    assert len({line["run"] for line in lines}) == 1


def test_people_read_the_time_the_host_and_what_is_done_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The SSH library's own lines take -vv; what a host says is cleaned."""
    with logging_as(Settings(verbose=1)):
        stages.enter("kvm01", "auth")
        stages.leave("kvm01")
        logging.getLogger("vgpumgr.x").info("says \x1b[2J", extra={"host": "kvm01"})
        logging.getLogger("paramiko.transport").info("Connected")
    times, texts = zip(*(line.split(" ", 1) for line in capsys.readouterr().err.splitlines()), strict=True)
    assert texts == ("kvm01: logging in", "kvm01: done", r"kvm01: says \x1b[2J")
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", time) for time in times)


def test_a_log_record_is_a_line_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as(Settings(log_format="json", verbose=1)):
        try:
            int("two\nlines")
        except ValueError:
            logging.getLogger("vgpumgr.x").exception("at %s", "once", extra={"host": "kvm01"})
    (line,) = told(capsys)
    assert (line["level"], line["message"], line["host"], line["logger"]) == ("error", "at once", "kvm01", "vgpumgr.x")
    assert "\nValueError: invalid literal" in line["traceback"]


def test_people_get_the_traceback_of_a_record_about_a_host_too(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_as(Settings(verbose=1)):
        try:
            int("one")
        except ValueError:
            logging.getLogger("vgpumgr.x").exception("at once", extra={"host": "kvm01"})
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith(" kvm01: at once")
    assert rest[-1] == "  ValueError: invalid literal for int() with base 10: 'one'"


def test_systemds_own_name_of_the_run_is_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that `journalctl _SYSTEMD_INVOCATION_ID=…` and the lines meet."""
    monkeypatch.setenv("INVOCATION_ID", "c0ffee")
    output.progress(IN_JSON, "x")
    assert told(capsys)[0]["run"] == "c0ffee"


def test_a_mistake_on_the_command_line_is_a_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--no-such-option", "--log-format", "json"]) == 2
    assert told(capsys)[0]["error"] == "UsageError"


def test_with_json_on_stdout_the_contract_of_stderr_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`-o json` wins: stderr holds nothing, or on failure exactly the one object of docs/exit-codes.md."""
    settings = Settings(output="json", log_format="json")
    output.progress(settings, "x")
    output.print_warning(settings, "x")
    assert capsys.readouterr().err == ""
    assert run(["-i", str(tmp_path / "none"), "list", "-o", "json", "--log-format=json"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert list(json.loads(line)) == ["error", "message", "hint", "details"]
