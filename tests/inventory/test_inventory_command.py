"""`vgpumgr inventory check` as its user sees it."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from vgpumgr.cli.inventory import inventory
from vgpumgr.errors import InventoryError

GOOD = Path(__file__).parent / "cases" / "good"
BAD = Path(__file__).parent / "cases" / "bad"


def test_check_counts_what_is_declared() -> None:
    """One line says how much was read and that nothing is wrong; findings come before it with their places."""
    result = CliRunner().invoke(inventory, ["check", "-i", str(GOOD / "design" / "inventory")])
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "host_vars/kvm01.yml:3: GPU 0000:41:00.0: scheduler is not built yet, so nothing sets it"
    assert lines[-1] == "2 hosts, 2 VMs declared; no problems, 4 findings"


def test_check_as_json_has_every_key() -> None:
    """The JSON form names its schema and gives hosts and findings."""
    result = CliRunner().invoke(inventory, ["check", "-o", "json", "-i", str(GOOD / "design" / "inventory")])
    found = json.loads(result.output)
    assert found["schema"] == "vgpumgr.inventory/1"
    assert [host["name"] for host in found["hosts"]] == ["kvm01", "kvm02"]
    assert found["findings"][0]["where"] == "host_vars/kvm01.yml:3"


def test_check_raises_the_problems_for_main_to_print() -> None:
    """A wrong inventory ends in InventoryError; the program turns it into exit 2."""
    result = CliRunner().invoke(inventory, ["check", "-i", str(BAD / "unknown-names" / "inventory")])
    assert isinstance(result.exception, InventoryError)
    assert result.exception.hint is not None
