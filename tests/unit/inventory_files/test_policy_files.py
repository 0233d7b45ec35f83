"""Placement policies from files: the two in plugins/, and what is told of a file that cannot be used."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.unit.core.policies.candidates import busy, candidate
from vgpumgr.core.policies import ranking
from vgpumgr.core.policies.policy import Candidate, Fleet, Policy
from vgpumgr.errors import InventoryError, PolicyFailed
from vgpumgr.inventory_files import policy_files, reader

PLUGINS = Path(__file__).parents[3] / "plugins"


def places(policy: str, *candidates: Candidate, fleet: Fleet | None = None) -> list[int]:
    found = policy_files.find(PLUGINS, policy)
    return [one.place for one in ranking.rank(found, candidates, fleet or Fleet())]


def why(policy: str, one: Candidate) -> str:
    return ranking.why(policy_files.find(PLUGINS, policy), one)


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
    assert places("keep-one-empty", candidate(0), candidate(1, host="kvm02"), busy(2, 2, host="kvm02")) == [2]
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
        ("\n1 / 0\n", "mine.py cannot be loaded: ZeroDivisionError in line 2: division by zero"),
        ("name = 'mine'\norder = len\n", "mine.py has no why"),
        ("name = 'yours'\norder = why = len\n", "mine.py has the name 'yours', not 'mine'"),
    ],
)
def test_a_file_that_is_no_policy_is_named_with_what_it_lacks(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PolicyFailed) as caught:
        policy_files.find(written(tmp_path, text), "mine")
    assert message in caught.value.message


_RAISES = """\
    name = "mine"

    def order(candidates, fleet):
        return sorted(candidates, key=power)

    def power(one):
        return one.power

    def why(candidate):
        return candidate.name
"""


def test_an_error_in_a_policys_file_is_named_with_its_line_and_an_answer_of_none_with_the_file(tmp_path: Path) -> None:
    mine, one = policy_files.find(written(tmp_path, _RAISES), "mine"), candidate(0)
    file = tmp_path / "mine.py"
    with pytest.raises(PolicyFailed, match=f"mine raised AttributeError in line 7 of {file}: .* 'power'"):
        ranking.rank(mine, [one], Fleet())
    with pytest.raises(PolicyFailed, match=f"mine raised AttributeError in line 10 of {file}: .* 'name'"):
        ranking.why(mine, one)
    empty = policy_files.find(
        written(tmp_path, "name = 'empty'\ndef order(*_): ...\nwhy = len\n", file="empty"), "empty"
    )
    with pytest.raises(PolicyFailed, match=f"empty raised TypeError in {tmp_path}/empty.py: 'NoneType' object"):
        ranking.rank(empty, [one], Fleet())


def test_a_name_without_a_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(PolicyFailed) as caught:
        policy_files.find(tmp_path, "quiet-first")
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
    assert "broken.py cannot be loaded: ZeroDivisionError in line 1: " in caught.value.details[0]


def test_a_folder_of_policies_that_is_not_there_is_a_problem_whatever_policy_is_chosen(tmp_path: Path) -> None:
    with pytest.raises(InventoryError) as caught:
        load(tmp_path, "pack", vgpumgr_plugins="../nosuch")
    (problem,) = caught.value.details
    told = f"hosts.yml:1: vgpumgr_plugins: the folder {tmp_path}/nosuch cannot be read: No such file or directory; "
    assert problem.startswith(told)
    (tmp_path / "other").mkdir()
    with pytest.raises(InventoryError, match="1 problem"):
        load(tmp_path / "other", "pack", vgpumgr_plugins='"..\\0"')


@pytest.mark.parametrize("name", ["pack", "least-fragmentation"])
def test_a_file_with_the_name_of_a_built_in_policy_is_a_problem_since_it_would_never_be_used(
    tmp_path: Path, name: str
) -> None:
    file = name.replace("-", "_")
    written(tmp_path, f"name = '{name}'\norder = why = len\n", file=file)
    with pytest.raises(InventoryError) as caught:
        load(tmp_path, "spread", vgpumgr_plugins="..")
    told = f"hosts.yml:1: vgpumgr_plugins: {tmp_path}/{file}.py is never used: {name} is a policy of vgpumgr's own; "
    assert caught.value.details[0].startswith(told)


def load(folder: Path, policy: str, **variables: str) -> Policy:
    """The policy of the one host of an inventory below a folder."""
    inventory = folder / "inventory"
    inventory.mkdir()
    given = "".join(f"{name}: {value}, " for name, value in {**variables, "vgpumgr_policy": policy}.items())
    (inventory / "hosts.yml").write_text(f"hypervisors: {{vars: {{{given}}}, hosts: {{kvm01: {{}}}}}}\n")
    (host,) = reader.load(inventory, home=folder / "home", environ={}).hosts.values()
    return host.policy


@pytest.mark.parametrize(
    ("folder", "place"), [("..", "."), ("~/policies", "home/policies"), ("{}/elsewhere", "elsewhere")]
)
def test_the_folder_is_a_path_from_the_inventorys_or_of_the_home_directory(
    tmp_path: Path, folder: str, place: str
) -> None:
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    written(tmp_path / place, "name = 'mine'\norder = why = len\n")
    assert load(tmp_path, "mine", vgpumgr_plugins=folder.format(tmp_path)).name == "mine"


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """An installed package whose entry point is a policy."""
    written(folder, text, file=f"of_{name}")
    about = folder / f"of_{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: of_{name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[vgpumgr.placement]\n{name} = of_{name}\n")
    monkeypatch.syspath_prepend(folder)


def test_an_installed_package_offers_a_policy_to_an_inventory_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, monkeypatch, "packaged", "name = 'packaged'\norder = why = len\n")
    assert load(tmp_path, "packaged").name == "packaged"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0\n", "of_broken cannot be loaded: ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)\n", "of_broken cannot be loaded: SystemExit: 0"),
        ("name = 'broken'\n", "of_broken has no order, why"),
    ],
)
def test_a_package_that_is_no_policy_is_named_and_does_not_end_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    package(tmp_path, monkeypatch, "broken", text)
    monkeypatch.delitem(sys.modules, "of_broken", raising=False)
    with pytest.raises(InventoryError) as caught:
        load(tmp_path, "broken")
    assert caught.value.details[0].startswith(f"hosts.yml:1: {message}")
