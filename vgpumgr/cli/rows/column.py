"""A command's rows as a value: its columns, where each is found in the document, and how a person reads it.

Every format follows from it. A row is an object of the document of `-o json`, and takes along what it shares with its
neighbours: `host` of a GPU is its host's `name`. A column is a key of the row; a dot leads into an object (`sm.p95`).
csv, wide and jsonl have all columns, the table some of them, all in one order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.rows import cells

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vgpumgr.cli.rows.cells import Read, Row

UNKNOWN, ABSENT = "?", "-"
_NAME, _PROSE = 36, 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """`read`: the value as a person reads it; None is printed as `none`. `is_prose`: sentences, which may be folded.

    `in_table`: not only in wide, csv and jsonl. `is_number`: aligned to the right. `colours`: of some texts.
    """

    key: str
    head: str
    in_table: bool = False
    read: Read = cells.plain
    none: str = UNKNOWN
    is_number: bool = False
    is_prose: bool = False
    colours: Mapping[str, str] = field(default_factory=dict)

    @property
    def least(self) -> int:
        """Text that is no wider than this is on one line. A name or an address is never cut: a longer one is folded."""
        return _PROSE if self.is_prose else _NAME

    def value(self, row: Row) -> Any:
        """What a machine reads; None for unknown and for absent."""
        return at(row, self.key)

    def text(self, row: Row) -> str:
        """What a person reads."""
        text = self.read(self.value(row), row)
        return self.none if text is None else text


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The rows of a document. `path`: the keys of the lists that lead to them, the outermost first.

    `shared`: columns with their value elsewhere than in the row, and where: `hosts.name`. `names`: the columns of
    `-o name`. `gives_way`: the columns that a narrow terminal drops, in this order; the others always stay.
    """

    path: tuple[str, ...]
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    shared: Mapping[str, str] = field(default_factory=dict)
    gives_way: tuple[str, ...] = ()

    @property
    def table(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.in_table)

    @property
    def spellings(self) -> dict[str, str]:
        """What --columns and --sort take, and the key that it means: keys, and the heads of the table."""
        heads = {spelt(column.head): column.key for column in reversed(self.columns)}
        return {column.key: column.key for column in self.columns} | {
            head: key for head, key in heads.items() if head not in {column.key for column in self.columns}
        }

    def column(self, key: str) -> Column:
        return next(column for column in self.columns if column.key == key)

    def rows(self, document: Row) -> list[Row]:
        """The document's rows, in its order."""
        return [*self._below(document, self.path, {})]

    def _below(self, one: Row, path: Sequence[str], shared: dict[str, Any]) -> Iterator[Row]:
        if not path:
            yield {**shared, **one}
            return
        key, *tail = path
        for below in listed(one.get(key)):
            # `hosts.name` is the name of each of the hosts.
            values = {
                column: at(below, where.removeprefix(f"{key}."))
                for column, where in self.shared.items()
                if where.startswith(f"{key}.")
            }
            yield from self._below(below, tail, {**shared, **values})


def listed(found: Any) -> Sequence[Row]:
    """The objects of a list; an object stands for a list of one."""
    return [found] if isinstance(found, dict) else found or ()


def at(one: Row, where: str) -> Any:
    """What a key leads to, a dot into an object; None where there is nothing."""
    value: Any = one
    for part in where.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def spelt(text: str) -> str:
    """A head as it is typed: `FITS NOW` → `fits_now`."""
    return text.lower().replace(" ", "_").replace("-", "_")
