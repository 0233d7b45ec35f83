"""Runs a page's commands in their order, in one shell, as a reader would: in a directory of its own, beside a lab.

The shell has a mount namespace of its own, in which what is written to /etc, /var and /opt is seen by nobody else; HOME is a directory of its own, too.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.lab import fleet
from vgpumgr.lab.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tests.lab_fixtures import Lab
    from tests.pages.reading import Block, Command

CHECKOUT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LABS = Path(__file__).parent / "labs"
LONGEST_S = 900  # no part of a page takes a tenth of it on an idle machine
_MARK = "--- command {} ---"
_ENDED = re.compile(r"^--- ended (\d+) ---$", re.MULTILINE)
_SEEN_BY_NOBODY = ("/etc", "/var", "/opt")
# What somebody may have on the machine already.
_OURS = ("/etc/vgpumgr", "/etc/cron.d/vgpumgr", "/var/lib/vgpumgr")
# Commands that run until they are ended: they are, once they have run for so many seconds.
_SERVICES = re.compile(r"vgpumgr (collect .*--every|export prometheus)")
_SERVES_S = 2
# Commands that ask on a terminal; in a list of commands the answer is yes.
_ASKS = re.compile(
    r"^vgpumgr (?!.*(--yes|--check|-y ))(detach|reconcile|scheduler set|mode set|attach .*--replace|adopt)\b"
)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
# On a terminal it is wiped; how much there is of it depends on how busy the machine is.
_PROGRESS = ("reading ", "looking for ", "waiting for ", "still running: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that was run: what it printed, and its exit code."""

    block: Block
    command: Command
    printed: tuple[str, ...]
    code: int


def run(page: Sequence[Block], folder: Path, programs: Path = BIN) -> list[Ran]:
    """Run every command of a page's blocks. `folder`: an empty directory for it and its labs; `programs`: where vgpumgr is."""
    return [ran for number, part in enumerate(parts(page)) for ran in run_part(part, folder / str(number), programs)]


def parts(page: Sequence[Block]) -> list[list[Block]]:
    """A page's blocks by their labs, each with commands in it: they have nothing of one another."""
    found: list[list[Block]] = [[]]
    for block in page:
        if block.lab:
            found.append([])
        found[-1].append(block)
    return [part for part in found if any(block.commands or block.before for block in part)]


def run_part(
    part: Sequence[Block],
    folder: Path,
    programs: Path = BIN,
    first: Path | None = None,
    lend: Callable[[str], AbstractContextManager[Lab]] | None = None,
) -> list[Ran]:
    """Run the blocks of one lab, or of none where the page starts its own. `folder`: a directory that is made for it.

    `first`: where a program is looked for before that. `lend`: who lends labs, by their spec; else one is started here.
    """
    here = folder / "here"
    here.mkdir(parents=True)
    spec = part[0].lab
    if not spec:
        return _run(part, folder, programs, first, None)
    file = LABS / f"{spec}.yml"
    wanted = str(file) if file.exists() else spec
    if lend is not None:
        with lend(wanted) as lab:
            return _run(part, folder, programs, first, lab.layout)
    command = ["lab", "up", "--quiet", "--pace", "0.1", "--dir", str(folder / "lab"), "--spec", wanted]
    subprocess.run([programs / "vgpumgr", *command], check=True, capture_output=True, timeout=120)
    return _run(part, folder, programs, first, Layout(folder=folder / "lab"))


