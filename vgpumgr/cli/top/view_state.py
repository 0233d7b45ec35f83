"""Which part of `top` is on the screen, and how each key changes that. There is no terminal code here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr.cli.top.table import SORTS, Group

if TYPE_CHECKING:
    from vgpumgr.cli.top.history import Key

Help = Literal["", "keys", "command"]
GROUPS: Final[tuple[Group, ...]] = ("", "host", "gpu")

KEYS = (
    ("q", "leave"),
    ("↑ ↓", "select the VM above or below; also k and j"),
    ("Enter", "all about the selected VM; Enter or Esc goes back"),
    ("s", "sort by the next column of: " + ", ".join(SORTS)),
    ("r", "reverse the order"),
    ("t", "group by host, by GPU, not at all"),
    ("/", "show only rows that contain this text; Enter keeps the filter, Esc clears it"),
    ("o", "show or hide VMs that are off"),
    ("e", "draw plots on the scale of the whole GPU, or of the share that the vGPU is entitled to"),
    ("PgUp PgDn", "one screen up or down; also b and space"),
    ("Home End", "first or last row; also g and G"),
    ("h", "this help; any key closes it, but for those that scroll a longer one"),
    ("H", "the help of the command"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the screen shows, and how.

    `offset`: rows above the first one on the screen; `cursor`: rows above the selected one.
    `typing`: typed text goes into the filter, `pattern`. `of_share`: plots are on the scale of the entitled share.
    `detail`: the vGPU that the whole screen is about. `help_top`: lines of the help above the screen.
    """

    sort: str = "sm"
    reverse: bool = False
    group: Group = ""
    offset: int = 0
    cursor: int = 0
    pattern: str = ""
    typing: bool = False
    hide_off: bool = True
    of_share: bool = False
    help: Help = ""
    help_top: int = 0
    detail: Key | None = None


def press(view: View, key: str, *, page: int, count: int, at: Key | None = None) -> View | None:
    """The view after a key (keyboard.py names the keys); None: quit.

    `page` is how many rows fit on the screen, and `count` how many there are; in the help both count lines. `at` is the
    vGPU of the selected row.
    """
    if view.help:
        return _scroll(view, key, page=page, count=count)
    if view.typing:
        return _type(view, key)
    if view.detail is not None and key in ("enter", "esc", "q"):
        return replace(view, detail=None)
    if key == "q":
        return None
    if key == "enter":
        return replace(view, detail=at)
    return _other_rows(view, key) or _other_look(view, key) or _move(view, key, page=page, count=count)


def _other_rows(view: View, key: str) -> View | None:
    """The view after a key that changes which rows there are, or their order; None for every other key."""
    first = replace(view, offset=0, cursor=0)
    match key:
        case "s":
            names = list(SORTS)
            return replace(first, sort=names[(names.index(view.sort) + 1) % len(names)])
        case "r":
            return replace(first, reverse=not view.reverse)
        case "t":
            return replace(first, group=GROUPS[(GROUPS.index(view.group) + 1) % len(GROUPS)])
        case "/":
            return replace(first, typing=True)
        case "o":
            return replace(first, hide_off=not view.hide_off)
        case "esc":
            return replace(first, pattern="")
        case _:
            return None


def _other_look(view: View, key: str) -> View | None:
    """The view after a key that shows the same rows in another way, or the help instead; None for every other key."""
    match key:
        case "e":
            return replace(view, of_share=not view.of_share)
        case "h" | "?":
            return replace(view, help="keys")
        case "H":
            return replace(view, help="command")
        case _:
            return None


def _scroll(view: View, key: str, *, page: int, count: int) -> View:
    """The view after a key while the help is shown. The key scrolls the help or else closes it."""
    last = max(0, count - page)
    top = _moved(min(view.help_top, last), key, page=page, count=last + 1) if last else None
    return replace(view, help="", help_top=0) if top is None else replace(view, help_top=top)


def _move(view: View, key: str, *, page: int, count: int) -> View:
    cursor = _moved(min(view.cursor, max(0, count - 1)), key, page=page, count=count)
    if cursor is None:
        return view
    return replace(view, cursor=cursor, offset=shown_from(view.offset, cursor, page=page, count=count))


def _moved(at: int, key: str, *, page: int, count: int) -> int | None:
    """The position (below `count`) to which a key moves from `at`; None for a key that does not move."""
    match key:
        case "up" | "k":
            at -= 1
        case "down" | "j":
            at += 1
        case "pgup" | "b":
            at -= page
        case "pgdn" | " ":
            at += page
        case "home" | "g":
            at = 0
        case "end" | "G":
            at = count - 1
        case _:
            return None
    return max(0, min(at, count - 1))


def shown_from(offset: int, cursor: int, *, page: int, count: int) -> int:
    """How many rows are above the screen. The number stays as it was if the selected row is on the screen then."""
    offset = max(0, min(offset, count - page))
    return max(cursor - page + 1, min(offset, cursor))


def _type(view: View, key: str) -> View:
    match key:
        case "enter":
            return replace(view, typing=False)
        case "esc":
            return replace(view, typing=False, pattern="")
        case "backspace":
            return replace(view, pattern=view.pattern[:-1])
        case _ if len(key) == 1 and key.isprintable():
            return replace(view, pattern=view.pattern + key, offset=0, cursor=0)
        case _:
            return view
