"""Output keeps its word: for every command and every format the same columns in one order, and no line wider than the terminal.

The documents are the examples of the schemas, as they are and with what a host may bring: nothing, nothing known, names of 200
characters, wide, combining and right-to-left characters, control characters.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.unit.documents import published
from vgpumgr import names
from vgpumgr.cli.rows import layout, printing
from vgpumgr.cli.rows.column import View, at, listed
from vgpumgr.cli.rows.every import VIEWS
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.text import output, wrapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THINGS = {  # the schema of each command's document
    "attach": "change", "cordon": "change", "mode show": "mode", "scheduler show": "scheduler", "explain --compare": "explain",
    "capacity PROFILE": "capacity", "capacity --stranded": "capacity", "capacity --catalogue": "capacity", "profiles --offline": "types", "reconcile --restart-window": "restarts",
    "host install": "host", "host status": "host", "inventory check": "inventory", "install cron": "install",
    "lab status": "lab", "host purge": "purge",
    "host certify": "certify", "mig fit": "mig_fit", "mig show": "mig_show", "gc": "change",
    "cordon without HOST": "cordons", "usage --idle": "usage", "usage --by owner": "usage", "reserve": "reservations",
}  # fmt: skip
LONG = "a-name-that-nobody-would-give-to-a-thing" * 5
NAMES = {
    "long": LONG,
    "wide": "仮想機械-データベース",
    "combining": "cafe\u0301-nai\u0308ve",
    "right to left": "שרת-מסד-نتائج",
    "control characters": "\x1b]0;x\x07\n\u202evm01",
}
NAMED = (
    "vm",
    "host",
    "name",
    "holder",
    "type_name",
    "why",
    "user",
    "address",
    "message",
    "title",
    "board",
    "hosts",
    "problems",
)
KINDS = ("as it is", "empty", "unknown", *NAMES)


@cache
def example(command: str) -> dict[str, Any]:
    """The first example that has rows."""
    view = VIEWS[command]
    thing = THINGS.get(command, command)
    examples: list[dict[str, Any]] = published.schemas()[thing]["examples"]
    keys = {column.key.partition(".")[0] for column in view.columns}
    return next(one for one in examples if (rows := view.rows(one)) and keys <= {*rows[0]})


def document(command: str, kind: str) -> dict[str, Any]:
    found = deepcopy(example(command))
    if kind == "empty":
        _without_rows(found, VIEWS[command].path)
    elif kind == "unknown":
        return deepcopy(_unknown(command))
    elif kind in NAMES:
        _rename(found, NAMES[kind])
    return found


def _without_rows(one: dict[str, Any], path: tuple[str, ...]) -> None:
    if len(path) == 1:
        one[path[0]] = {} if isinstance(one[path[0]], dict) else []
    else:
        for below in listed(one[path[0]]):
            assert isinstance(below, dict)
            _without_rows(below, path[1:])


@cache
def _unknown(command: str) -> dict[str, Any]:
    """With null wherever the schema allows it."""
    found = deepcopy(example(command))
    thing = THINGS.get(command, command)
    for place, key in [*_leaves(found[VIEWS[command].path[0]])]:
        value = place[key]
        if isinstance(place, list) or isinstance(value, bool):
            continue
        place[key] = None
        if published.problems(thing, found):
            place[key] = value
    return found


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in [*pairs]:
        if isinstance(below, dict | list) and below:
            yield from _leaves(below)
        yield value, key


def _rename(value: Any, name: str) -> None:
    for place, key in [*_leaves(value)]:
        if key in NAMED and isinstance(place[key], str):
            place[key] = name
        elif key in NAMED and isinstance(place[key], list) and all(isinstance(one, str) for one in place[key]):
            place[key] = [name, name]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(command: str, found: dict[str, Any], **settings: Any) -> str:
        printing.print_rows(Settings(**settings), VIEWS[command], found)
        return capsys.readouterr().out

    return run


def flat(value: dict[str, Any], view: View) -> dict[str, Any]:
    """Keys with dots, as far as the view's columns lead into objects."""
    keys: dict[str, Any] = {}
    for key, below in value.items():
        if isinstance(below, dict) and any(column.key.startswith(f"{key}.") for column in view.columns):
            keys |= {f"{key}.{inner}": item for inner, item in below.items()}
        else:
            keys[key] = below
    return keys


@pytest.mark.parametrize("command", VIEWS)
def test_every_column_is_a_key_of_the_document_and_every_plain_value_of_a_row_is_a_column(command: str) -> None:
    """Lists and objects are for json; so is the whole text of a file or a page. A head, too, stands for one column."""
    view = VIEWS[command]
    keys = [column.key for column in view.columns]
    assert len(set(keys)) == len({column.head for column in view.columns}) == len(keys)
    assert {*view.gives_way, *view.names, *view.shared} <= set(keys)
    for row in view.rows(example(command)):
        assert [key for key in keys if key.partition(".")[0] not in row] == []
        plain = {key for key, value in row.items() if not isinstance(value, dict | list)}
        assert plain - set(keys) - {key.partition(".")[0] for key in keys} <= {"text", *_sources(view)}


