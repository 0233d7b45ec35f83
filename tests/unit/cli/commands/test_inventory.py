"""Commands that ask no host: the inventory's check, its units, and the types of a board."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.documents import published
from vgpumgr.cli import main
from vgpumgr.cli.main import run
from vgpumgr.core.usage.runs import PlannedHost
from vgpumgr.store import place
from vgpumgr.store.sql import runs

GOOD = Path(__file__).parents[3] / "cases/inventory" / "good"
BAD = Path(__file__).parents[3] / "cases/inventory" / "bad"
DESIGN = str(GOOD / "design" / "inventory")


def test_check_counts_what_is_declared(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says how much was read and that nothing is wrong; findings come before it with their places, and a table where it was asked for."""
    assert run(["inventory", "check", "-i", DESIGN]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["hypervisors: those of the group hypervisors", "2 hosts, 2 VMs declared; no problems"]
    assert run(["inventory", "check", "-i", str(GOOD / "findings" / "inventory")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert run(["inventory", "check", "-i", str(GOOD / "findings" / "inventory"), "-o", "csv"]) == 0
    assert capsys.readouterr().err.splitlines() == [f"warning: {line}" for line in lines[:-2]]
    assert run(["inventory", "check", "-i", DESIGN, "-o", "wide"]) == 0
    assert capsys.readouterr().out.startswith("HOST")


def test_check_names_a_profile_that_exists_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.yml").write_text(
        "hypervisors: {hosts: {kvm01: {vgpumgr_vms: {vm05: {vgpu0: {profile: A41-4Q}}}}}}\n", encoding="utf-8"
    )
    assert run(["inventory", "check", "-i", str(tmp_path)]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("hosts.yml:1: slot 'vgpu0' of VM 'vm05': NVIDIA's list of vGPU types has no A41-4Q")
    assert last == "1 host, 1 VM declared; no problems, 1 finding"


def test_check_refuses_a_layout_that_its_board_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.yml").write_text(
        "hypervisors: {hosts: {kvm01: {vgpumgr_boards: {A100: {mode: mig, instances: [3g.20gb, 3g.20gb, 1g.5gb]}}}}}\n",
        encoding="utf-8",
    )
    assert run(["inventory", "check", "-i", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert (
        "hosts.yml:1: instances of board A100: A100 has no room for 1g.5gb beside the others; `vgpumgr mig fit A100 "
        in told
    )


def test_problems_are_listed_and_end_in_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    """Every problem is a line on stderr with its place, and the exit code is that of usage errors."""
    assert run(["inventory", "check", "-i", str(BAD / "unknown-names" / "inventory")]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "group_vars/all.yml:1: unknown variable 'vgpumgr_vm'; did you mean 'vgpumgr_vms'?" in told.err


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


def test_the_types_of_a_board_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPUMGR_INVENTORY", "/nowhere")
    assert main.run(["profiles", "--offline", "--board", "L40S", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert published.problems("types", document) == []
    (found,) = [kind for kind in document["types"] if kind["name"] == "L40S-24Q"]
    assert found == {
        "name": "L40S-24Q",
        "board": "L40S",
        "profile": "24Q",
        "series": "Q",
        "framebuffer_mib": 24576,
        "max": 2,
        "max_mixed": 2,
        "placements_equal": [0, 24],
        "placements_mixed": [0, 24],
        "mig_profile": None,
    }


def test_every_type_of_every_board_is_what_the_schema_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["profiles", "--offline", "-o", "json"]) == 0
    assert published.problems("types", json.loads(capsys.readouterr().out)) == []


def test_the_table_has_placement_ids_with_wide(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["profiles", "--offline", "--board", "A40", "-o", "wide"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["A40-16Q", "A40", "16Q", "Q", "16", "GiB", "3", "2", "0", "16", "32", "0", "32", "-"] in lines


@pytest.mark.parametrize(
    "words", [["--board", "A40"], ["--offline", "kvm01"], ["--offline", "--fits"], ["--offline", "--board", "X1"]]
)
def test_what_does_not_combine_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["profiles", *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(("site", "told"), [("", True), ("lab1", False)])
def test_check_recommends_a_site_where_the_last_run_met_another_inventory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, site: str, told: bool
) -> None:
    """It contacts no host, and knows what the last reconcile or recorded plan of this controller found (found: breaker F5)."""
    monkeypatch.setenv("VGPUMGR_STORE", str(tmp_path / "store.sqlite"))
    met = [
        PlannedHost(host="kvm01", at=0, reached=True, findings={"other-site": 1}),
        PlannedHost(host="kvm02", at=0, reached=True, refused={"OtherController": 3}),
        PlannedHost(host="kvm03", at=0, reached=True, findings={"gone": 1}),
        PlannedHost(host="kvm09", at=0, reached=True, findings={"other-site": 1}),  # of this inventory no more
    ]
    runs.put(place.samples_beside(tmp_path / "store.sqlite"), None, met, fleet=None)
    folder = tmp_path / "inventory"
    folder.mkdir()
    hosts = (
        f"hypervisors: {{hosts: {{kvm01: , kvm02: , kvm03: }}, vars: {{{f'vgpumgr_site: {site}' if site else ''}}}}}\n"
    )
    (folder / "hosts.yml").write_text(hosts, encoding="utf-8")
    assert run(["inventory", "check", "-i", str(folder)]) == 0
    out = capsys.readouterr().out
    assert ("another inventory or controller declares vGPUs on kvm01, kvm02, too" in out) is told
    assert ("vgpumgr_site" in out) is told
