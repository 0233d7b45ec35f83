"""No command imports what it does not use: which packages each of them has imported once it has ended.

A row for each command, run against a lab. What is here is what takes time to import: all that is not Python's own, and
sqlite3. A package that another one brings along is not named by itself. Commands that import the same run one after the
other in one process, which had only the program's entry at first: none of them may add anything else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from tests.lab_fixtures import SMALL
from vgpumgr.cli.main import program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import LabFactory

pytestmark = pytest.mark.lab

ROOT = Path(__file__).resolve().parents[3]
BROUGHT = {
    "paramiko": {"bcrypt", "cffi", "cryptography", "pynacl"},
    "jinja2": {"markupsafe"},
    "starlette": {"anyio", "typing-extensions"},
}

INVENTORY = {"pyyaml"}
HOST = INVENTORY | {"paramiko"}  # a host, and its VMs
STORE = {"sqlite3"}
TEMPLATE = {"jinja2"}
TABLE = {"tabulate", "wcwidth"}
CHANGE = HOST | STORE | TEMPLATE  # a VM is changed: XML for libvirt, a row in the journal
PLACE = HOST | STORE  # a vGPU is placed, or would be: the journal says what is usual

ATTACH = "attach vm01 --profile 4Q --on kvm01"
# Run before all of them, so that there is something to see.
BEFORE = (
    *("attach vm02 vm30 --profile 4Q --on kvm01", "collect", "cordon kvm02 --reason PSU"),
    *("lab hold vm30", "lab stop vm30"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A command line, and what it imports beside click."""

    argv: tuple[str, ...]
    imports: frozenset[str]
    code: int = 0


def case(argv: str, imports: set[str], *, code: int = 0) -> Case:
    return Case(argv=tuple(argv.split()), imports=frozenset(imports), code=code)


# By what they import. What is not a command's name alone is another way to call it.
TABLE_OF_COMMANDS = {
    "attach (--check)": case(f"{ATTACH} --check", CHANGE, code=3),
    "attach": case(ATTACH, CHANGE),
    "detach": case("detach vm30 --yes --on kvm01", CHANGE),
    "attach (again)": case(ATTACH, CHANGE),
    "render": case("render vm02 --on kvm01", HOST | TEMPLATE),
    "render (--validate)": case("render vm02 --validate --on kvm01", HOST | TEMPLATE | {"libvirt-python"}),
    "adopt": case("adopt kvm01", HOST),  # there is nothing to adopt
    "cordon": case("cordon kvm01 --reason PSU --check", HOST, code=3),
    "uncordon": case("uncordon kvm01", HOST),  # there is none
    "mig show": case("mig show kvm01", HOST),
    "gc": case("gc --on kvm01", HOST),  # there is nothing to give back
    "reserve (list)": case("reserve list --on kvm01", HOST),
    "drain": case("drain kvm01 --check", HOST | TABLE, code=3),
    "list": case("list kvm01", HOST | TABLE),
    "show": case("show vm02 --on kvm01", HOST | TABLE),
    "discover": case("discover kvm01", HOST | TABLE),
    "doctor": case("doctor kvm01", HOST | TABLE),
    "units": case("units kvm01", HOST | TABLE),
    "scheduler show": case("scheduler show kvm01", HOST | TABLE),
    "mode show": case("mode show kvm01", HOST | TABLE),
    "top": case("top --once kvm01", HOST | TABLE),
    "host install": case("host install kvm02 --check", HOST | TABLE, code=3),
    "host uninstall": case("host uninstall kvm02", HOST | TABLE),
    "host status": case("host status kvm01", HOST | TABLE),
    "host certify": case("host certify kvm02", HOST | TABLE),
    "host check": case("host check kvm02", HOST | TABLE, code=5),
    "capacity": case("capacity --on kvm01", PLACE | TABLE),
    "capacity (--catalogue)": case("capacity --catalogue 4Q --on kvm01", PLACE | TABLE),
    "profiles": case("profiles kvm01", PLACE | TABLE),
    "explain": case("explain --gpu-memory 4G --compare --on kvm01", PLACE | TABLE),
    "place": case("place --profile 4Q --on kvm01", PLACE | TABLE),
    "partition advise": case("partition advise kvm01", PLACE | TABLE),
    "reserve": case("reserve --profile 4Q --for team --check --on kvm01", PLACE | TABLE, code=3),
    "plan": case("plan kvm01", PLACE),
    "defrag": case("defrag kvm01 --profile 4Q", PLACE),  # it fits already
    "migrate-framework": case("migrate-framework kvm01", PLACE),  # there is nothing to migrate
    "partition apply": case("partition apply kvm01 --weeks 0", PLACE),
    "waiting": case("waiting kvm01", PLACE),
    "report": case("report kvm01", PLACE | TABLE),
    "reconcile": case("reconcile --yes", HOST | STORE),  # nothing is declared; for `export`
    "host purge": case("host purge kvm02 --yes", HOST | STORE),
    "scheduler set": case("scheduler set --on kvm02 --gpu-id 0000:41:00.0 --policy equal-share --yes", HOST | STORE),
    "mode set": case("mode set mixed-size --on kvm02 --gpu-id 0000:41:00.0 --yes", HOST | STORE),
    "collect": case("collect kvm01", HOST | STORE),
    "forget": case("forget vm36", HOST | STORE),  # nothing is known of it
    "advise": case("advise kvm01", PLACE),  # there is nothing to advise
    "usage": case("usage", STORE | TABLE),
    "history": case("history", STORE | TABLE),
    "export textfile": case("export textfile -", STORE | {"prometheus-client"}),
    "export prometheus": case("export prometheus --check", {"prometheus-client"}, code=3),
    "serve": case("serve --check", INVENTORY | {"starlette", "uvicorn"}, code=3),
    "inventory check": case("inventory check", INVENTORY | STORE),  # what the last run met
    "host sudoers": case("host sudoers kvm01 --user vgpumgr", INVENTORY),
    "install cron": case("install cron", INVENTORY | TEMPLATE),
    "install timer": case("install timer", INVENTORY | TEMPLATE),
    "install collect": case("install collect", INVENTORY | TEMPLATE),
    "install export": case("install export", INVENTORY | TEMPLATE),
    "install web": case("install web", INVENTORY | TEMPLATE),
    "lab status": case("lab status", TABLE),
    "docs": case("docs", TABLE),  # a page on a terminal: rich
    "version": case("version", TABLE),
    "--version": case("--version", set()),
    "--help": case("--help", set()),
    "fit": case("fit A40: 3x8Q", set()),
    "mig fit": case("mig fit A100 3g.20gb", set()),
    "export rules": case("export rules", set()),
    "export dashboard": case("export dashboard fleet", set()),
    "completion": case("completion bash", set()),
    "install remove": case("install remove --dir /nonexistent", set()),
    "lab up": case("lab up", set(), code=2),  # it is up already; what starts hosts is processes of their own
    "lab down": case("lab down --dir nowhere", set()),
    "lab start": case("lab start vm02", set()),
    "lab stop": case("lab stop vm02", set()),
    "lab hold": case("lab hold vm02", set()),
    "lab load": case("lab load vm02 --sm 5", set()),
    "lab guest": case("lab guest vm02 --driver 570.133.20", set()),
    "lab fault": case("lab fault kvm02 clear", set()),
    "lab reboot": case("lab reboot kvm02", set()),
    "lab ssh": case("lab ssh kvm02 -- true", set()),  # the last one, as the process becomes ssh
}

