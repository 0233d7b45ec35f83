"""Hearing the moments of this process (vgpumgr/link/moments.py): one listener at a time, since an audit hook stays for good."""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import TYPE_CHECKING, Any

from vgpumgr.link import moments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Listener = Callable[[str, str, str], None]

_listeners: list[Listener] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == moments.EVENT and _listeners:
        _listeners[-1](*arguments)


@functools.cache
def _install() -> None:
    sys.addaudithook(_hook)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """While it lasts, `listener` is told (host, kind, of) of every moment. What it raises goes up from there."""
    _install()
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
