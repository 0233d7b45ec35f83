"""benchmarks/placement_cost.py with a policy of a site's own: what it leaves out, and what is told if it cannot be used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks import placement_cost

if TYPE_CHECKING:
    from pathlib import Path

_PICKY = """\
name = "picky"
order = lambda candidates, fleet: [one for one in candidates if not one.others]
why = str
"""


@pytest.fixture
def trace(tmp_path: Path) -> list[str]:
    """Options of a trace of two nodes: one of two GPUs, one of one. Each request asks for half a GPU."""
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,T4\nn2,64000,262144,1,T4\n")
    rows = "p,1000,1024,1,500,\n" * 8
    pods.write_text(f"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n{rows}")
    return ["--nodes", str(nodes), "--pods", str(pods), "--seeds", "1", "--json"]


def plugins(folder: Path, name: str, text: str) -> list[str]:
    """Options that choose this policy."""
    (folder / f"{name}.py").write_text(text)
    return ["--policy", name, "--plugins", str(folder)]


def served(capsys: pytest.CaptureFixture[str], *options: str) -> float:
    """Percent of the GPUs that are allocated in the end."""
    assert placement_cost.main([*options]) == 0
    percent: float = json.loads(capsys.readouterr().out)["alloc_at_130"]
    return percent


def test_a_node_that_a_policy_leaves_out_is_not_used(
    trace: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert served(capsys, *trace, *plugins(tmp_path, "picky", _PICKY)) == pytest.approx(100 / 3, abs=0.01)
    assert served(capsys, *trace, "--policy", "pack") == 100


@pytest.mark.parametrize(
    "order", ["sorted(row, key=lambda one: one.cost_mib)[1:]", "row", "row if row[0] == row[1] else []"]
)
def test_a_policy_that_leaves_out_nodes_beside_others_only_uses_every_node(
    trace: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], order: str
) -> None:
    text = f"name = 'mine'\norder = lambda row, fleet: {order}\nwhy = str\n"
    assert served(capsys, *trace, *plugins(tmp_path, "mine", text)) == 100


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--policy", "nosuch"], "there is no placement policy 'nosuch' (built in: "),
        (
            ["--policy", "pack", "--plugins", "/nonexistent"],
            "the folder /nonexistent cannot be read: No such file or directory",
        ),
        (["--policy", "pack", "--nodes", "/nonexistent/nodes.csv"], "/nonexistent/nodes.csv: No such file"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    trace: list[str], capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        placement_cost.main([*trace, *options])
    (line,) = capsys.readouterr().err.splitlines()
    assert (caught.value.code, told in line) == (2, True), line


def test_a_policy_that_raises_is_named_with_its_line(
    trace: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        placement_cost.main([*trace, *plugins(tmp_path, "picky", _PICKY.replace("one.others", "one.nosuch"))])
    (line,) = capsys.readouterr().err.splitlines()
    assert caught.value.code == 2
    assert f"picky raised AttributeError in line 2 of {tmp_path}/picky.py" in line
