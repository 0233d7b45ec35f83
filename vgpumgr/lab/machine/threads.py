"""A supervisor's additional threads; only the main thread receives the signals that end it."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def end_on_signals() -> None:
    """End this process at once on SIGTERM, SIGINT and SIGHUP; the kernel then ends the host (machine.py).

    Without our handlers libfuse would install its own, which only stop /sys.
    """
    for number in _ENDING:
        signal.signal(number, lambda received, _frame: os._exit(128 + received))


def start_thread(name: str, run: Callable[[], None]) -> None:
    """Start a thread that ends with the process and receives no terminating signal."""

    def masked() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        run()

    threading.Thread(target=masked, name=name, daemon=True).start()
