"""Problems, which stop the work, and findings, which do not; both are collected while reading continues."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr.core.inventory import templates
from vgpumgr.errors import InventoryError
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vgpumgr.core.inventory.located import Location
    from vgpumgr.core.inventory.templates import Host


_LITERALS_AT_MOST = 20  # finding an example among thousands of hosts is slow, and the first few show how


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to correct. Its text is one line `file:line: text; hint`."""

    where: Location
    text: str
    hint: str | None = None

    def __str__(self) -> str:
        return (
            say("{}: {}; {}", self.where, self.text, self.hint) if self.hint else say("{}: {}", self.where, self.text)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something worth knowing that stops nothing. `where` is None if it belongs to no single line."""

    where: Location | None
    text: str

    def __str__(self) -> str:
        return say("{}: {}", self.where, self.text) if self.where else self.text


@dataclass(slots=True)
class Report:
    """Collects problems and findings. A line that a thousand hosts share through a group is reported once."""

    example: Callable[[], Host | None] = lambda: None  # a host that has what is being read now
    _problems: dict[Problem, None] = field(default_factory=dict)
    _templates: set[tuple[Location, str]] = field(default_factory=set)
    _findings: dict[Finding, None] = field(default_factory=dict)

    def problem(self, where: Location, text: str, hint: str | None = None) -> None:
        self._problems[Problem(where=where, text=text, hint=hint)] = None

    def template(self, where: Location, text: str, value: str, kind: str) -> None:
        """Add the problem that a value is a template. `kind`: what is to be written instead."""
        if (where, text) in self._templates:  # another host would have another literal
            return
        self._templates.add((where, text))
        host = self.example() if len(self._templates) <= _LITERALS_AT_MOST else None
        literal = None if host is None else templates.literal(value, host)
        hint = f"for {host.name} that is {literal!r}" if host is not None and literal is not None else kind
        self.problem(where, text, f"write the value itself: {hint}")

    def finding(self, where: Location | None, text: str) -> None:
        self._findings[Finding(where=where, text=text)] = None

    def extend(self, problems: Iterable[Problem], findings: Iterable[Finding]) -> None:
        self._problems.update(dict.fromkeys(problems))
        self._findings.update(dict.fromkeys(findings))

    def problems(self) -> tuple[Problem, ...]:
        return tuple(sorted(self._problems, key=lambda problem: (problem.where, problem.text)))

    def findings(self) -> tuple[Finding, ...]:
        return tuple(sorted(self._findings, key=_order))


def refusal(root: str, problems: Sequence[Problem]) -> InventoryError:
    """The error that says that the inventory in the folder `root` has these problems."""
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return InventoryError(
        f"{count} in the inventory {root}",
        hint="correct the lines above, then `vgpumgr inventory check`",
        details=[str(problem) for problem in problems],
    )


def _order(finding: Finding) -> tuple[str, int, str]:
    return (finding.where.file, finding.where.line, finding.text) if finding.where else ("", 0, finding.text)
