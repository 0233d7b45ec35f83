"""What `host install` writes, and what is said of it."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from vgpumgr.host import dispatcher, installation
from vgpumgr.host.files import Root
from vgpumgr.host.protocol.session import BAD_REQUEST, PINNED_HERE
from vgpumgr.host.refusal import Refusal

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of root's")
TEXT = '"""A script."""\n'


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "opt").mkdir()
    return Root(tmp_path)


def request(*programs: bytes, pinned: bool = False, restore: bool = False) -> dict[str, Any]:
    encoded = [base64.b64encode(one).decode() for one in programs]
    return {"dispatcher": TEXT, "programs": encoded, "pinned": pinned, "restore": restore}


def test_what_was_installed_is_told_and_removed_without_a_trace(root: Root) -> None:
    there = installation.install(root, request(b"near", b"far"))
    assert there == installation.look(root)
    assert there["dispatcher"] == hashlib.sha256(TEXT.encode()).hexdigest()
    assert [one["intact"] for one in there["programs"]] == [True, True]
    assert (there["pinned"], there["problems"]) == (False, [])
    script = root.path(dispatcher.DISPATCHER)
    assert os.access(script, os.X_OK)
    gone = installation.uninstall(root)
    assert (gone["dispatcher"], gone["programs"]) == (None, [])
    assert not [*Path(root.path("/opt")).iterdir()]
    assert installation.uninstall(root) == gone


def test_what_others_have_put_there_stays(root: Root) -> None:
    """The controller's own installation, on a host that is the controller."""
    own = Path(root.path(f"{dispatcher.FOLDER}/bin/vgpumgr"))
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\n", encoding="ascii")
    before = sorted(Path(root.path("/opt")).rglob("*"))
    installation.install(root, request(b"near", pinned=True))
    gone = installation.uninstall(root)
    assert (gone["dispatcher"], gone["programs"], gone["pinned"]) == (None, [], False)
    assert sorted(Path(root.path("/opt")).rglob("*")) == before
    assert own.read_text(encoding="ascii") == "#!/bin/sh\n"


def test_pinning_leaves_only_what_is_pinned_and_can_be_taken_back(root: Root) -> None:
    installation.install(root, request(b"old"))
    there = installation.install(root, request(b"new", pinned=True))
    assert [one["sha256"] for one in there["programs"]] == [hashlib.sha256(b"new").hexdigest()]
    assert there["pinned"]
    assert not installation.install(root, request(b"new"))["pinned"]


def test_a_pinned_installation_is_not_changed_by_the_login_that_it_confines(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = installation.install(root, request(b"one", pinned=True))
    monkeypatch.setenv(dispatcher.BY_DISPATCHER, "1")
    with pytest.raises(Refusal) as caught:
        installation.install(root, request(b"two"))
    assert caught.value.kind == PINNED_HERE
    with pytest.raises(Refusal) as caught:
        installation.uninstall(root)
    assert caught.value.kind == PINNED_HERE
    assert installation.look(root) == {**there, "by_dispatcher": True}


def test_what_is_wrong_is_named_and_installing_again_mends_it(root: Root) -> None:
    there = installation.install(root, request(b"one"))
    name = there["programs"][0]["sha256"]
    folder = Path(root.path(dispatcher.PROGRAMS))
    (folder / name).write_bytes(b"two")
    folder.chmod(0o777)
    found = installation.look(root)
    assert [one["intact"] for one in found["programs"]] == [False]
    assert len(found["problems"]) == 2
    assert installation.install(root, request(b"one")) == there


@pytest.mark.parametrize(
    "wrong",
    [{"dispatcher": 1}, {"programs": []}, {"programs": ["?"]}, {"programs": [1]}, {"pinned": None}, {"restore": 1}],
)
def test_a_request_of_another_shape_changes_nothing(root: Root, wrong: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as caught:
        installation.install(root, {**request(b"one"), **wrong})
    assert caught.value.kind == BAD_REQUEST
    assert not [*Path(root.path("/opt")).iterdir()]


def test_a_restore_is_the_last_program_and_a_unit_and_goes_with_the_rest(root: Root) -> None:
    """The last one is the program without modules that are compiled for one Python."""
    before = sorted(Path(root.top).rglob("*"))
    assert installation.install(root, request(b"near", b"far"))["restore"] is None
    for program in (b"far", b"newer"):
        there = installation.install(root, request(b"near", program, restore=True))
        assert there["restore"] == {"program": hashlib.sha256(program).hexdigest(), "enabled": True, "last": None}
        assert there["problems"] == []
    Path(root.path(dispatcher.RESTORE)).chmod(0o666)
    assert len(installation.look(root)["problems"]) == 1
    assert installation.install(root, request(b"far"))["restore"] is not None
    assert installation.uninstall(root)["restore"] is None
    shutil.rmtree(root.path("/etc"))
    assert sorted(Path(root.top).rglob("*")) == before
