"""Which columns fit on a terminal's line, and how wide each is.

Nothing is cut. In a table wider than the terminal, sentences are folded first, then names, down to their least widths.
Columns are dropped, in order, only if that is not enough. The remaining ones are then folded further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.cli.rows.column import Column

GAP = 2
_NARROWEST = 2  # a wide character


class Fitted(NamedTuple):
    """The columns that fit, their widths, and the columns that were dropped."""

    columns: tuple[Column, ...]
    widths: dict[str, int]
    left_out: tuple[Column, ...]


def fit(columns: Sequence[Column], natural: Mapping[str, int], gives_way: Sequence[str], width: int | None) -> Fitted:
    """Fit columns on one line. `natural`: each column's widest cell, by key. `width` None: no limit."""
    if width is None:
        return Fitted(tuple(columns), dict(natural), ())
    columns_in_use = list(columns)
    for key in gives_way:
        if (
            _total({column.key: min(natural[column.key], column.least) for column in columns_in_use}) <= width
            or len(columns_in_use) == 1
        ):
            break
        columns_in_use = [column for column in columns_in_use if column.key != key]
    widths = {column.key: natural[column.key] for column in columns_in_use}
    for prose in (True, False):
        shrink(widths, {column.key: column.least for column in columns_in_use if column.is_prose is prose}, width)
    shrink(widths, dict.fromkeys(widths, _NARROWEST), width)
    return Fitted(tuple(columns_in_use), widths, tuple(column for column in columns if column not in columns_in_use))


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def shrink(widths: dict[str, int], least: Mapping[str, int], width: int) -> None:
    """Narrow the widest of these columns until a line fits. None gets narrower than its least width."""
    while (over := _total(widths) - width) > 0:
        able = [key for key in least if widths[key] > least[key]]
        if not able:
            return
        widest = max(able, key=lambda key: widths[key])
        second = max((widths[key] for key in able if key != widest), default=0)
        widths[widest] = max(least[widest], min(widths[widest] - 1, max(second, widths[widest] - over)))
