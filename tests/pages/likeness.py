"""Whether what was printed is what a page shows: all but times, process numbers and what the page itself leaves out (`…`)."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# What differs from run to run: how long it took, the time of a measurement, who runs it.
_VARIES = (
    (re.compile(r"\b\d+\.\d s\b"), "0.0 s"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"  \d+(\.\d+)?%( +[▁▂▃▄▅▆▇█ ]+)?$"), "  …"),  # the coverage, and the bars at their quarters of an hour
    (
        re.compile(r"\b\d{3,}%"),
        "N%",
    ),  # of a share; and the loads that pages set, as they are measured over some seconds
    (re.compile(r"\b(5[5-9]|6[0-4])%"), "60%"),
    (re.compile(r"\b(3[5-9]|4[0-4])%"), "40%"),
    (re.compile(r"  +\d+[smhd]$"), "  AGE"),
    (re.compile(r"\(pid \d+"), "(pid 0"),
    (re.compile(r"open /dev/vfio/\d+|/dev/vfio/\d+ open"), "/dev/vfio/0 open"),
    (re.compile(r"\b\d+(\.\d+){3} port \d+"), "ADDRESS"),
    (re.compile(r"\b[\w-]+@[\w.-]+(?=  |, TIME|$)"), "SOMEBODY"),
    (re.compile(r"  +"), "  "),
)


def steady(line: str) -> str:
    for pattern, text in _VARIES:
        line = pattern.sub(text, line)
    return line.rstrip()


def _in_order(lines: Sequence[str]) -> list[str]:
    """With the lines of one of Ansible's tasks by host: they come as the hosts answer."""
    found: list[str] = []
    for is_host, group in groupby(lines, lambda line: bool(re.match(r"(ok|changed|failed): \[", line))):
        together = list(group)
        found += sorted(together, key=lambda line: line.partition("[")[2]) if is_host else together
    return found


def alike(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether they say the same. A line `…` in what is shown stands for any lines, `…` in a line for any text."""
    want, have = ([steady(line) for line in _in_order(lines)] for lines in (shown, printed))
    while want and not want[-1]:
        want.pop()
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "…" else _of_line(line) + r"\n" for line in want)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in have)) is not None


def _of_line(line: str) -> str:
    return ".*".join(re.escape(part) for part in re.split(r" ?… ?", line))
