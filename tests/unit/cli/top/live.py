"""The loop of `top` as a program for a pseudo-terminal, its rounds made up: `python -m tests.unit.cli.top.live WHAT`.

WHAT: `moving` (vm01 is busier with every round), `many` (500 VMs), `hangs` (the first reading never ends), `breaks`, or
`interrupted` (Ctrl-C comes within a frame; 1 if that is torn).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from tests.unit.metrics import made_up
from vgpumgr.cli import main
from vgpumgr.cli.top import display
from vgpumgr.cli.top.screen import Screen
from vgpumgr.cli.top.view_state import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.cli.top.frames import Frame
    from vgpumgr.core.usage.readings import Round

count = 0
HELP = ("the command's own help",)


def rounds() -> Sequence[Round]:
    global count  # noqa: PLW0603 -- a program of one loop
    count += 1
    match sys.argv[1]:
        case "hangs":
            threading.Event().wait()
        case "breaks":
            raise ValueError("made up")
        case "many":
            vgpus = [made_up.vgpu(number, sm=number % 100) for number in range(500)]
            return (made_up.one_round(made_up.gpu(*vgpus)),)
        case _:
            pass
    return (
        made_up.one_round(
            made_up.gpu(
                made_up.vgpu(1, sm=min(count, 10), used=2 * made_up.GIB),
                made_up.vgpu(2, sm=50, used=made_up.GIB),
                made_up.vgpu(3, state="off"),
                made_up.vgpu(4, sm=30, vm="🐧\x1b[2J", used=None),
            )
        ),
        made_up.failed_round(host="kvm02"),
    )


def interrupt_a_frame() -> None:
    """The next frame is interrupted half way."""
    draw = Screen.draw

    def interrupted(screen: Screen, frame: Frame) -> None:
        if count:
            Screen.draw = draw  # type: ignore[method-assign]  # interrupted once
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ValueError("a frame is torn") from None
        draw(screen, frame)

    Screen.draw = interrupted  # type: ignore[method-assign, assignment]  # in this process alone


def run() -> int:
    signal.signal(signal.SIGTERM, main._terminate)
    if sys.argv[1] == "interrupted":
        interrupt_a_frame()
    try:
        display.run(rounds, every_s=0.1, view=View(), hosts=2, colour="NO_COLOR" not in os.environ, manual=HELP)
    except main.Terminated:
        return 143
    except KeyboardInterrupt:
        return 130
    except ValueError:
        return 1
    return 0


if __name__ == "__main__":
    os._exit(run())
