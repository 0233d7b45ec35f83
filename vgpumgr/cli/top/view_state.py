"""Which part of `top` is on the screen, and how each key changes that. There is no terminal code here."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vgpumgr.cli.top.table import SORTS

KEYS = (
    ("q", "leave"),
    ("s", "sort by the next column of: " + ", ".join(SORTS)),
    ("/", "show only rows that contain this text; Enter keeps the filter, Esc clears it"),
    ("o", "hide or show VMs that are off"),
    ("↑ ↓", "one line up or down; also k and j"),
    ("PgUp PgDn", "one screen up or down; also b and space"),
    ("Home End", "first or last row; also g and G"),
    ("h", "this help; any key closes it"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """`offset`: rows above the first one on the screen. `typing`: typed text goes into the filter, `pattern`."""

    sort: str = "sm"
    offset: int = 0
    pattern: str = ""
    typing: bool = False
    hide_off: bool = False
    help: bool = False


def press(view: View, key: str, *, page: int, count: int) -> View | None:
    """The view after a key (keyboard.py names them); None: quit. `page` rows fit on the screen; there are `count`."""
    if view.help:
        return replace(view, help=False)
    if view.typing:
        return _type(view, key)
    last = max(0, count - page)
    offset = min(view.offset, last)
    match key:
        case "q":
            return None
        case "s":
            names = list(SORTS)
            return replace(view, sort=names[(names.index(view.sort) + 1) % len(names)], offset=0)
        case "/":
            return replace(view, typing=True, offset=0)
        case "o":
            return replace(view, hide_off=not view.hide_off, offset=0)
        case "h" | "?":
            return replace(view, help=True)
        case "esc":
            return replace(view, pattern="", offset=0)
        case "up" | "k":
            offset -= 1
        case "down" | "j":
            offset += 1
        case "pgup" | "b":
            offset -= page
        case "pgdn" | " ":
            offset += page
        case "home" | "g":
            offset = 0
        case "end" | "G":
            offset = last
        case _:
            return view
    return replace(view, offset=max(0, min(offset, last)))


def _type(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, typing=False)
        case "esc":
            return replace(view, typing=False, pattern="")
        case "backspace":
            return replace(view, pattern=view.pattern[:-1])
        case _ if len(key) == 1 and key.isprintable():
            return replace(view, pattern=view.pattern + key, offset=0)
        case _:
            return view
