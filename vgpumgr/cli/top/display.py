"""The loop of `top` on a terminal: keys, readings and size changes come in, frames go out.

A thread reads hosts, so that a slow one delays neither keys nor the screen. However `top` ends (q, Ctrl-C, SIGTERM,
Ctrl-Z, an error), the terminal is restored.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING

from vgpumgr.cli.text import output
from vgpumgr.cli.top import frames, keyboard, view_state
from vgpumgr.cli.top.history import History
from vgpumgr.cli.top.screen import Screen
from vgpumgr.cli.top.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from vgpumgr.cli.top.view_state import View
    from vgpumgr.controller.usage import Past
    from vgpumgr.core.usage.readings import Round

    Rounds = Callable[[], Sequence[Round]]


@dataclass(frozen=True, slots=True)
class _Key:
    name: str


@dataclass(frozen=True, slots=True)
class _Read:
    rounds: Sequence[Round]


@dataclass(frozen=True, slots=True)
class _Broken:
    error: BaseException


@dataclass(frozen=True, slots=True)
class _Known:
    past: Past | None


class _Resized:
    pass


class _Suspended:
    pass


@dataclass(frozen=True, slots=True)
class _Ending:
    """A signal that ends the program.

    `handler`: the signal's handler before `top` began; calling it raises the exception that ends the program.
    """

    number: int
    handler: Callable[[int, FrameType | None], object]


_Event = _Key | _Read | _Known | _Broken | _Resized | _Suspended | _Ending


def run(
    rounds: Rounds,
    *,
    every_s: float,
    view: View,
    hosts: int,
    colour: bool,
    manual: tuple[str, ...] = (),
    chosen: bool = False,
    past: Callable[[], Past | None] = lambda: None,
) -> None:
    """Show `rounds()` at this interval until the user quits.

    `hosts` is the number of hosts to read, `manual` the command's help; `chosen`: only VMs that were named are shown.
    `past` is asked once, after the first reading.
    """
    _Loop(every_s=every_s, view=view, hosts=hosts, colour=colour, manual=manual, chosen=chosen).run(rounds, past)


class _Loop:
    def __init__(
        self, *, every_s: float, view: View, hosts: int, colour: bool, manual: tuple[str, ...], chosen: bool
    ) -> None:
        self._every_s = every_s
        self._view = view
        self._hosts = hosts
        self._colour = colour
        self._manual = manual
        self._chosen = chosen
        self._past: Past | None = None
        self._history = History()
        self._rounds: Sequence[Round] = ()
        # A signal handler can call its put at any point (docs.python.org/3/library/queue.html).
        self._events: SimpleQueue[_Event] = SimpleQueue()

    def run(self, rounds: Rounds, past: Callable[[], Past | None]) -> None:
        stop = threading.Event()
        reader = threading.Thread(target=self._read, args=(rounds, past, stop), name="rounds", daemon=True)
        with self._signals():
            try:
                while self._show(reader):
                    _stop_like_the_shell_wants()
            finally:
                stop.set()

    def _show(self, reader: threading.Thread) -> bool:
        """Draw until the user quits (False) or suspends the program (True)."""
        with Screen(colour=self._colour) as screen, self._keys():
            self._draw(screen)
            if reader.ident is None:
                reader.start()
            while True:
                match self._events.get():
                    case _Key(name):
                        frame = self._frame(screen)
                        view = view_state.press(self._view, name, page=frame.page, count=frame.count, at=frame.at)
                        if view is None:
                            return False
                        self._view = view
                    case _Read(rounds):
                        self._rounds = rounds
                        self._history.add(rounds)
                    case _Known(past):
                        self._past = past
                    case _Broken(error):
                        raise error
                    case _Ending(number, handler):
                        handler(number, None)
                    case _Suspended():
                        return True
                    case _Resized():
                        pass
                if self._events.empty():
                    self._draw(screen)

    def _draw(self, screen: Screen) -> None:
        screen.draw(self._frame(screen))

    def _frame(self, screen: Screen) -> frames.Frame:
        width, height = screen.size
        setting = Setting(
            width=width,
            height=height,
            ascii_only=screen.ascii_only,
            hosts=self._hosts,
            every_s=self._every_s,
            manual=self._manual,
            chosen=self._chosen,
            past=self._past,
        )
        return frames.frame(self._rounds, self._view, self._history, setting)

    def _read(self, rounds: Rounds, past: Callable[[], Past | None], stop: threading.Event) -> None:
        """The thread that reads: one round, then a pause, so that a slow fleet is not read continuously."""
        try:
            self._events.put(_Read(rounds()))
            self._events.put(_Known(past()))
            while not stop.wait(self._every_s):
                self._events.put(_Read(rounds()))
        except BaseException as error:  # noqa: BLE001 -- re-raised where the terminal can be restored
            self._events.put(_Broken(error))

    @contextmanager
    def _keys(self) -> Iterator[None]:
        """Turn pressed keys into events, if stdin is a terminal."""
        if not output.is_terminal(sys.stdin):
            yield
            return
        with keyboard.pressed(sys.stdin.fileno(), lambda key: self._events.put(_Key(key))):
            yield

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Turn size changes, Ctrl-Z, Ctrl-C and SIGTERM into events; the previous handlers are restored afterwards.

        The program must not be ended while a frame is drawn: rich might then not restore the terminal.
        """
        with contextlib.ExitStack() as handlers:
            for number, event in ((signal.SIGWINCH, _Resized()), (signal.SIGTSTP, _Suspended())):
                handlers.callback(signal.signal, number, signal.signal(number, self._telling(event)))
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if callable(before):
                    handlers.callback(signal.signal, number, signal.signal(number, self._ending(before)))
            yield

    def _telling(self, event: _Event) -> Callable[[int, object], None]:
        return lambda _number, _frame: self._events.put(event)

    def _ending(self, handler: Callable[[int, FrameType | None], object]) -> Callable[[int, object], None]:
        def end(number: int, _frame: object) -> None:
            signal.signal(number, handler)  # a second signal does not wait for the loop, which may be stuck
            self._events.put(_Ending(number, handler))

        return end


def _stop_like_the_shell_wants() -> None:
    """Stop as Ctrl-Z does without a handler; returns when `fg` resumes the program."""
    ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, ours)
