"""`vgpumgr history` as its user sees it, on a journal made by the journal itself."""

from __future__ import annotations

import datetime
import json
import logging
import re
from pathlib import Path

import pytest

from vgpumgr.cli.main import run
from vgpumgr.controller import environment
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Intent

VM = "6a1f0000-0000-4000-8000-000000000001"
INVENTORY = str(Path(__file__).parents[3] / "cases/inventory" / "good" / "design" / "inventory")  # kvm01, vm02 …
KEYS = [
    "at", "by", "verb", "vm", "host", "outcome", "why", "id", "vm_uuid", "slot", "gpu", "verbs", "ended_at", "error",
    "message", "steps",
]  # fmt: skip


def ago(**how_long: float) -> str:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(**how_long)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "store.sqlite"
    monkeypatch.setenv("VGPUMGR_STORE", str(path))
    monkeypatch.setenv("VGPUMGR_INVENTORY", INVENTORY)
    monkeypatch.setenv("TZ", "UTC")
    return path


@pytest.fixture
def three(store: Path) -> Path:
    """Three runs: an attach, a failed attach after a rename, and a reconcile of another host that was killed."""
    journal = Journal(store, warn=pytest.fail)
    entry = Intent(
        verb="attach",
        why="requested --profile 4Q",
        host="kvm01",
        vm="vm01",
        vm_uuid=VM,
        slot="vgpu0",
        steps=({"verb": "put_claim"}, {"verb": "create_vgpu"}),
    )
    journal.end(journal.begin(entry, by="anna@ctl1", at=ago(days=9)), at=ago(days=9), outcome="done")
    again = Intent(verb="detach", why="detach", host="kvm01", vm="web01", vm_uuid=VM)
    journal.end(
        journal.begin(again, by="bert@ctl1", at=ago(hours=2)),
        at=ago(hours=2),
        outcome="refused",
        error="InUse",
        message="vm01 runs\nand more",
    )
    journal.begin(Intent(verb="reconcile", why="drift", host="kvm02"), by="root@ctl1", at=ago(minutes=5))
    return store


def lines(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> list[str]:
    assert run(["history", *argv]) == code
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("three")
def test_the_newest_run_is_on_top_with_who_what_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    shown = lines(capsys)
    assert shown[0].split() == ["WHEN", "BY", "DID", "VM", "HOST", "OUTCOME", "WHY"]
    assert [re.split(r"  +", line)[1:] for line in shown[1:]] == [
        ["root@ctl1", "reconcile", "-", "kvm02", "not ended", "drift"],
        ["bert@ctl1", "detach", "web01", "kvm01", "refused", "detach (InUse)"],
        ["anna@ctl1", "attach", "vm01", "kvm01", "done", "requested --profile 4Q"],
    ]


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("name", ["vm01", "web01", VM, VM.upper()])
def test_a_vm_is_found_by_every_name_it_had_and_by_its_uuid(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, name, "-o", "name") == ["web01", "vm01"]


@pytest.mark.usefixtures("three")
def test_what_the_limit_cuts_off_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for limit, told in (("2", "newest 2; `--limit` shows more\n"), ("3", "")):
        assert run(["history", "--limit", limit]) == 0
        assert capsys.readouterr().err == told


@pytest.mark.usefixtures("three")
def test_as_json_every_key_is_there_and_unknown_is_null(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    assert run(["history", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["store"]) == ("vgpumgr.history/1", str(store))
    assert [list(row) for row in document["runs"]] == [KEYS] * 3
    killed, refused, done = document["runs"]
    assert (killed["outcome"], killed["ended_at"], killed["vm"], killed["steps"]) == (None, None, None, [])
    assert (refused["error"], refused["message"]) == ("InUse", "vm01 runs\nand more")
    assert [step["verb"] for step in done["steps"]] == ["put_claim", "create_vgpu"]


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("arguments", "verbs"),
    [
        (("kvm01",), ["detach", "attach"]),
        (("kvm0*",), ["reconcile", "detach", "attach"]),
        (("kvm0*", "!kvm01"), ["reconcile"]),
        (("web01", "kvm02"), ["reconcile", "detach", "attach"]),  # a VM also by its earlier names
        (("w*",), ["detach"]),
        (("w*", "kvm02"), ["reconcile", "detach"]),
        (("kvm0*", "--limit", "1"), ["reconcile"]),
        (("--since", "1d"), ["reconcile", "detach"]),
        (("--since", "2020-01-01", "--limit", "3"), ["reconcile", "detach", "attach"]),
    ],
)
def test_patterns_choose_vms_and_hosts_and_an_age_the_runs(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], verbs: list[str]
) -> None:
    assert [line.split()[3] for line in lines(capsys, *arguments)[1:]] == verbs


@pytest.mark.usefixtures("three")
def test_a_name_that_nothing_knows_is_a_mistake_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "wbe01"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: neither the journal nor the inventory knows a VM or host 'wbe01'",
        "hint: did you mean web01?",
    ]


@pytest.mark.usefixtures("three")
def test_what_the_inventory_knows_and_nothing_was_done_to_is_no_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, "vm02")[0].startswith("no run about vm02 in ")
    assert lines(capsys, "vm01", "--since", "1m")[0].startswith("no run about vm01 since then in ")


def test_without_a_journal_it_says_so_and_makes_none(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    assert lines(capsys) == [f"no journal yet ({store})"]
    assert run(["history", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []
    assert not store.exists()


@pytest.mark.usefixtures("three")
def test_it_needs_no_inventory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VGPUMGR_INVENTORY", str(tmp_path / "nowhere"))
    assert len(lines(capsys, "vm01")) == 3
    assert run(["history", "vm77"]) == 2


def test_a_damaged_journal_is_an_error_that_says_how_to_go_on(capsys: pytest.CaptureFixture[str], store: Path) -> None:
    store.write_bytes(b"\0" * 5000)
    assert run(["history"]) == 1
    told = capsys.readouterr().err
    assert str(store) in told
    assert f"mv {store} {store}.broken" in told


@pytest.mark.parametrize(
    ("option", "told"),
    [
        *((f"--since={text}", "neither an age") for text in ("soon", "7", "-3d", "2026-13-01", "999999w")),
        ("--limit=99999999999999999999", "--limit"),
    ],
)
def test_an_age_or_a_limit_that_is_none_is_a_usage_error(
    option: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["history", option]) == 2
    assert told in capsys.readouterr().err


def test_a_bug_prints_its_traceback_only_where_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command sets logging up; where none does, Python prints what is logged at once."""
    monkeypatch.setattr(environment, "open_journal", lambda warn: 1 / 0)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    level = root.level
    try:
        assert run(["history"]) == 1
        said = capsys.readouterr().err
        assert said.startswith("error: unexpected ZeroDivisionError")
        assert "Traceback" not in said
        root.handlers.clear()
        assert run(["history", "-v"]) == 1
        assert "Traceback" in capsys.readouterr().err
    finally:
        root.setLevel(level)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize("since", ["0999-12-31", "60000w"])
def test_a_time_before_the_year_1000_leaves_out_nothing(since: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(lines(capsys, "--since", since)) == 4
