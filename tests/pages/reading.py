"""What a page says about its blocks: which are a shell's, in which lab, after what, and what they print.

A block without a language is a shell's. If it has a line that begins with `$ `, such lines are commands, and the others are what
they print; else every line is a command. Comments of HTML, which no reader sees, say the rest. They hold for the next block:

    <!-- lab: mdev-vf -->             from here on, in a new lab of that spec: a built-in one, or a file in tests/pages/labs
    <!-- before: COMMAND -->          what the page takes for granted: run first, its output is not compared
    <!-- file: PATH -->               the block, of any language, is written to that file (of the page's directory)
    <!-- not run: WHY -->             a shell's block that cannot be run here
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_COMMENT = re.compile(r"<!-- (lab|before|file|not run): (.+?) -->$")
_FENCE = re.compile(r"^```(.*)$")
_EXIT = re.compile(r"#.*\bexit (\d+)\b( if\b)?")
_CODES = {"dry run: nothing was changed": 3}  # a line that is printed, and the code that goes with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. `first` and `last`: the lines of the page that show what it prints, None where nothing is compared."""

    text: str
    shown: tuple[str, ...] | None
    first: int
    last: int

    @property
    def answer(self) -> str | None:
        """What is typed where it asks."""
        found = (re.search(r"\[y/N\]: ?(\w*)$", line) for line in self.shown or ())
        return next((one[1] for one in found if one), None)

    def may_end(self, code: int) -> bool:
        """Whether that exit code is the one that the page says: in a comment, else 0 or that of the last message shown."""
        if said := _EXIT.search(self.text):
            return code == int(said[1]) or (said[2] is not None and code == 0)
        shown = "\n".join(self.shown or ())
        for text, expected in _CODES.items():
            if text in shown:
                return code == expected
        if re.search(r" (--check|plan)\b", self.text) and code == 3:
            return True
        failed = any(line.startswith(("error:", "[ERROR]")) for line in self.shown or ())
        return code != 0 if failed and "; echo" not in self.text else code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. `line`: that of its fence, from 1. `lab`: set where a new one begins."""

    page: Path
    line: int
    language: str
    text: str
    lab: str | None
    before: tuple[str, ...]
    file: str | None
    not_run: str | None
    commands: tuple[Command, ...]

    @property
    def is_shell(self) -> bool:
        return not self.language


def blocks(page: Path) -> list[Block]:
    """The page's blocks, in its order. Raises ValueError where a fence is left open or a comment is followed by no block."""
    found: list[Block] = []
    said: list[tuple[str, str]] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        if comment := _COMMENT.match(lines[at]):
            said.append((comment[1], comment[2]))
        elif fence := _FENCE.match(lines[at].lstrip()):
            end = next((no for no in range(at + 1, len(lines)) if lines[no].strip() == "```"), None)
            if end is None:
                raise ValueError(f"{page}:{at + 1}: the fence has no end")
            found.append(_block(page, at, fence[1], lines[at + 1 : end], said))
            said, at = [], end
        at += 1
    if said:
        raise ValueError(f"{page}: no block follows {said}")
    return found


def _block(page: Path, at: int, language: str, lines: list[str], said: list[tuple[str, str]]) -> Block:
    one = {kind: text for kind, text in said if kind != "before"}
    runs = not language and "not run" not in one and "file" not in one
    return Block(
        page=page,
        line=at + 1,
        language=language,
        text="\n".join(lines) + "\n",
        lab=one.get("lab"),
        before=tuple(text for kind, text in said if kind == "before"),
        file=one.get("file"),
        not_run=one.get("not run"),
        commands=tuple(_commands(lines, at + 1)) if runs else (),
    )


def _commands(lines: list[str], first: int) -> list[Command]:
    """Those of a block; `first`: the index of its first line in the page."""
    if not any(line.startswith("$ ") for line in lines):
        return [Command(text=text, shown=None, first=at, last=at) for at, text in _whole(lines, first)]
    starts = [no for no, line in enumerate(lines) if line.startswith("$ ")]
    if starts[0] != 0:
        raise ValueError(f"line {first + 1}: the block does not begin with a command")
    found = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        found.append(
            Command(
                text=lines[start][2:],
                shown=tuple(lines[start + 1 : end]),
                first=first + start + 1,
                last=first + end,
            )
        )
    return found


def _whole(lines: list[str], first: int) -> list[tuple[int, str]]:
    """Commands with the lines that go on: after a backslash, or in a here-document."""
    found: list[tuple[int, str]] = []
    until: str | None = None
    on = False
    for no, line in enumerate(lines, first):
        if on:
            found[-1] = (found[-1][0], f"{found[-1][1]}\n{line}")
        elif line.strip():
            found.append((no, line))
        here = re.search(r"<<-?'?(\w+)'?", line) if until is None else None
        until = here[1] if here else None if line == until else until
        on = until is not None or line.endswith("\\")
    return found