def _sources(view: View) -> set[str]:
    """The keys of a row that have another name as a column: a host's `name` is `host`."""
    return {where.rpartition(".")[2] for where in view.shared.values()}


@pytest.mark.parametrize("command", VIEWS)
def test_csv_and_jsonl_have_the_same_columns_with_the_documents_values(
    command: str, printed: Callable[..., str]
) -> None:
    view = VIEWS[command]
    keys = [column.key for column in view.columns]
    for kind in KINDS:
        found = document(command, kind)
        text = printed(command, found, output="csv")
        head, *lines = csv.reader(io.StringIO(text))
        assert head == keys, kind
        objects = [json.loads(line) for line in printed(command, found, output="jsonl").splitlines()]
        rows = view.rows(found)
        assert len(lines) == len(objects) == len(rows), kind
        for line, one, row in zip(lines, objects, rows, strict=True):
            assert [*one] == [*dict.fromkeys(key.partition(".")[0] for key in keys)]
            assert flat(one, view) == {key: at(row, key) for key in keys}
            for key, field in zip(keys, line, strict=True):
                check_field(field, at(row, key))
        assert printed(command, found, output="csv", no_header=True) == text.partition("\n")[2]
        assert clean(text), kind


def check_field(field: str, value: Any) -> None:
    """Empty for nothing; a number as it is; never as Python writes it."""
    if value in (None, "", [], [""]):
        assert field in ("", "[]")
    elif isinstance(value, int | float):
        assert json.loads(field) == value
    else:
        assert field
        assert not field.startswith(("{'", "['"))


def clean(text: str) -> bool:
    return all(unicodedata.category(one) not in ("Cc", "Cf") for one in text.replace("\n", ""))


@pytest.mark.parametrize("command", VIEWS)
def test_yaml_and_json_are_the_whole_document(command: str, printed: Callable[..., str]) -> None:
    found = document(command, "as it is")
    assert json.loads(printed(command, found, output="json")) == found
    assert yaml.safe_load(printed(command, found, output="yaml")) == found


@pytest.mark.parametrize("command", VIEWS)
def test_away_from_a_terminal_tables_are_whole_and_wide_has_the_tables_columns_and_more(
    command: str, printed: Callable[..., str]
) -> None:
    view = VIEWS[command]
    assert [column for column in view.columns if column in view.table] == [*view.table]
    for kind in KINDS:
        found = document(command, kind)
        for form, columns in (("table", view.table), ("wide", view.columns)):
            text = printed(command, found, output=form)
            head, *lines = text.splitlines()
            assert heads(head) == [column.head for column in columns], kind
            cells = layout.texts(columns, view.rows(found))
            assert len(lines) == len(cells), kind
            assert all(cell.strip() in line for line, row in zip(lines, cells, strict=True) for cell in row), kind
            assert clean(text), kind


def heads(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


@pytest.mark.parametrize("command", VIEWS)
def test_no_line_is_wider_than_the_terminal_and_what_gives_way_is_told(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    view = VIEWS[command]
    for kind in KINDS:
        found = document(command, kind)
        for width in (60, 80, 120):
            monkeypatch.setattr(output, "width", lambda _=None, width=width: width)
            printing.print_rows(Settings(), view, found)
            said = capsys.readouterr()
            lines = said.out.splitlines()
            assert max(map(wrapping.cell_width, lines)) <= width, (kind, width)
            if kind == "as it is":
                there = heads(lines[0])
                left_out = [column for column in view.table if column.head not in there]
                assert there == [column.head for column in view.table if column not in left_out]
                shown = [key for key in view.gives_way if view.column(key) not in left_out]
                assert [*view.gives_way[: len(left_out)], *shown] == [*view.gives_way], "they give way in their order"
                told = "not shown: " + ", ".join(column.head for column in left_out) if left_out else ""
                assert " ".join(said.err.split()).partition(";")[0] == told


@pytest.mark.parametrize("command", VIEWS)
def test_columns_and_order_can_be_chosen_by_key_and_by_head(command: str, printed: Callable[..., str]) -> None:
    view, found = VIEWS[command], document(command, "as it is")
    first, last = view.columns[0], view.columns[-1]
    table = printed(command, found, columns=f"{last.key},{first.head.lower()}")
    assert heads(table.splitlines()[0]) == [last.head, first.head]
    rows = [*csv.reader(io.StringIO(printed(command, found, output="csv", columns=first.key, sorted_by=first.key)))][1:]
    assert rows == sorted(rows, key=lambda row: names.natural_order(row[0]))


@pytest.mark.parametrize("command", VIEWS)
def test_names_are_those_of_the_rows_each_once(command: str, printed: Callable[..., str]) -> None:
    view, found = VIEWS[command], document(command, "as it is")
    names = [printing.name(view, row) for row in view.rows(found)]
    assert printed(command, found, output="name").splitlines() == [*dict.fromkeys(name for name in names if name)]
    assert printed(command, document(command, "empty"), output="name") == ""
