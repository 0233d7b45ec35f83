"""Every hint is true of the case that it is given in: what it names parses, and what it says fits the error's class.

The hints are taken out of the source (hints.py), so that none is missing here.
"""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import click
import pytest

from tests.unit.hints import GAP, Hint, collect
from vgpumgr import errors
from vgpumgr.cli.main import program

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kind(NamedTuple):
    """What hints of one kind say, and the errors that they are true of: `classes`, and what is derived of them."""

    what: str
    says: str
    classes: tuple[str, ...]
    why: str


# One row for each thing that is easily said where it is not so.
KINDS = (
    Kind(
        "run it again, and nothing else",
        r"^(run the same command again|try again|the same command again|nothing is lost: the same command\b)",
        ("Busy", "LeaseLost", "StalePlan", "PartialApply", "HostDeadline", "NotConverged"),
        "the host was busy, changed, or left half way: what is read afresh is another beginning",
    ),
    Kind(
        "it is a bug",
        r"\bbug\b",
        ("ProgramFailed", "cls", "InUse"),
        "only what the code rules out: an answer of another shape, an unforeseen exception, evidence nobody read",
    ),
    Kind(
        "shut a VM down",
        r"^shut \S+ (\S+ )?down first",
        ("InUse",),
        "somebody is known to hold it; of what cannot be told another hint is given (test_odd_vms, test_program)",
    ),
    Kind(
        "start libvirt",
        r"systemctl start libvirtd",
        ("Unreachable",),
        "libvirt was asked over a connection that stands, and did not answer",
    ),
    Kind(
        "the change may still happen",
        r"may still happen",
        ("HostDeadline",),
        "a change was asked (test_program: only a change without an answer may still happen)",
    ),
    Kind(
        "wait longer",
        r"--timeout\b",
        ("HostDeadline",),
        "a stage's own end was reached, and --timeout moves it (test_deadlines)",
    ),
    Kind(
        "free the disk",
        r"^(make room|free some space|is the disk full|`?df )",
        ("LedgerUnwritable", "StoreError", "ExportError", "VgpumgrError"),
        "a write was refused",
    ),
    Kind(
        "change the inventory",
        r"change the inventory",
        ("ConflictingClaim", "UsageError"),
        "a declaration says something else, and its file and line are in the message",
    ),
)

# Options of ours that a hint may name without a command: whoever reads it has just run one that has them.
_OPTION = re.compile(r"(?<![\w=-])--[a-z][a-z-]+")
_NOT_OURS = {"--uri", "--config", "--collector", "--help"}  # of virsh, of node_exporter, of click itself
_SAMPLES = {"DIR": "x1", "HOST": "kvm01", "UUID": "x1", "VM": "vm01", "PATH": "x1"}


def test_the_hints_are_found() -> None:
    assert len(collect()) > 150
    assert {"Busy", "InUse", "NoCapacity", "HostDeadline", "StoreError"} <= {hint.given_with for hint in collect()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what)
def test_a_hint_of_a_kind_is_given_with_the_errors_it_is_true_of(kind: Kind) -> None:
    found = [hint for hint in collect() if re.search(kind.says, hint.text)]
    wrong = [f"{hint.where}: {hint.given_with}: {hint.text}" for hint in found if hint.given_with not in kind.classes]
    assert not wrong, f"not true of these ({kind.why}): {wrong}"


def test_each_command_that_a_hint_names_is_one_of_ours_with_these_options() -> None:
    wrong = []
    seen = 0
    for hint in collect():
        for line in _commands(hint):
            seen += 1
            problem = _problem(line)
            if problem is not None:
                wrong.append(f"{hint.where}: {line}: {problem}")
    assert seen > 30
    assert not wrong


def test_each_option_that_a_hint_names_is_one_of_ours() -> None:
    wrong = [
        f"{hint.where}: {option}"
        for hint in collect()
        for option in _OPTION.findall(hint.text)
        if option not in _options() and option not in _NOT_OURS
    ]
    assert not wrong


def _commands(hint: Hint) -> Iterator[str]:
    """`vgpumgr …` in backquotes, or as the whole of a hint's beginning."""
    yield from re.findall(r"`(vgpumgr [^`]*)`", hint.text)
    if hint.text.startswith("vgpumgr "):
        words = hint.text.split()
        # A command at the beginning of a sentence ends where words of the sentence begin.
        yield " ".join(words[: next((at for at, word in enumerate(words) if word in ("says", "shows", "with")), None)])


def _problem(line: str) -> str | None:
    words = [_SAMPLES.get(word, word) for word in shlex.split(line.replace(GAP, "x1").replace("…", "4Q"))][1:]
    words = ["3" if words[at - 1] == "--confirm-destroys" else word for at, word in enumerate(words)]
    command: click.Command = program
    context = click.Context(program, info_name="vgpumgr")
    try:
        while isinstance(command, click.Group):
            leaf = not words or words[0].startswith("-")
            if leaf:
                return None if words == ["--help"] else "no command"
            _, found, words = command.resolve_command(context, words)
            assert found is not None
            command = found
            if isinstance(command, click.Group):
                context = click.Context(command, parent=context, info_name=command.name)
        command.make_context(command.name, list(words), parent=context)
    except (click.ClickException, errors.VgpumgrError) as error:
        return str(error)
    return None


@cache
def _options() -> frozenset[str]:
    """The long options of all our commands."""
    todo: list[click.Command] = [program]
    found: set[str] = set()
    while todo:
        command = todo.pop()
        found |= {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
        if isinstance(command, click.Group):
            todo += [
                one
                for name in command.list_commands(click.Context(command))
                if (one := command.get_command(click.Context(command), name))
            ]
    return frozenset(found)
