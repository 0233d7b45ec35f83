"""A bug ends as an error with an exit code, not as a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from vgpumgr import errors
from vgpumgr.cli import main
from vgpumgr.cli.params import other_words
from vgpumgr.controller import environment

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_a_full_disk_under_stdout_is_told_in_a_line() -> None:
    """The program as it is started, for it also has to get past its own end."""
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123 -- a device
        done = subprocess.run(
            [sys.executable, "-m", "vgpumgr.cli.main", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: the output cannot be written")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["list", "--idle"], "no option --idle"),  # and not --quiet
        (["attach", "vm01", "--profil", "4Q"], "no option --profil; did you mean --profile?"),
        (["attach", "vm01", "--memory", "4G"], "no option --memory; did you mean --gpu-memory?"),
        (["scheduler", "shwo"], "no command 'shwo'; did you mean show?"),
        (["expalin"], "no command 'expalin'; did you mean explain?"),
        (["frobnicate"], "no command 'frobnicate'"),
    ],
)
def test_a_mistyped_word_is_told_what_is_near_and_nothing_else(
    words: Sequence[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(list(words)) == 2
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == f"error: {told}"
    assert [line.split(" ")[0] for line in rest] == ["hint:"]


@pytest.mark.parametrize(
    ("words", "told", "hint"),
    [
        (["profiles", "--on", "kvm02"], "no option --on", "hosts are named without an option: vgpumgr profiles kvm01"),
        (["cordon", "kvm01"], "missing option '--reason'", "see `vgpumgr cordon --help`"),
        (
            ["mode", "set"],
            "missing argument MODE: equal-size, mixed-size or mig",
            "see `vgpumgr mode set --help`",
        ),
        (
            ["attach", "vm01", "--profile"],
            "option '--profile' requires an argument",
            "see `vgpumgr attach --help`",
        ),
        (
            ["attach", "vm01"],
            "vm01: say which vGPU is wanted",
            "give exactly one of --profile, --mig-profile, --gpu-memory, --gpu, --fgpu",
        ),
        (["explain", "4Q"], "got unexpected extra argument (4Q)", "did you mean --profile 4Q?"),
        (
            ["attach", "vm01", "A40-4Q"],
            "A40-4Q is taken for a VM, and no vGPU is asked for",
            "did you mean --profile A40-4Q?",
        ),
        (
            ["cordon", "kvm01", "kvm02", "--reason", "x"],
            "got unexpected extra argument (kvm02)",
            "vgpumgr cordon takes one host at a time",
        ),
        (
            ["scheduler", "set", "--on", "kvm01", "--policy", "best-effort"],
            "give either --gpu-id or --board",
            "`vgpumgr discover` shows the GPUs; --board A40 means all of a board",
        ),
    ],
)
def test_a_wrong_command_line_is_told_like_every_other_error(
    words: Sequence[str], told: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(list(words)) == 2
    assert capsys.readouterr().err.splitlines() == [f"error: {told}", f"hint: {hint}"]


@pytest.mark.parametrize(
    ("words", "is_json"),
    [
        (["list", "--idle", "-o", "json"], True),
        (["list", "--idle", "-ojson"], True),
        (["--output", "json", "list", "--idle"], True),
        (["list", "--idle", "--output=json"], True),
        (["list", "--idle", "--log-format=json"], True),
        (["show", "-o json"], False),
        (["list", "--idle", "--", "-o", "json"], False),
        (["cordon", "kvm01", "--idle", "--reason", "not -o json"], False),
        (["cordon", "kvm01", "--idle", "--reason=--log-format json"], False),
        (["attach", "vm01", "--profile", "-ojson"], False),
        (["attach", "vm01", "--profile", "-ojson", "--group=--log-format=json"], False),
    ],
)
def test_only_the_option_itself_makes_an_error_json_and_no_name_or_value_that_looks_like_it(
    words: list[str], is_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(words) == 2
    assert capsys.readouterr().err.startswith("{") == is_json


def test_a_no_is_told_as_the_persons_own_decision_and_not_as_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no(*_: object) -> None:
        raise errors.Declined("nothing was changed")

    monkeypatch.setattr(environment, "load_inventory", no)
    assert main.run(["list"]) == 1
    assert capsys.readouterr().err == "cancelled; nothing was changed\n"


@pytest.mark.parametrize("words", [[], ["scheduler"]])
def test_a_group_alone_prints_its_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(words) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()[0].split()[0]) == ("", "Usage:")


def test_a_word_of_another_tool_is_answered_with_ours_and_not_carried_out(capsys: pytest.CaptureFixture[str]) -> None:
    """None is a command of ours; each answer names one that there is (found: newcomer 15)."""
    for word, ours in other_words._BY_WORD.items():
        assert main.run([word, "vm01"]) == 2
        assert f"no command '{word}': it is {ours}" in capsys.readouterr().err
        for named in re.findall(r"`vgpumgr ([a-z]+)", ours):
            assert named in main._ENTRIES
