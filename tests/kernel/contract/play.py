"""Plays rows on hosts, and says where two hosts answered differently."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.kernel.contract.row import KernelOnly, LabOnly, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.kernel.contract.row import Observed, Row, Step
    from tests.kernel.contract.target import Target


@dataclass(slots=True)
class Record:
    """What every host answered to every row that was played: host → row's name → an observation for each step."""

    played: dict[str, dict[str, tuple[Observed, ...]]] = field(default_factory=dict)

    def put(self, host: str, row: Row, seen: Iterable[Observed]) -> None:
        self.played.setdefault(host, {})[row.name] = tuple(seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two hosts that answered one step differently. `why` is the table's explanation, empty where it has none."""

    row: str
    step: int
    answers: Mapping[str, str]
    why: str

    def __str__(self) -> str:
        answers = "; ".join(f"{host}: {answer}" for host, answer in self.answers.items())
        return f"{self.row} (step {self.step}): {answers}" + (f" [{self.why}]" if self.why else "")


def play(row: Row, target: Target, record: Record) -> None:
    """Play the row on the host. AssertionError names the first step that came out otherwise than the table says."""
    seen: list[Observed] = []
    try:
        target.begin(row.driver)
        for number, step in enumerate(row.steps, 1):
            seen.append(target.do(step.do))
            wrong = step.expect.mismatch(seen[-1])
            assert wrong is None, f"{target.name}: {row.name}\nstep {number}, {step.do}:\n{wrong}"
    finally:
        record.put(target.name, row, seen)
        target.end_row()


def for_lab(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows that a lab host answers."""
    return tuple(row for row in rows if not isinstance(row.only, KernelOnly))


def for_kernel(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows that the test driver on a real kernel answers."""
    return tuple(row for row in rows if not isinstance(row.only, LabOnly))


def differences(rows: Sequence[Row], record: Record) -> list[Difference]:
    """Every step that two hosts answered differently, and every row that only some of those that should have it have."""
    found = []
    for row in rows:
        hosts = {host: played[row.name] for host, played in record.played.items() if row.name in played}
        for number, step in enumerate(row.steps, 1):
            answers = {host: _answer(step, seen, number) for host, seen in hosts.items()}
            if len(set(answers.values())) > 1:
                found.append(Difference(row=row.name, step=number, answers=answers, why=step.varies))
    return found


def _answer(step: Step, seen: tuple[Observed, ...], number: int) -> str:
    return shown(seen[number - 1]) if len(seen) >= number else "not reached"


def summary(rows: Sequence[Row], record: Record) -> str:
    """The report in words: how many rows each host was asked, and the differences, those without an explanation first."""
    found = sorted(differences(rows, record), key=lambda difference: bool(difference.why))
    unexplained = sum(not difference.why for difference in found)
    asked = ", ".join(f"{host} {len(played)}" for host, played in record.played.items())
    head = f"contract: {len(rows)} rows; played: {asked}; unexplained differences: {unexplained}, explained: {len(found) - unexplained}"
    return "\n".join([head, *(f"  {difference}" for difference in found)])
