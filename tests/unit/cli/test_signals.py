"""A signal ends the program even if it comes where Python discards exceptions."""

from __future__ import annotations

import importlib
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from vgpumgr.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

bootstrap: Any = importlib.import_module("importlib._bootstrap")


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGTERM, main._terminate)
    signal.signal(signal.SIGINT, main._interrupt)
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def in_a_finalizer(number: int, _patch: pytest.MonkeyPatch) -> None:
    class Leaving:
        def __del__(self) -> None:
            signal.raise_signal(number)

    Leaving()


def as_an_import_ends(number: int, patch: pytest.MonkeyPatch) -> None:
    """In the callback of the weak reference that importlib keeps of each module's lock."""

    class Imp:
        def acquire_lock(self) -> None:
            patch.undo()
            bootstrap._imp.acquire_lock()
            signal.raise_signal(number)

    lock = bootstrap._get_module_lock("a_module_of_this_test")
    patch.setattr(bootstrap, "_imp", Imp())
    del lock


def test_a_function_that_happens_to_be_called_cb_does_not_keep_a_signal_waiting() -> None:
    def cb() -> None:
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("it went on")

    with pytest.raises(main.Terminated):
        cb()


@pytest.mark.parametrize("when", [in_a_finalizer, as_an_import_ends])
@pytest.mark.parametrize(("number", "ends"), [(signal.SIGTERM, main.Terminated), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_is_not_lost_where_exceptions_are_discarded(
    when: Callable[[int, pytest.MonkeyPatch], None],
    number: signal.Signals,
    ends: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> None:
        when(number, monkeypatch)
        time.sleep(5)

    with pytest.raises(ends):
        run()
