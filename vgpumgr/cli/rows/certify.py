"""The rows of `host certify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.rows.column import ABSENT, Column, View

if TYPE_CHECKING:
    from vgpumgr.cli.rows.cells import Row


_COLOURS = {"holds": "green", "differs": "red", "unanswered": "dim"}


def _texts(value: list[str] | None, _row: Row) -> str | None:
    """The texts in one line. An empty text becomes the word `empty`."""
    return ", ".join(one or "empty" for one in value) if value else None


CERTIFY = View(
    path=("answers",),
    names=("gpu", "belief"),
    gives_way=("gpu",),
    columns=(
        Column(key="verdict", head="VERDICT", in_table=True, colours=_COLOURS),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="belief", head="BELIEF", in_table=True),
        Column(key="expected", head="EXPECTED", in_table=True, read=_texts, none=ABSENT, is_prose=True),
        Column(key="seen", head="ANSWER", in_table=True, read=_texts, none=ABSENT, is_prose=True),
        Column(key="says", head="SAYS", is_prose=True),
        Column(key="evidence", head="EVIDENCE", is_prose=True),
        Column(key="needs", head="NEEDS"),
        Column(key="asked", head="ASKED", is_prose=True),
        Column(key="known", head="KNOWN", is_prose=True),
    ),
)
