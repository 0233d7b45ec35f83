"""Plays rows on hosts, and says where two hosts answered differently."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.kernel.contract.row import KernelOnly, LabOnly, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.kernel.contract.row import Observed, Row
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
        seen += target.do([step.do for step in row.steps])
        for number, (step, observed) in enumerate(zip(row.steps, seen, strict=True), 1):
            wrong = step.expect.mismatch(observed)
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


def differences(rows: Sequence[Row], record: Record, hosts: Sequence[str]) -> list[Difference]:
    """Every step that these hosts answered differently, of the rows that all of them were asked."""
    found = []
    for row in rows:
        played = {host: record.played.get(host, {}).get(row.name) for host in hosts}
        for number, step in enumerate(row.steps, 1):
            answers = {host: _answer(seen, number) for host, seen in played.items() if seen is not None}
            if len(set(answers.values())) > 1:
                found.append(Difference(row=row.name, step=number, answers=answers, why=step.varies))
    return found


def _answer(seen: tuple[Observed, ...], number: int) -> str:
    return shown(seen[number - 1]) if len(seen) >= number else "not reached"


def summary(rows: Sequence[Row], record: Record, hosts: Sequence[str]) -> str:
    """The report in words: a line of numbers, then the differences, those without an explanation first."""
    found = sorted(differences(rows, record, hosts), key=lambda difference: bool(difference.why))
    unexplained = sum(not difference.why for difference in found)
    asked = ", ".join(f"{host} {len(record.played.get(host, {}))}" for host in hosts)
    alone = [row for row in rows if row.only is not None]
    head = (
        f"contract of {len(rows)} rows, played: {asked}; "
        f"answers that differ without an explanation: {unexplained}, with one: {len(found) - unexplained}"
    )
    lines = [*map(str, found), *(f"{row.name}: {_why_alone(row.only)}" for row in alone)]
    return "\n  ".join([head, *lines])


def _why_alone(only: LabOnly | KernelOnly | None) -> str:
    match only:
        case LabOnly(source=source):
            return f"lab only [{source}]"
        case KernelOnly(reason=reason):
            return f"kernel only [{reason}]"
        case None:
            return "everywhere"
