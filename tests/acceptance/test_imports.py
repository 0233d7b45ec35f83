"""No command imports what it does not use: which packages each of them has imported once it has ended.

A row for each command, in a real process against a lab. What is here is what takes time to import: all that is not Python's own, and
sqlite3. A package that another one brings along is not named by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from vgpumgr.cli.main import program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

ROOT = Path(__file__).resolve().parents[2]
BROUGHT = {"paramiko": {"bcrypt", "cffi", "cryptography", "pynacl"}, "jinja2": {"markupsafe"}}

INVENTORY = {"pyyaml"}
HOST = INVENTORY | {"paramiko"}  # a host, and its VMs
STORE = {"sqlite3"}
TEMPLATE = {"jinja2"}
TABLE = {"tabulate", "wcwidth"}
CHANGE = HOST | STORE | TEMPLATE  # a VM is changed: XML for libvirt, a row in the journal

ATTACH = "attach vm02 --profile 4Q --on kvm01"
OFF = ("attach vm30 --profile 4Q --on kvm01", "lab stop vm30")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A command line, run after `before`, and what it imports beside click."""

    argv: tuple[str, ...]
    imports: frozenset[str]
    code: int = 0
    before: tuple[str, ...] = ()


def case(argv: str, imports: set[str], *, code: int = 0, before: tuple[str, ...] = ()) -> Case:
    return Case(argv=tuple(argv.split()), imports=frozenset(imports), code=code, before=before)


TABLE_OF_COMMANDS = {
    "attach": case("attach vm01 --profile 4Q --on kvm01", CHANGE),
    "detach": case("detach vm02 --yes --on kvm01", CHANGE, before=(ATTACH,)),
    "adopt": case("adopt kvm01", HOST),  # there is nothing to adopt
    "cordon": case("cordon kvm01 --reason PSU --check", HOST, code=3),
    "drain": case("drain kvm01 --check", HOST | TABLE, code=3, before=(ATTACH,)),
    "uncordon": case("uncordon kvm01", HOST),  # there is none
    "plan": case("plan", HOST),
    "reconcile": case("reconcile --yes", HOST | STORE),  # nothing is declared; for `export`
    "list": case("list", HOST | TABLE, before=(ATTACH,)),
    "show": case("show vm02", HOST | TABLE, before=(ATTACH,)),
    "render": case("render vm02", HOST | TEMPLATE, before=(ATTACH,)),
    "discover": case("discover", HOST | TABLE),
    "capacity": case("capacity", HOST | TABLE),
    "profiles": case("profiles", HOST | TABLE),
    "host install": case("host install kvm02 --check", HOST | TABLE, code=3),
    "host uninstall": case("host uninstall kvm02", HOST | TABLE),
    "host purge": case("host purge kvm02 --yes", HOST | STORE, before=("cordon kvm02 --reason PSU",)),
    "host status": case("host status", HOST | TABLE),
    "host check": case("host check kvm02", HOST | TABLE, code=5),
    "host sudoers": case("host sudoers kvm01 --user vgpumgr", INVENTORY),
    "units": case("units", HOST | TABLE),
    "mig show": case("mig show", HOST),
    "gc": case("gc --on kvm01", HOST),  # there is nothing to give back
    "mig fit": case("mig fit A100 3g.20gb", set()),
    "explain": case("explain --gpu-memory 4G --compare", HOST | TABLE),
    "scheduler show": case("scheduler show", HOST | TABLE),
    "scheduler set": case("scheduler set --on kvm02 --gpu-id 0000:41:00.0 --policy equal-share --yes", HOST | STORE),
    "mode show": case("mode show", HOST | TABLE),
    "mode set": case("mode set mixed-size --on kvm02 --gpu-id 0000:41:00.0 --yes", HOST | STORE),
    "collect": case("collect", HOST | STORE),
    "top": case("top --once", HOST | TABLE, before=(ATTACH,)),
    "usage": case("usage", STORE | TABLE, before=(ATTACH, "collect")),
    "forget": case("forget vm36", HOST | STORE),  # nothing is known of it
    "history": case("history", STORE | TABLE, before=(ATTACH,)),
    "export textfile": case("export textfile -", STORE | {"prometheus-client"}),
    "export rules": case("export rules", set()),
    "export prometheus": case("export prometheus --check", {"prometheus-client"}, code=3),
    "inventory check": case("inventory check", INVENTORY),
    "completion": case("completion bash", set()),
    "install cron": case("install cron", INVENTORY | TEMPLATE),
    "install timer": case("install timer", INVENTORY | TEMPLATE),
    "install collect": case("install collect", INVENTORY | TEMPLATE),
    "install remove": case("install remove --dir /nonexistent", set()),
    "lab up": case("lab up", set(), code=2),  # it is up already; what starts hosts is processes of their own
    "lab down": case("lab down --dir nowhere", set()),
    "lab status": case("lab status", TABLE),
    "lab start": case("lab start vm30", set(), before=OFF),
    "lab hold": case("lab hold vm30", set(), before=OFF),
    "lab load": case("lab load vm30 --sm 5", set(), before=(*OFF, "lab hold vm30")),
    "lab stop": case("lab stop vm30", set()),
    "lab fault": case("lab fault kvm02 clear", set()),
    "lab ssh": case("lab ssh kvm02 -- true", set()),
    "lab reboot": case("lab reboot kvm02", set()),
    "docs": case("docs", TABLE),  # a page on a terminal: rich
    "version": case("version", TABLE),
    "--version": case("--version", set()),
    "--help": case("--help", set()),
}

_TOLD = """
import json, os, sys
def tell():
    with open(os.environ["IMPORTED"], "w") as stream:
        json.dump([name for name, module in sys.modules.items() if module is not None], stream)
sys.addaudithook(lambda event, _: event == "os.exec" and tell())
from vgpumgr.cli import main
code = main.run(sys.argv[1:])
tell()
sys.exit(code)
"""


def leaves(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[str]:
    """The commands that do something."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from leaves(found, (*above, name))
        else:
            yield " ".join((*above, name))


def test_every_command_has_a_row() -> None:
    assert set(TABLE_OF_COMMANDS) == {*leaves(program), "--version", "--help"}


@pytest.mark.parametrize("name", TABLE_OF_COMMANDS)
def test_a_command_imports_what_it_uses(name: str, vf_fleet: Lab, tmp_path: Path) -> None:
    row = TABLE_OF_COMMANDS[name]
    for argv in row.before:
        done = vf_fleet.run(*argv.split())
        assert done.returncode == 0, done.stderr
    wanted = {"click", *row.imports, *(more for one in row.imports for more in BROUGHT.get(one, ()))}
    assert imported(vf_fleet, tmp_path, row) == wanted


def imported(lab: Lab, folder: Path, row: Case) -> set[str]:
    """The distributions, as pyproject.toml writes them, from which the command has imported something, and sqlite3."""
    told = folder / "imported"
    done = subprocess.run(
        [sys.executable, "-c", _TOLD, *row.argv],
        env={**os.environ, **lab.env, "PYTHONPATH": str(ROOT), "IMPORTED": str(told)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == row.code, f"{row.argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    owners = metadata.packages_distributions()
    tops = {name.partition(".")[0] for name in json.loads(told.read_text())} - idle()
    return {owner.lower().replace("_", "-") for top in tops for owner in owners.get(top, ())} - {"vgpumgr"} | (
        tops & STORE
    )


def idle() -> set[str]:
    """What this Python imports before any program: an environment's own hooks."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}
