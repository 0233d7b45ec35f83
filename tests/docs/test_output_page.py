"""docs/output.md lists the columns of every command as they are."""

from __future__ import annotations

import re
import typing
from pathlib import Path

from vgpumgr.cli.rows.every import VIEWS
from vgpumgr.cli.rows.states import STATES
from vgpumgr.cli.settings import FORMATS
from vgpumgr.core.model import installation
from vgpumgr.core.report import instances, listing, modes, schedulers
from vgpumgr.core.usage import usage_rows
from vgpumgr.errors import Outcome

LINES = (
    "attach",
    "plan",
    "cordon",
    "collect",
    "render",
    "mig show",
    "mig fit",
    "gc",
    "install cron",
    "host purge",
    "forget",
)  # for people they print no table
PAGE = (Path(__file__).parents[2] / "docs/output.md").read_text(encoding="utf-8")


def test_each_table_has_the_columns_of_the_page_and_they_give_way_in_its_order() -> None:
    told = {
        name: (columns, gives_way)
        for name, columns, gives_way in re.findall(r"^\| `([^`]+)` \| ([A-Z].*) \| (.+) \|$", PAGE, re.MULTILINE)
    }
    assert told == {
        name: (
            ", ".join(column.head for column in view.table),
            ", ".join(view.column(key).head for key in view.gives_way) or "none",
        )
        for name, view in VIEWS.items()
        if name not in LINES
    }


def test_each_format_is_told() -> None:
    assert {name for name in FORMATS if f"`-o {name}`" in PAGE} == set(FORMATS)


def test_each_word_for_a_state_is_told_and_has_a_colour() -> None:
    words = {str(one) for one in (*Outcome, *installation.State)}
    for kind in (instances.State, listing.State, modes.State, schedulers.State, usage_rows.State):
        words |= set(typing.get_args(kind))
    told = {
        word
        for cell in re.findall(r"^\| (`[a-z_`, ]+`) \| ", PAGE, re.MULTILINE)
        for word in re.findall(r"`(.+?)`", cell)
    }
    assert words - told == set()
    assert words - set(STATES) == set()
