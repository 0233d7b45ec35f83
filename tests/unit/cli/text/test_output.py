"""Errors as they are printed under one another: each with its host and what of it, whatever its class is made of."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from vgpumgr import errors
from vgpumgr.cli.rows import printing
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.text import log_lines, output

if TYPE_CHECKING:
    from vgpumgr.errors import VgpumgrError

ERRORS = [
    errors.SysfsRefused("kvm01", "refused", path="/sys/create", errno_name="EIO"),
    errors.NvmlRefused("kvm01", "refused", function="nvmlInit", code=9),
    errors.HypervisorError("kvm01", "refused", code=1),
    errors.Unreachable("kvm01", "tcp", "refused"),
    errors.NoCapacity("refused"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_any_class_is_told_with_its_host_once_and_what_of_it(
    error: VgpumgrError, capsys: pytest.CaptureFixture[str]
) -> None:
    output.print_error(Settings(), error, about=("kvm01", "vm05 vgpu0"))
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith("error: kvm01: vm05 vgpu0: ")
    assert said.endswith("refused")
    assert said.count("kvm01") == 1
    output.print_error(Settings(log_format="json"), error, about=("kvm01", "vm05 vgpu0"))
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
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert not any(line.startswith("error: forged") for line in (said.out + said.err).splitlines())


def test_what_is_logged_is_cleaned_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    """A server's version line is logged before any key of it is checked."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    try:
        log_lines.start(Settings(verbose=2))
        logging.getLogger("paramiko").debug("Remote version %s", HOSTILE)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    said = capsys.readouterr().err
    assert "PWNED" in said
    assert "\x1b" not in said
    assert "\nerror" not in said