# Each group of command lines in a process forked from one that has imported the entry. A line for each: its code, and all
# that is imported by then; the thread that imports the engine while the host is read is waited for. `lab ssh` becomes another
# program: its line comes before that.
_TOLD = """
import json, os, sys, threading
from vgpumgr.cli import main
def tell(code):
    for thread in threading.enumerate():
        if thread.name == "vgpumgr-import":
            thread.join()
    with open(told, "a") as stream:
        stream.write(json.dumps([code, [name for name, module in sys.modules.items() if module is not None]]) + "\\n")
for told, group in json.load(sys.stdin):
    if os.fork() == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.addaudithook(lambda event, _: event == "os.exec" and tell(0))
        for argv in group:
            tell(main.run(argv))
        os._exit(0)
    os.wait()
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
    assert {name.partition(" (")[0] for name in TABLE_OF_COMMANDS} == {*leaves(program), "--version", "--help"}


@pytest.fixture(scope="module")
def imported(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """By row: the distributions, as pyproject.toml writes them, from which something is imported by then, and sqlite3."""
    folder = tmp_path_factory.mktemp("imports")
    groups = [list(rows) for _, rows in groupby(TABLE_OF_COMMANDS, key=lambda name: TABLE_OF_COMMANDS[name].imports)]
    wanted = [
        (str(folder / str(at)), [TABLE_OF_COMMANDS[name].argv for name in group]) for at, group in enumerate(groups)
    ]
    with lab_factory.lend(SMALL, wiped=True) as lab:
        for line in BEFORE:
            done = lab.run(*line.split())
            assert done.returncode == 0, done.stderr
        ran = subprocess.run(
            [sys.executable, "-c", _TOLD],
            env={**os.environ, **lab.env, "PYTHONPATH": str(ROOT)},
            cwd=folder,
            input=json.dumps(wanted),
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        owners, hooks = metadata.packages_distributions(), idle()
        found: dict[str, set[str]] = {}
        for (told, _), group in zip(wanted, groups, strict=True):
            lines = Path(told).read_text(encoding="utf-8").splitlines()
            for name, line in zip(group, lines[: len(group)], strict=True):  # ssh is sought in several places
                code, modules = json.loads(line)
                assert code == TABLE_OF_COMMANDS[name].code, f"{name}: exit {code}\n{ran.stdout}{ran.stderr}"
                tops = {module.partition(".")[0] for module in modules} - hooks
                of_tops = {owner.lower().replace("_", "-") for top in tops for owner in owners.get(top, ())}
                found[name] = of_tops - {"vgpumgr"} | (tops & STORE)
        yield found


def idle() -> set[str]:
    """What this Python imports before any program: an environment's own hooks."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize("name", TABLE_OF_COMMANDS)
def test_a_command_imports_what_it_uses(name: str, imported: dict[str, set[str]]) -> None:
    row = TABLE_OF_COMMANDS[name]
    assert imported[name] == {"click", *row.imports, *(more for one in row.imports for more in BROUGHT.get(one, ()))}
