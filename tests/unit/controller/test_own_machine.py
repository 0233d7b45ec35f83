"""doctor --self reads this machine, and contacts no host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core.declarations import declares
from vgpumgr.controller import own_machine
from vgpumgr.core.inventory import Inventory
from vgpumgr.errors import InventoryError
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("VGPUMGR_STORE", str(folder / "store.sqlite"))
    return folder


def kinds(inventory: Inventory | None, *, problem: str = "") -> set[str]:
    def load() -> Inventory:
        if inventory is None:
            raise InventoryError(problem)
        return inventory

    return {one.kind for one in own_machine.examine(load)} - {"no-module"}


def knowing(*files: Path, site: str = "/nowhere") -> Inventory:
    """Hosts that are known by these files."""
    hosts = {}
    for number, file in enumerate(files):
        endpoint = replace(declares().endpoint, known_hosts=str(file), site_known_hosts=site, ssh_config="none")
        hosts[HostName(f"kvm{number}")] = replace(declares(), endpoint=endpoint)
    return Inventory(root="/", hosts=hosts, findings=())


def test_nothing_is_wrong_where_all_is_there(store: Path) -> None:
    (store / "known").touch()
    assert kinds(knowing(store / "known")) == set()


def test_a_missing_known_hosts_file_counts_only_where_there_is_no_other(store: Path) -> None:
    (store / "site").touch()
    assert kinds(knowing(store / "none", site=str(store / "site"))) == set()
    assert kinds(knowing(store / "none", store / "none")) == {"known-hosts"}


def test_an_inventory_that_cannot_be_read_is_an_illness(store: Path) -> None:
    assert kinds(None, problem="hosts.yml:3: no") == {"inventory"}


def test_a_state_folder_that_others_can_write_to_is_one(store: Path) -> None:
    store.chmod(0o777)
    assert kinds(knowing()) == {"state-open"}


def test_a_state_folder_is_made_where_its_parent_is_ours_and_not_below_a_file(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGPUMGR_STORE", str(store / "more/deep/store.sqlite"))
    assert kinds(knowing()) == set()
    (store / "more").touch()
    assert kinds(knowing()) == {"state-folder"}
