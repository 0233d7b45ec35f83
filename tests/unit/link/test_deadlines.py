"""A call that is waited for can be left behind: at its deadline, and at Ctrl-C whichever thread the signal reaches."""

from __future__ import annotations

import signal
import threading

import pytest

from vgpumgr.link.deadlines import Bounded


def test_an_interrupt_that_reaches_another_thread_ends_the_wait_all_the_same() -> None:
    """The kernel may give a process's signal to any of its threads; a wait in C of the main one goes on then."""
    over = threading.Event()
    call = Bounded(lambda: over.wait(60), name="test")
    other = threading.Thread(target=over.wait, args=(60,))
    other.start()
    assert other.ident is not None
    threading.Timer(0.3, signal.pthread_kill, args=(other.ident, signal.SIGINT)).start()
    late = threading.Timer(10, over.set)
    late.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call.result(30)
        assert not call.done
    finally:
        late.cancel()
        over.set()
        other.join()


def test_what_does_not_end_in_time_is_told_and_goes_on() -> None:
    over = threading.Event()
    call = Bounded(lambda: over.wait(60), name="test")
    with pytest.raises(TimeoutError):
        call.result(0.1)
    over.set()
    assert call.result(30) is True


def test_an_error_of_the_call_is_raised_where_it_is_awaited() -> None:
    def fail() -> None:
        raise ValueError("so")

    with pytest.raises(ValueError, match="so"):
        Bounded(fail, name="test").result(30)
