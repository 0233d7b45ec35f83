"""Whole inventories as folders: cases/bad/NAME with the problems they must give, cases/good/NAME with what they declare.

A new case is a new folder; the expected text beside it is what `inventory check` must print.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vgpumgr.documents.inventory import document
from vgpumgr.errors import InventoryError
from vgpumgr.inventory_files.reader import load

CASES = Path(__file__).parents[3] / "cases/inventory"
HOME = Path("/home/anna")


def _names(kind: str) -> list[str]:
    return sorted(path.name for path in (CASES / kind).iterdir())


@pytest.mark.parametrize("name", _names("bad"))
def test_every_problem_is_told_at_once_with_its_line(name: str) -> None:
    """A wrong inventory raises one error whose details are exactly the expected lines."""
    with pytest.raises(InventoryError) as caught:
        load(CASES / "bad" / name / "inventory", home=HOME, environ={})
    assert list(caught.value.details) == (CASES / "bad" / name / "problems.txt").read_text().splitlines()
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", _names("good"))
def test_a_valid_inventory_declares_what_it_says(name: str) -> None:
    """A valid inventory becomes the expected hosts, VMs, slots and findings."""
    found = document(load(CASES / "good" / name / "inventory", home=HOME, environ={}))
    found["root"] = "inventory"
    assert found == json.loads((CASES / "good" / name / "expected.json").read_text())


def test_the_shipped_example_is_valid_and_does_not_declare_vm01() -> None:
    """The working example loads without a finding, and leaves vm01 to the demo."""
    found = load(Path(__file__).parents[4] / "inventory", home=HOME, environ={})
    assert found.findings == ()
    assert found.host_of_vm("vm02") is found.host("kvm01.example.net")
    assert found.host_of_vm("vm01") is None
