"""Rows that come one after the other stay under their heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.rows.column import Column, View
from vgpumgr.cli.rows.growing import GrowingTable
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    import pytest

VIEW = View(
    path=("vgpus",),
    names=("vm",),
    gives_way=("state", "host"),
    columns=tuple(Column(key=key, head=key.upper(), in_table=True) for key in ("vm", "host", "state")),
)


def row(vm: str, host: str, state: str) -> dict[str, object]:
    return {"vm": vm, "host": host, "state": state}


def test_what_may_come_has_room_from_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    table = GrowingTable(Settings(), VIEW, {"vm": ["database01"], "host": ["kvm01", "kvm02"]})
    table.add([])
    assert capsys.readouterr().out == ""
    table.add([row("vm1", "kvm02", "bound")])
    table.add([row("database01", "kvm01", "made"), row("vm2", "kvm01", "in_use")])
    assert capsys.readouterr().out.splitlines() == [
        "VM          HOST   STATE",
        "vm1         kvm02  bound",
        "database01  kvm01  made",
        "vm2         kvm01  in_use",
    ]


def test_a_wider_cell_widens_its_column_from_there_on(capsys: pytest.CaptureFixture[str]) -> None:
    table = GrowingTable(Settings(), VIEW, {})
    table.add([row("vm1", "kvm01", "bound")])
    table.add([row("a-longer-name", "kvm02", "bound"), row("vm3", "kvm02", "bound")])
    assert capsys.readouterr().out.splitlines() == [
        "VM   HOST   STATE",
        "vm1  kvm01  bound",
        "a-longer-name  kvm02  bound",
        "vm3            kvm02  bound",
    ]


def test_a_hosts_words_move_no_cursor_and_begin_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    GrowingTable(Settings(), VIEW, {"vm": ["\x1b[2J"]}).add([row("\x1b]0;x\x07\nerror: forged", "kvm01", "bound")])
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert len(said.splitlines()) == 2


def test_on_a_narrow_terminal_columns_give_way_once_and_a_wider_cell_is_folded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "width", lambda _=None: 13)
    table = GrowingTable(Settings(), VIEW, {"vm": ["vm01"], "host": ["kvm01"]})
    table.add([row("vm01", "kvm01", "bound")])
    table.add([row("abcdefgh", "kvm01", "bound")])
    table.end()
    said = capsys.readouterr()
    assert said.out.splitlines() == ["VM    HOST", "vm01  kvm01", "abcdef  kvm01", "gh"]
    assert " ".join(said.err.split()) == "not shown: STATE; -o wide or --columns shows them"
