"""purge on the host: its files go once nothing there is ours any more, and not before."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit import stored_shapes
from vgpumgr.host import installation, purging
from vgpumgr.host.dispatcher import FOLDER
from vgpumgr.host.files import Root
from vgpumgr.host.ledger.ledger import read_ledger, write_ledger
from vgpumgr.host.protocol.ledger import LEDGER_PATH
from vgpumgr.host.protocol.session import CHANGED, LEDGER_BROKEN
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.restoring.unit import HOOK, UNIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.host.ledger.ledger import Ledger

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of root's")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "opt").mkdir()
    for folder in ("etc/systemd/system", "etc/libvirt/hooks"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "var/lib").mkdir(parents=True)
    return Root(tmp_path)


def paths(root: Root) -> list[Path]:
    return sorted(Path(root.path("/")).rglob("*"))


def install(root: Root) -> None:
    program = base64.b64encode(b"program").decode()
    request = {"dispatcher": '"""A script."""\n', "programs": [program], "pinned": False, "restore": True}
    installation.install(root, request)


def test_the_ledger_and_what_was_installed_go_without_a_trace(root: Root) -> None:
    before = paths(root)
    install(root)
    write_ledger(root, read_ledger(root))
    Path(root.path(LEDGER_PATH + ".new")).touch()
    there = purging.look(root)
    assert {LEDGER_PATH, UNIT, HOOK} <= set(there["files"])
    assert purging.purge(root) == there
    assert paths(root) == before
    assert purging.purge(root) == {"files": []}


@pytest.mark.parametrize("left", [[], [".new-42.dispatcher"]])
def test_what_a_killed_install_left_of_its_folder_goes_too(root: Root, left: list[str]) -> None:
    before = paths(root)
    folder = Path(root.path(FOLDER))
    folder.mkdir()
    for name in left:
        (folder / name).touch()
    assert purging.purge(root) == {"files": [FOLDER]}
    assert paths(root) == before


def test_what_somebody_else_keeps_in_that_folder_stays_and_is_not_named(root: Root) -> None:
    notes = Path(root.path(FOLDER), "notes")
    notes.parent.mkdir()
    notes.touch()
    assert purging.purge(root) == {"files": []}
    assert notes.exists()


@pytest.mark.parametrize(
    "says",
    [
        lambda ledger: ledger._replace(cordons=(stored_shapes.CORDON,)),
        lambda ledger: ledger._replace(reservations=(stored_shapes.RESERVATION,)),
    ],
)
def test_a_ledger_that_says_something_stays_with_all_the_rest(root: Root, says: Callable[[Ledger], Ledger]) -> None:
    install(root)
    write_ledger(root, says(read_ledger(root)))
    before = paths(root)
    with pytest.raises(Refusal) as refused:
        purging.purge(root)
    assert refused.value.kind == CHANGED
    assert paths(root) == before


def test_a_ledger_that_cannot_be_read_may_say_something(root: Root) -> None:
    write_ledger(root, read_ledger(root))
    Path(root.path(LEDGER_PATH)).write_text(json.dumps({"version": 99}), encoding="ascii")
    with pytest.raises(Refusal) as refused:
        purging.purge(root)
    assert refused.value.kind == LEDGER_BROKEN
    assert Path(root.path(LEDGER_PATH)).exists()


def test_the_controllers_own_files_stay_where_it_is_the_host(root: Root) -> None:
    write_ledger(root, read_ledger(root))
    store = Path(root.path("/var/lib/vgpumgr/store.sqlite"))
    store.touch()
    purging.purge(root)
    assert store.exists()
