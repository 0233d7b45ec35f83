"""Placement policies from files: the two in plugins/, and what is told of a file that cannot be used."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.unit.core.policies.candidates import busy, candidate
from vgpumgr.core.policies import ranking
from vgpumgr.core.policies.policy import Candidate, Fleet
from vgpumgr.errors import InventoryError, PolicyFailed
from vgpumgr.inventory_files import policy_files, reader

PLUGINS = Path(__file__).parents[3] / "plugins"


def places(policy: str, *candidates: Candidate, fleet: Fleet | None = None) -> list[int]:
    found = policy_files.finder(PLUGINS)(policy)
    return [one.place for one in ranking.rank(found, candidates, fleet or Fleet())]


def why(policy: str, one: Candidate) -> str:
    return ranking.why(policy_files.finder(PLUGINS)(policy), one)


def test_fewest_cards_takes_a_card_in_use_and_among_those_one_of_the_vms_nodes() -> None:
    row = (candidate(0, numa_node=1), busy(1, 2, numa_node=0), busy(2, 2, numa_node=1))
    assert places("fewest-cards", *row) == [1, 2, 0]
    assert places("fewest-cards", *row, fleet=Fleet(numa_nodes=frozenset({1}))) == [2, 1, 0]
    assert why("fewest-cards", row[0]) == "fewest-cards: an idle card on NUMA node 1"
    assert why("fewest-cards", busy(1, 2)) == "fewest-cards: a card in use"


def test_keep_one_empty_leaves_the_last_empty_card_for_a_vgpu_that_takes_it_whole() -> None:
    whole = candidate(0, type_name="A40-48Q", size_mib=49152)
    assert places("keep-one-empty", candidate(0), busy(1, 2)) == [1]
    assert places("keep-one-empty", candidate(0)) == []
    assert places("keep-one-empty", candidate(0), candidate(1)) == [0, 1]
    assert places("keep-one-empty", whole) == [0]
    rule = "of a host's empty cards the last is kept for a vGPU that takes a card whole"
    assert why("keep-one-empty", candidate(0)) == f"keep-one-empty: empty: {rule}"
    assert why("keep-one-empty", busy(1, 2)).startswith("keep-one-empty: it has 2 of this size")


def written(folder: Path, text: str, *, file: str = "mine") -> Path:
    (folder / f"{file}.py").write_text(dedent(text))
    return folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def order(:\n", "mine.py cannot be loaded: SyntaxError: "),
        ("1 / 0\n", "mine.py cannot be loaded: ZeroDivisionError: division by zero"),
        ("name = 'mine'\norder = len\n", "mine.py has no why"),
        ("name = 'yours'\norder = why = len\n", "mine.py has the name 'yours', not 'mine'"),
    ],
)
def test_a_file_that_is_no_policy_is_named_with_what_it_lacks(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PolicyFailed) as caught:
        policy_files.finder(written(tmp_path, text))("mine")
    assert message in caught.value.message


def test_a_name_without_a_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(PolicyFailed) as caught:
        policy_files.finder(tmp_path)("quiet-first")
    assert caught.value.hint is not None
    assert caught.value.hint.endswith(f"numa; {tmp_path}/quiet_first.py does not exist")


def test_an_inventory_names_the_folder_and_a_broken_file_is_a_problem_with_its_line(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    written(tmp_path, "name = 'mine'\norder = why = len\n")
    (inventory / "hosts.yml").write_text(
        "hypervisors: {vars: {vgpumgr_plugins: .., vgpumgr_policy: mine}, hosts: {kvm01: {}}}\n"
    )
    found = reader.load(inventory, home=tmp_path, environ={})
    (host,) = found.hosts.values()
    assert (host.policy.name, host.find_policy("spread").name) == ("mine", "spread")
    other = tmp_path / "other"
    other.mkdir()
    written(tmp_path, "1 / 0\n", file="broken")
    (other / "hosts.yml").write_text(
        "hypervisors: {vars: {vgpumgr_plugins: .., vgpumgr_policy: broken}, hosts: {kvm01: {}}}\n"
    )
    with pytest.raises(InventoryError) as caught:
        reader.load(other, home=tmp_path, environ={})
    assert "hosts.yml:1: " in caught.value.details[0]
    assert "broken.py cannot be loaded: ZeroDivisionError" in caught.value.details[0]


@pytest.mark.parametrize(("works", "text"), [(True, "name = 'packaged'\norder = why = len\n"), (False, "1 / 0\n")])
def test_an_installed_package_offers_a_policy_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, works: bool, text: str
) -> None:
    package = f"site_policy_{works}".lower()
    written(tmp_path, text, file=package)
    about = tmp_path / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[vgpumgr.placement]\npackaged = {package}\n")
    monkeypatch.syspath_prepend(tmp_path)
    find = policy_files.finder(tmp_path / "none")
    if works:
        assert find("packaged").name == "packaged"
    else:
        with pytest.raises(PolicyFailed, match="cannot be loaded: ZeroDivisionError"):
            find("packaged")
