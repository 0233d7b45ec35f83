"""One run of the program as a person or a script sees it: exit code, both streams, never a traceback."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import subprocess

ERROR_KEYS = {"error", "message", "hint", "details"}


class Runs(Protocol):
    """What the program can be pointed at: a lab, or a host VM (tests/kernel)."""

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one command line came to."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """What `-o json` printed, where it did what it was asked: one object, and nothing on stderr."""
        assert self.err == "", f"{self.arguments}: {self.err}"
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> dict[str, Any]:
        """What `-o json` said on failure: exactly one object on stderr; stdout has nothing, or an object of its own."""
        lines = self.err.splitlines()
        assert len(lines) == 1, f"{self.arguments}: {self.err}"
        found = json.loads(lines[0])
        assert set(found) == ERROR_KEYS, found
        assert isinstance(found["message"], str)
        assert found["message"]
        assert isinstance(found["details"], list)
        if self.out:
            assert isinstance(json.loads(self.out), dict)
        return dict(found)

    @property
    def warnings(self) -> list[str]:
        return [line.removeprefix("warning: ") for line in self.err.splitlines() if line.startswith("warning: ")]


def vgpumgr(where: Runs, *arguments: str, code: int = 0) -> Ran:
    """Run the program there; it has to leave with `code`, and never shows a traceback or says that it met a bug."""
    done = where.run(*arguments)
    ran = Ran(arguments=arguments, code=done.returncode, out=done.stdout, err=done.stderr)
    for sign in ("Traceback", "this is a bug"):
        assert sign not in ran.out + ran.err, f"{arguments}\n{ran.out}{ran.err}"
    assert ran.code == code, f"{arguments}: exit {ran.code}, not {code}\n{ran.out}{ran.err}"
    return ran


def vgpus(where: Runs, *hosts: str) -> list[dict[str, Any]]:
    """The rows of `list -o json`."""
    rows = vgpumgr(where, "list", *hosts, "-o", "json").document["vgpus"]
    assert isinstance(rows, list)
    return rows
