"""The ledger: whole on disk at every instant, and never overwritten when it is not understood."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.host.fakehost import MDEV_VF, FakeHost, make_entry, make_instance, make_record
from vgpumgr.host.files import Root
from vgpumgr.host.ledger.ledger import Ledger, parse_ledger, read_ledger, write_ledger
from vgpumgr.host.protocol.ledger import LEDGER_VERSION
from vgpumgr.host.protocol.session import LEDGER_BROKEN
from vgpumgr.host.refusal import Refusal

if TYPE_CHECKING:
    from pathlib import Path

short = st.text(max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | short,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(short, inner, max_size=2),
    max_leaves=4,
)

CORDON = {"gpu_uuid": None, "gpu": None, "reason": "ECC", "by": "anna@ctl1", "at": "2026-11-22T12:00:00Z"}
OF_VF = {"vf_index": 1, "vf": "0000:41:00.5"}


def document(*entries: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"version": LEDGER_VERSION, "settings": {}, "entries": list(entries), **more}).encode()


def test_no_file_is_an_empty_ledger_that_is_not_there_and_reading_makes_none(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path)
    ledger = read_ledger(Root(tmp_path))
    assert (ledger.entries, ledger.on_disk) == ((), False)
    assert not host.ledger_file.parent.exists()
    host.put_ledger()
    assert read_ledger(Root(tmp_path)).on_disk


def test_a_symbolic_link_is_refused_and_stays(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path)
    host.put_ledger()
    elsewhere = tmp_path / "elsewhere.json"
    host.ledger_file.rename(elsewhere)
    host.ledger_file.symlink_to(elsewhere)
    with pytest.raises(Refusal) as caught:
        read_ledger(Root(tmp_path))
    assert caught.value.kind == "LedgerBroken"
    assert "symbolic link" in caught.value.message
    assert host.ledger_file.is_symlink()


def test_it_is_written_for_root_alone(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path)
    root = Root(tmp_path)
    write_ledger(root, read_ledger(root))
    assert host.ledger_file.stat().st_mode & 0o777 == 0o600
    assert host.ledger_file.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in host.ledger_file.parent.iterdir()] == ["ledger.json"]


@pytest.mark.parametrize("place", ["file", "folder"])
@pytest.mark.parametrize("fault", ["owner", "group", "others"])
def test_one_that_others_than_root_could_write_is_refused_by_name(tmp_path: Path, place: str, fault: str) -> None:
    host = FakeHost.build(tmp_path)
    root = Root(tmp_path)
    write_ledger(root, read_ledger(root))
    path = host.ledger_file if place == "file" else host.ledger_file.parent
    if fault == "owner":
        with suppress(PermissionError):
            os.chown(path, 65534, -1)
        if path.stat().st_uid == os.geteuid():
            pytest.skip("only root gives a file away")
    else:
        path.chmod(0o720 if fault == "group" else 0o1777)
    with pytest.raises(Refusal) as caught:
        read_ledger(root)
    assert caught.value.kind == "LedgerBroken"
    assert str(path) in caught.value.message
    assert "uid 65534" in caught.value.message or "users other than root can write there" in caught.value.message


def test_a_folder_that_others_could_write_gets_no_ledger(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path)
    host.ledger_file.parent.mkdir()
    host.ledger_file.parent.chmod(0o1777)
    with pytest.raises(Refusal):
        write_ledger(Root(tmp_path), Ledger(document={"version": LEDGER_VERSION, "settings": {}}, entries=()))
    assert not host.ledger_file.exists()


def test_of_what_was_freed_the_newest_500_are_kept_each_once_and_what_is_made_again_goes(tmp_path: Path) -> None:
    FakeHost.build(tmp_path)
    root = Root(tmp_path)
    ledger = read_ledger(root)
    for generation in range(1, 503):
        ledger = ledger.with_freed(("6a1f", "vgpu0", generation))
    write_ledger(root, ledger.with_freed(("6a1f", "vgpu0", 4)).without_freed(("6a1f", "vgpu0", 5)))
    kept = [row["generation"] for row in read_ledger(root).freed]
    assert kept == [3, *range(6, 503), 4]


@given(
    st.dictionaries(short.map(lambda key: f"x-{key}"), json_values, max_size=3),
    st.dictionaries(short, json_values, max_size=3),
)
def test_keys_of_a_later_version_survive_a_rewrite(
    tmp_path_factory: pytest.TempPathFactory, extra: dict[str, Any], settings: dict[str, Any]
) -> None:
    host = FakeHost(tmp_path_factory.mktemp("host"))
    record = {**make_record(MDEV_VF), **extra}
    freed = {"vm_uuid": "6a1f", "slot": "vgpu0", "generation": 1, **extra}
    host.put_ledger(
        {**make_entry(MDEV_VF), **extra}, settings=settings, blocked_writes=[record], freed=[freed], **extra
    )
    before = json.loads(host.ledger_file.read_text())
    root = Root(host.root)
    write_ledger(root, read_ledger(root))
    assert json.loads(host.ledger_file.read_text()) == before


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        document(version=1),
        document(version=LEDGER_VERSION + 1),
        document(version="1"),
        document(version=True),
        b"{}",
        document(settings=[]),
        f'{{"version":{LEDGER_VERSION},"settings":{{}},"entries":{{}}}}'.encode(),
        document(make_entry(MDEV_VF), make_entry(MDEV_VF)),
        document(make_entry(MDEV_VF, state="lost")),
        document(make_entry(MDEV_VF, generation="1")),
        document(make_entry(MDEV_VF, type_id=-1)),
        document(make_entry(MDEV_VF, vf_index=True)),
        document(make_entry(MDEV_VF, vm_uuid="")),
        document({"vm_uuid": "6a1f"}),
        document(None),  # type: ignore[arg-type]
        document(freed={}),
        document(freed=[None]),
        document(freed=[{"vm_uuid": "6a1f", "slot": "vgpu0"}]),
        document(freed=[{"vm_uuid": "6a1f", "slot": "vgpu0", "generation": -1}]),
        document(cordons={}),
        document(cordons=[{**CORDON, "reason": ""}]),
        document(cordons=[{"gpu_uuid": None, "gpu": None, "reason": "ECC"}]),
        document(cordons=[{**CORDON, **OF_VF, "vf_index": "1"}]),
        document(make_entry(MDEV_VF, mig=[])),
        document(make_entry(MDEV_VF, mig={"profile": "2g.10gb", "profile_id": 14})),
        document(make_entry(MDEV_VF, mig={"profile": "2g.10gb", "profile_id": 14, "start": -1})),
        document(make_entry(MDEV_VF, mig={"profile": "", "profile_id": 14, "start": 0})),
        document(instances={}),
        document(instances=[None]),
        document(instances=[make_instance(start=-1)]),
        document(instances=[make_instance(size="2")]),
        document(instances=[make_instance(state="lost")]),
        document(instances=[make_instance(), make_instance(profile_id=9)]),
        document(without_vfs=[{"gpu_uuid": "GPU-a"}]),
        document(blocked_writes=None),
        document(blocked_writes={}),
        document(blocked_writes=[None]),
        document(blocked_writes=[{"gpu": "0000:41:00.0"}]),
        document(blocked_writes=[make_record(MDEV_VF, pid="1")]),
        document(blocked_writes=[make_record(MDEV_VF, start=None)]),
        document(blocked_writes=[make_record(MDEV_VF, gpu_uuid="")]),
        document(blocked_writes=[make_record(MDEV_VF, vfio=[1])]),
    ],
)
def test_what_is_not_understood_is_refused(text: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        parse_ledger(text)
    assert caught.value.kind == "LedgerBroken"
    assert caught.value.fields["path"] == "/var/lib/vgpumgr/ledger.json"


def test_another_versions_ledger_is_refused_by_name_with_what_to_do() -> None:
    known = f"but this vgpumgr knows {LEDGER_VERSION}"
    with pytest.raises(
        Refusal, match=rf"its version is 1, {known}: detach what it names with the vgpumgr that wrote it, then"
    ):
        parse_ledger(document(version=1))
    with pytest.raises(Refusal, match=rf"its version is 9, {known}: use the vgpumgr that wrote it, or a newer one"):
        parse_ledger(document(version=9))


@given(st.binary())
def test_no_bytes_do_anything_but_be_read_or_refused(text: bytes) -> None:
    with suppress(Refusal):
        parse_ledger(text)


@given(json_values, st.sampled_from(sorted(make_entry(MDEV_VF))))
def test_an_entry_with_any_value_in_any_key_is_read_or_refused(value: Any, key: str) -> None:
    with suppress(Refusal):
        ledger = parse_ledger(document(make_entry(MDEV_VF, **{key: value})))
        assert ledger.entries[0][key] == value


@given(json_values, st.sampled_from(sorted(make_record(MDEV_VF))))
def test_a_record_with_any_value_in_any_key_is_read_or_refused(value: Any, key: str) -> None:
    with suppress(Refusal):
        ledger = parse_ledger(document(blocked_writes=[make_record(MDEV_VF, **{key: value})]))
        assert ledger.blocked_writes[0][key] == value


def test_what_somebody_else_wrote_in_between_is_read_and_not_what_we_remember(tmp_path: Path) -> None:
    root = Root(tmp_path)
    host = FakeHost(tmp_path)
    host.put_ledger(make_entry(MDEV_VF))
    ours = read_ledger(root)
    write_ledger(root, ours.with_entries((*ours.entries, make_entry(MDEV_VF, slot="vgpu1"))))
    assert [entry["slot"] for entry in read_ledger(root).entries] == ["vgpu0", "vgpu1"]
    text = host.ledger_file.read_text()
    host.ledger_file.write_text(text.replace('"vgpu1"', '"vgpu2"'))
    assert [entry["slot"] for entry in read_ledger(root).entries] == ["vgpu0", "vgpu2"]
    host.ledger_file.write_text(text.replace('"slot": "vgpu1"', '"slot": 1'))
    with pytest.raises(Refusal) as refusal:
        read_ledger(root)
    assert refusal.value.kind == LEDGER_BROKEN


def test_a_ledger_is_the_same_whether_its_rows_were_written_before(tmp_path: Path) -> None:
    """Every list has a line for each row, whatever was rendered already."""
    root, host = Root(tmp_path), FakeHost(tmp_path)
    ledger = read_ledger(root).with_freed(("6a1f", "vgpu0", 4))
    for slot in ("vgpu0", "vgpu1", "vgpu2"):
        ledger = ledger.with_entries((*ledger.entries, make_entry(MDEV_VF, slot=slot)))
        write_ledger(root, ledger)
        written = json.loads(host.ledger_file.read_text())
        assert written["entries"] == list(ledger.entries)
        assert written["freed"] == list(ledger.freed)
        assert parse_ledger(host.ledger_file.read_bytes() + b"\n") == read_ledger(root)
    assert host.ledger_file.read_text().count("\n") < 15


def test_only_what_an_older_vgpumgr_would_not_keep_to_makes_a_file_that_an_older_vgpumgr_refuses(
    tmp_path: Path,
) -> None:
    empty = Ledger(document={"version": LEDGER_VERSION, "settings": {}}, entries=())
    place = {"profile": "2g.10gb", "profile_id": 14, "start": 2}
    written = []
    for ledger in (
        empty,
        empty._replace(entries=(make_entry(MDEV_VF),), without_vfs=({"gpu_uuid": "GPU-a", "boot": "b"},)),
        empty._replace(cordons=(CORDON,)),
        empty._replace(instances=(make_instance(),)),
        empty._replace(entries=(make_entry(MDEV_VF, mig=place),), cordons=(CORDON,)),
        empty._replace(cordons=({**CORDON, "gpu_uuid": "GPU-a", "gpu": "0000:41:00.0", **OF_VF},)),
    ):
        write_ledger(Root(tmp_path), ledger)
        written.append(json.loads((tmp_path / "var/lib/vgpumgr/ledger.json").read_text())["version"])
        assert parse_ledger((tmp_path / "var/lib/vgpumgr/ledger.json").read_bytes()).instances == ledger.instances
    assert written == [3, 3, 4, 5, 5, 7]
