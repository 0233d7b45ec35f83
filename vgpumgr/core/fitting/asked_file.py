"""What `fit` is asked, in a file: a mapping of `gpus` and `requests`, or a list of such mappings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.core.driver import modes
from vgpumgr.core.fitting.asked import MOST_GPUS, MOST_VGPUS, Empty, Pool, in_mode, within
from vgpumgr.core.inventory import reading
from vgpumgr.errors import UnknownProfile, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.inventory.located import Table, Value
    from vgpumgr.core.inventory.report import Report

EXAMPLE: Final = "{gpus: [{board: A40, count: 2}], requests: [{profile: 8Q, count: 3}]}"


def read(content: Value, catalogue: Catalogue, report: Report) -> tuple[Pool, ...]:
    """The pools of a file. What is wrong goes into the report, with its line."""
    items = content.data if isinstance(content.data, tuple) else (content,)
    if not items:
        report.problem(content.where, "the file asks for nothing", f"for example {EXAMPLE}")
    return tuple(pool for item in items if (pool := _pool(item, catalogue, report)) is not None)


def _pool(item: Value, catalogue: Catalogue, report: Report) -> Pool | None:
    table = reading.read_table(item, "the question", report, example=EXAMPLE, none_allowed=False)
    if table is None:
        return None
    reading.check_keys(table, ("gpus", "requests"), "the question", report)
    gpus: list[Empty] = []
    for entry in _entries(item, table, "gpus", ("board", "mode", "count"), report):
        gpus += _gpus(entry, catalogue, report)
    requests: dict[str, int] = {}
    for entry in _entries(item, table, "requests", ("profile", "count"), report):
        profile = reading.read_text(entry["profile"].value, "profile", report, example="8Q")
        count = _count(entry, MOST_VGPUS, report)
        if profile is not None and count is not None:
            requests[profile.strip()] = requests.get(profile.strip(), 0) + count
    try:
        return within(Pool(gpus=tuple(gpus), requests=tuple(requests.items())), "the question")
    except UsageError as error:
        report.problem(item.where, error.message, error.hint)
        return None


def _entries(item: Value, table: Table, key: str, keys: tuple[str, ...], report: Report) -> Iterator[Table]:
    """The mappings in a list, of which there must be at least one. Each has the first of the `keys`."""
    value = table[key].value if key in table else None
    if value is None or not isinstance(value.data, tuple) or not value.data:
        where = item.where if value is None else value.where
        report.problem(where, f"{key} must be a list with at least one entry", f"for example {EXAMPLE}")
        return
    for one in value.data:
        entry = reading.read_table(one, f"an entry of {key}", report, example=EXAMPLE, none_allowed=False)
        if entry is None:
            continue
        reading.check_keys(entry, keys, f"an entry of {key}", report)
        if keys[0] in entry:
            yield entry
        else:
            report.problem(one.where, f"an entry of {key} has no {keys[0]}", f"for example {EXAMPLE}")


def _gpus(entry: Table, catalogue: Catalogue, report: Report) -> list[Empty]:
    board = reading.read_text(entry["board"].value, "board", report, example="A40")
    count = _count(entry, MOST_GPUS, report)
    mode = reading.read_choice(entry["mode"].value, "mode", modes.MODES, report) if "mode" in entry else None
    if board is None or count is None or ("mode" in entry and mode is None):
        return []
    try:
        return [in_mode(catalogue, board, mode)] * count
    except (UnknownProfile, UsageError) as error:
        report.problem(entry["board"].value.where, error.message, error.hint)
        return []


def _count(entry: Table, most: int, report: Report) -> int | None:
    return reading.read_whole(entry["count"].value, "count", report, low=1, high=most) if "count" in entry else 1
