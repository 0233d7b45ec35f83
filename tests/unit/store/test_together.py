"""Lines of many threads are written together, each before its thread goes on, and one that cannot be stored fails alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.controllers import wait_until
from vgpumgr.errors import StoreError
from vgpumgr.store.together import Together

if TYPE_CHECKING:
    from collections.abc import Sequence

THREADS = 16


class Place:
    """Where lines go; the first call lasts until every other line waits."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.calls = 0
        self.together = Together(self._write_all)

    def _write_all(self, lines: Sequence[str]) -> None:
        self.calls += 1
        if self.calls == 1:
            wait_until(lambda: len(self.together._waiting) == THREADS - len(lines), "all lines")
        if "bad" in lines:
            raise StoreError("bad")
        self.written += lines


def written_by_threads(place: Place, lines: Sequence[str]) -> list[str]:
    """How each line ended."""

    def write(line: str) -> str:
        try:
            place.together.write(line)
        except StoreError as error:
            return str(error)
        return "written" if line in place.written else "lost"

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(write, lines))


def test_what_waits_is_written_at_once() -> None:
    place = Place()
    lines = [str(number) for number in range(THREADS)]
    assert written_by_threads(place, lines) == ["written"] * THREADS
    assert sorted(place.written) == sorted(lines)
    assert place.calls <= 2  # whoever came first, and then all who had come meanwhile


def test_a_line_that_cannot_be_stored_takes_no_other_with_it() -> None:
    place = Place()
    lines = ["bad", *(str(number) for number in range(1, THREADS))]
    assert written_by_threads(place, lines) == ["bad"] + ["written"] * (THREADS - 1)


def test_who_is_interrupted_while_it_writes_leaves_nobody_waiting() -> None:
    def interrupted(_lines: Sequence[str]) -> None:
        raise KeyboardInterrupt

    together = Together(interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            together.write("line")
