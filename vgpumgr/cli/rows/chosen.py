"""`--columns` and `--sort`: which columns are shown, and how the rows are sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from vgpumgr.cli.rows.column import spelt
from vgpumgr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.cli.rows.column import Column, View

Thing = TypeVar("Thing")


def columns(view: View, text: str) -> tuple[Column, ...]:
    """The columns that the text names (`vm,gpu`), in its order. Raises UsageError."""
    return tuple(view.column(_key("--columns", part, view.spellings)) for part in text.split(","))


def sort_keys(view: View, text: str) -> list[tuple[Column, bool]]:
    """`-sm,vm` as pairs: a column, and whether its largest values come first. Raises UsageError."""
    return [
        (view.column(_key("--sort", part.strip().lstrip("+-"), view.spellings)), part.strip().startswith("-"))
        for part in text.split(",")
    ]


def check(option: str, text: str, spellings: Iterable[str]) -> None:
    """Raises UsageError if `text` names a column that is not in `spellings`."""
    keys = {name: name for name in spellings}
    for part in text.split(","):
        _key(option, part.strip().lstrip("+-") if option == "--sort" else part, keys)


def _key(option: str, text: str, spellings: Mapping[str, str]) -> str:
    name = spelt(text.strip())
    if name not in spellings:
        from vgpumgr.names import nearest

        near = nearest(name, spellings)
        hint = f"did you mean {near}? " if near else ""
        raise UsageError(f"{option}: no column {name!r}", hint=f"{hint}columns: {', '.join(spellings)}")
    return spellings[name]


def in_order(rows: Sequence[Thing], keys: Iterable[tuple[Callable[[Thing], object], bool]]) -> list[Thing]:
    """The rows, sorted by these keys; the first counts most. True: the largest come first. Unknown is always last."""
    result = list(rows)
    for key, is_reverse in reversed(tuple(keys)):
        known = [row for row in result if key(row) is not None]
        known.sort(key=lambda row: _comparable(key(row)), reverse=is_reverse)
        result = [*known, *(row for row in result if key(row) is None)]
    return result


def _comparable(value: object) -> tuple[float, object]:
    """A sort key: a number as it is, text in its natural order. No column has both numbers and texts."""
    from vgpumgr.names import natural_order

    return (float(value), ()) if isinstance(value, int | float) else (0.0, natural_order(str(value)))


def arranged(view: View, document: Row, text: str) -> Row:
    """The document with its rows sorted as `text` says. Rows that are listed within a host stay within it."""
    keys = [(column.value, is_reverse) for column, is_reverse in sort_keys(view, text)]
    return _arranged(document, view.path, keys)


def _arranged(one: Row, path: Sequence[str], keys: Sequence[tuple[Callable[[Row], Any], bool]]) -> Row:
    if not path:
        return one
    below = one.get(path[0])
    if isinstance(below, dict):
        return {**one, path[0]: _arranged(below, path[1:], keys)}
    if not below:
        return one
    inner = in_order(below, keys) if len(path) == 1 else [_arranged(part, path[1:], keys) for part in below]
    return {**one, path[0]: inner}
