"""Statements put together from parts: constants of ours. Values are always bound as parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence


def select(table: str, columns: Sequence[str]) -> str:
    return f"SELECT {', '.join(columns)} FROM {table}"  # noqa: S608 -- our own names


def insert(table: str, columns: Sequence[str], *, verb: str = "INSERT") -> str:
    """The statement that inserts a row, given as a sequence in the order of the columns."""
    return f"{verb} INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def where(statement: str, *conditions: str) -> str:
    """The statement for the rows that meet all conditions; for all rows if there are none."""
    return f"{statement} WHERE {' AND '.join(conditions)}" if conditions else statement


def scalar(
    connection: sqlite3.Connection, statement: str, parameters: Sequence[object] | dict[str, object] = ()
) -> Any:
    """The first column of the first row; None if there is no row."""
    row = connection.execute(statement, parameters).fetchone()
    return None if row is None else row[0]
