"""A GPU's mode in a table: nothing declared is a dash, and only what is not known is left for the question mark."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core import builders
from vgpumgr.cli.text import mode_text
from vgpumgr.core.inventory import BoardDeclaration, Location
from vgpumgr.core.model.snapshot import MIXED_SIZE
from vgpumgr.core.report import modes


def test_what_is_not_declared_is_a_dash_and_what_is_comes_with_its_line() -> None:
    facts = builders.host().snapshot
    (gpu,) = facts.gpus
    cells = mode_text.cells(modes.row_of(facts, gpu))
    assert (cells["declared"], cells["declared_where"], cells["state"]) == ("-", "-", "undeclared")
    where = Location(file="group_vars/all.yml", line=2)
    board = BoardDeclaration(board="A40", mode=MIXED_SIZE, scheduler=None, where=where)
    cells = mode_text.cells(modes.row_of(facts, gpu, [board]))
    assert (cells["declared"], cells["declared_where"]) == ("mixed-size", "group_vars/all.yml:2, every A40")
    unread = mode_text.cells(modes.row_of(facts, replace(gpu, mode=None), [board]))
    assert (unread["mode"], unread["state"]) == (None, None)
