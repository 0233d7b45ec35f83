"""`vgpumgr units --offline`: the inventory's boards, and no host; and what it says of one that does not answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.unit.documents import published
from vgpumgr.cli import main

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = "{ansible_host: 127.0.0.1, ansible_port: 1, ansible_user: root}"


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VGPUMGR_INVENTORY", str(tmp_path))
    return tmp_path


def declare(inventory: Path, units: str) -> None:
    text = f"hypervisors:\n  hosts:\n    kvm01: {NOBODY}\n  vars: {{vgpumgr_fgpu_per_gpu: {units}}}\n"
    (inventory / "hosts.yml").write_text(text, encoding="utf-8")


def test_boards_of_the_inventory(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declare(inventory, "{A40: 2, M10: {memory: 24G}, X1: 3}")
    assert main.run(["units", "--offline"]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "BOARD  NOMINAL FB  UNIT       1 FGPU             0.1 GPU               4G                BEFORE  HOSTS",
        "A40        48 GiB  2 per GPU  24 GiB: 24C        4.8 GiB: 6C           4 GiB: 4C         -       -",
        "M10         8 GiB  24G        24 GiB: no C type  0.801 GiB: no C type  4 GiB: no C type  -       -",
        "X1              ?  3 per GPU  ?                  ?                     4 GiB: no C type  -       -",
    ]
    assert main.run(["units", "--offline", "-o", "csv"]) == 0
    head, a40, *_ = capsys.readouterr().out.splitlines()
    assert head == (
        "board,framebuffer_mib,unit,fgpu.mib,fgpu.type_name,fgpu.waste_pct,tenth.mib,tenth.type_name,tenth.waste_pct,"
        "4g.mib,4g.type_name,4g.waste_pct,before,hosts"
    )
    assert a40 == "A40,49152,2 per GPU,24576,A40-24C,0.0,4916,A40-6C,20.0,4096,A40-4C,0.0,,"
    assert main.run(["units", "--offline", "-o", "json"]) == 0
    assert published.problems("units", json.loads(capsys.readouterr().out)) == []


def test_a_host_that_does_not_answer_leaves_the_inventorys_boards(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(inventory, "{A40: 2}")
    assert main.run(["units", "-o", "json"]) == 4
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert published.problems("units", document) == []
    assert [row["board"] for row in document["boards"]] == ["A40"]
    assert [row["host"] for row in document["unreached"]] == ["kvm01"]
    assert json.loads(err)["error"] == "Unreachable"


def test_an_inventory_without_a_unit_says_so(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declare(inventory, "{}")
    assert main.run(["units", "--offline"]) == 0
    assert capsys.readouterr().out == "the inventory has no unit: vgpumgr_fgpu_per_gpu is not set\n"