def _run(part: Sequence[Block], folder: Path, programs: Path, first: Path | None, layout: Layout | None) -> list[Ran]:
    """A lab below `folder` is taken down at the end."""
    here = folder / "here"
    lab = folder / "lab" if layout is None else layout.folder
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VGPUMGR_", "ANSIBLE_"))}
    path = ":".join([*([str(first)] if first else []), str(programs), environment["PATH"]])
    environment |= {"PATH": path, "COLUMNS": "160", "TZ": "UTC", "VGPUMGR_LAB": str(lab)}
    environment |= {"CHECKOUT": str(CHECKOUT)}
    own_lab = any("lab up" in command.text for block in part for command in block.commands)
    try:
        if layout is not None:
            # There it is not known to be a lab's, for which no job is installed.
            shutil.copytree(layout.inventory, here / "inventory")
            environment |= {**fleet.environment(layout), "VGPUMGR_INVENTORY": str(here / "inventory")}
        script = folder / "page.sh"
        script.write_text("\n".join(_script(part, folder, lab, programs, private=not own_lab)), encoding="utf-8")
        shell = ["bash", str(script)] if own_lab else ["unshare", "--mount", "bash", str(script)]
        done = subprocess.run(
            shell,
            cwd=here,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_S,
            check=False,
        )
    finally:
        for one in filter(Path.exists, (folder / "lab", here / ".lab")):
            subprocess.run(["vgpumgr", "lab", "down", "--dir", one], env=environment, check=False, timeout=60)
    return _read(part, done.stdout.decode("utf-8", "replace"), lab)


def _script(part: Sequence[Block], folder: Path, lab: Path, programs: Path, *, private: bool) -> list[str]:
    lines = ["exec 2>&1"]
    if private:
        lines.append(f"mkdir {folder}/own && mount -t tmpfs own {folder}/own || exit 1")
        for path in _SEEN_BY_NOBODY:
            upper, work = f"{folder}/own{path}", f"{folder}/own/.work{path}"
            options = f"lowerdir={path},upperdir={upper},workdir={work}"
            lines.append(f"mkdir -p {upper} {work} && mount -t overlay own -o {options} {path} || exit 1")
        lines.append(f"rm -rf {' '.join(_OURS)}")
    lines += [f"mkdir {folder}/home", f"export HOME={folder}/home"]
    number = 0
    for block in part:
        lines += [f"{{ {command}\n}} >>{folder}/before.log || echo '--- before failed ---'" for command in block.before]
        if block.file:
            lines += [
                f"mkdir -p $(dirname {block.file}); cat >{block.file} <<'END OF FILE'",
                block.text + "END OF FILE",
            ]
        for command in block.commands:
            lines += [
                f"echo '{_MARK.format(number)}'",
                _line(command, lab, programs),
                'echo; echo "--- ended $? ---"',
            ]
            number += 1
    return [
        line.replace('echo; echo "--- ended $? ---"', 'ended=$?; echo; echo "--- ended $ended ---"') for line in lines
    ]


def _line(command: Command, lab: Path, programs: Path) -> str:
    text = (
        command.text.replace("/tmp/lab", str(lab))
        .replace("$PWD/.venv/bin", str(programs))
        .replace(".venv/bin", str(programs))
    )
    if _SERVICES.search(text.split("#")[0]):
        plain = text.split("  #")[0]
        return f"timeout --preserve-status -s TERM {_SERVES_S} {plain}; [ $? = 143 ]"
    answer = command.answer if command.shown is not None else "y" if _ASKS.search(text) else None
    if answer is not None:
        return f"script -qec {shlex.quote(text)} /dev/null <<<{answer or 'n'}"
    return text


def _read(part: Sequence[Block], text: str, lab: Path) -> list[Ran]:
    found = []
    commands = [(block, command) for block in part for command in block.commands]
    assert "--- before failed ---" not in text, text
    pieces = re.split(r"^--- command \d+ ---\n", text, flags=re.MULTILINE)[1:]
    assert len(pieces) == len(commands), text[-2000:]
    for (block, command), piece in zip(commands, pieces, strict=True):
        ended = _ENDED.search(piece)
        assert ended is not None, piece
        text = _ANSI.sub("", piece[: ended.start()]).replace(str(lab), "/tmp/lab")
        if command.answer is not None:  # the terminal shows what is typed before it is asked for
            text = text.removeprefix(f"{command.answer}\n").replace("[y/N]: ", f"[y/N]: {command.answer}\n", 1)
        lines = text.split("\n")
        told = [line.rstrip() for line in lines if not line.startswith(_PROGRESS)]
        while told and not told[-1]:
            told.pop()
        found.append(Ran(block=block, command=command, printed=tuple(told), code=int(ended[1])))
    return found
