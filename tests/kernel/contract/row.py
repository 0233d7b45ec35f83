"""What a row of the contract is made of: operations, the outcomes that are expected of them, and the row itself. Plain data.

A row is played on a host, step by step, from a state without vGPUs and with the driver's parameters as they are by default;
whoever plays it cleans up afterwards, however it went.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


class Basis(Enum):
    """What a row rests on: who says that a host with NVIDIA's driver answers so. docs/evidence.md counts them."""

    KERNEL = "the kernel's own code, which the test runs"
    OPEN_PART = "NVIDIA's open kernel part of the vGPU host driver, 525.85.07, run on 5.15 and 5.19 over a stub"
    OPEN_MODULES = "NVIDIA's open kernel modules, read"
    HEADER = "NVIDIA's public header nvml.h"
    CAPTURE = "a capture of a real host"
    FIELD = "reports and tools of people who have the hardware"
    INFERRED = "inferred: nobody says so"


# operations


@dataclass(frozen=True, slots=True)
class Operation:
    """What is done on a host: a request to runner.py, in its words. steps.py makes them."""

    do: str
    keys: Mapping[str, object]

    def __str__(self) -> str:
        return f"{self.do} {dict(self.keys)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What came of an operation on a host. `waits`: it has not come back yet; then nothing else is known."""

    errno: str | None = None
    value: str | tuple[str, ...] | None = None
    waits: bool = False
    seconds: float = 0.0


# outcomes


@dataclass(frozen=True, slots=True)
class Done:
    """No error, whatever was answered. `at_least_s`: and not sooner than that."""

    at_least_s: float = 0.0

    def mismatch(self, seen: Observed) -> str | None:
        if seen.waits or seen.errno is not None:
            return f"expected no error, got {shown(seen)}"
        if seen.seconds < self.at_least_s:
            return f"expected it to take {self.at_least_s} s, it took {seen.seconds:.3f} s"
        return None


@dataclass(frozen=True, slots=True)
class Refused:
    """The error of that name."""

    errno: str

    def mismatch(self, seen: Observed) -> str | None:
        return None if seen.errno == self.errno else f"expected {self.errno}, got {shown(seen)}"


@dataclass(frozen=True, slots=True)
class Tells:
    """Exactly this answer; names in any order."""

    value: str | tuple[str, ...]

    def mismatch(self, seen: Observed) -> str | None:
        wanted = self.value if isinstance(self.value, str) else tuple(sorted(self.value))
        return None if seen.errno is None and seen.value == wanted else f"expected {wanted!r}, got {shown(seen)}"


@dataclass(frozen=True, slots=True)
class Like:
    """An answer that the whole pattern fits; of names there must be exactly one."""

    pattern: str

    def mismatch(self, seen: Observed) -> str | None:
        text = seen.value[0] if isinstance(seen.value, tuple) and len(seen.value) == 1 else seen.value
        if seen.errno is None and isinstance(text, str) and re.fullmatch(self.pattern, text, re.DOTALL):
            return None
        return f"expected what {self.pattern!r} fits, got {shown(seen)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Among:
    """Of the names, these are there and those are not; others do not matter."""

    there: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def mismatch(self, seen: Observed) -> str | None:
        if seen.errno is not None or not isinstance(seen.value, tuple):
            return f"expected names, got {shown(seen)}"
        lacking, extra = set(self.there) - set(seen.value), set(self.missing) & set(seen.value)
        return f"lacking {sorted(lacking)}, too many {sorted(extra)}, in {seen.value}" if lacking or extra else None


@dataclass(frozen=True, slots=True)
class Waits:
    """It has not come back."""

    def mismatch(self, seen: Observed) -> str | None:
        return None if seen.waits else f"expected it to wait, got {shown(seen)}"


Outcome: TypeAlias = Done | Refused | Tells | Like | Among | Waits


def shown(seen: Observed) -> str:
    """An observation in words."""
    if seen.waits:
        return "no answer yet"
    if seen.errno is not None:
        return seen.errno
    return "no error" if seen.value is None else repr(seen.value)


# rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An operation and its outcome.

    `varies` says why hosts may answer differently here although the outcome fits; else they must not.
    """

    do: Operation
    expect: Outcome
    varies: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of the driver module while a row is played: what only the closed driver decides.

    `lab_fault` is the lab's fault that means the same, if it has one.
    """

    name: str
    value: str
    lab_fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOnly:
    """No test module can answer it. `source`: who says so about the closed driver."""

    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOnly:
    """The lab does not show it, and why it need not."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One promise, in one sentence.

    `rests`: what it rests on, and `source` where in it, if that is not the kernel's own code; then the module and the lab are two
    imitations of the same source, and that they agree is all that is shown.
    """

    name: str
    card: str
    rests: Basis
    steps: tuple[Step, ...]
    source: str = ""
    driver: tuple[Parameter, ...] = ()
    only: LabOnly | KernelOnly | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """Makes rows about the same card that rest on the same."""

    card: str
    rests: Basis
    source: str = ""

    def __call__(
        self, name: str, *steps: Step, driver: tuple[Parameter, ...] = (), only: LabOnly | KernelOnly | None = None
    ) -> Row:
        return Row(
            name=name, card=self.card, rests=self.rests, steps=steps, source=self.source, driver=driver, only=only
        )
