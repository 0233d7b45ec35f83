"""A command's rows as a value: its columns, where each is found in the document, and how a person reads it.

Every format follows from it. A row is an object of the document of `-o json`, with values that it shares with other
rows: the `host` of a GPU is its host's `name`. A column is a key of the row; a dot leads into an object (`sm.p95`).
csv, wide and jsonl have all columns, the table only some; their order is the same.
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
    """`read` formats a value for people; None is printed as `none`. `is_prose`: sentences, which may be folded.

    `in_table`: shown in the table, too. `is_number`: aligned to the right. `colours`: the colours of some texts.
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
        """The least width: shorter text is never folded. Longer names and addresses are folded, never cut."""
        return _PROSE if self.is_prose else _NAME

    def value(self, row: Row) -> Any:
        """The value for programs; None if unknown or absent."""
        return at(row, self.key)

    def text(self, row: Row) -> str:
        """The text for people."""
        text = self.read(self.value(row), row)
        return self.none if text is None else text


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The rows of a document. `path`: the keys of the lists that lead to them, the outermost first.

    `shared`: columns whose value is not in the row, and where it is: `hosts.name`. `names`: the columns of
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
        """The names that --columns and --sort accept (keys and heads of the table), each with its key."""
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
            # Within the list `hosts`, `hosts.name` is each object's `name`.
            values = {
                column: at(below, where.removeprefix(f"{key}."))
                for column, where in self.shared.items()
                if where.startswith(f"{key}.")
            }
            yield from self._below(below, tail, {**shared, **values})


def listed(found: Any) -> Sequence[Row]:
    """The objects of a list. A single object counts as a list."""
    return [found] if isinstance(found, dict) else found or ()


def at(one: Row, where: str) -> Any:
    """The value at a key, in which a dot leads into an object. None if there is none."""
    value: Any = one
    for part in where.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def spelt(text: str) -> str:
    """A head as it is typed: `FITS NOW` → `fits_now`."""
    return text.lower().replace(" ", "_").replace("-", "_")
