"""Each jq recipe in the documentation, run by the real jq: it works, and takes nothing for a number that is not known."""

from __future__ import annotations

import json
import re
import subprocess
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.unit.documents import published

ROOT = Path(__file__).resolve().parents[2]
_RECIPE = re.compile(r"vgpumgr (?P<command>[a-z]+)(?P<options>[^|`\n]*)\| jq (?P<raw>-r )?'(?P<program>[^']+)'")
_SCHEMA = {"reconcile": "change"}
RECIPES = sorted(
    {
        (found["command"], found["options"].strip(), found["program"])
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
        for found in _RECIPE.finditer(page.read_text(encoding="utf-8"))
    }
)


def jq(program: str, document: Any) -> list[Any]:
    done = subprocess.run(
        ["jq", "-c", program], input=json.dumps(document), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def example(command: str) -> dict[str, Any]:
    """What the command prints, out of its schema; of a change, that of a fleet."""
    examples = published.schemas()[_SCHEMA.get(command, command)]["examples"]
    found: dict[str, Any] = deepcopy(
        next(one for one in examples if command != "reconcile" or "hosts" in one["result"])
    )
    return found


def unknown(value: Any) -> Any:
    """The same with every number null."""
    if isinstance(value, dict):
        return {key: unknown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [unknown(item) for item in value]
    return None if isinstance(value, int | float) and not isinstance(value, bool) else value


def test_there_are_recipes() -> None:
    """Or the pattern above no longer finds them; `grep` for a plain "| jq" finds as many."""
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    lines = [line for page in pages for line in page.splitlines() if not line.startswith("<!--")]
    assert sum(len(_RECIPE.findall(line)) for line in lines) == sum(line.count("| jq ") for line in lines) > 0


@pytest.mark.parametrize(("command", "options", "program"), RECIPES)
def test_a_recipe_runs_on_real_output_and_finds_nothing_in_what_is_not_known(
    command: str, options: str, program: str
) -> None:
    """`null < 10` is true in jq: a recipe that forgets it lists every VM that was off."""
    assert "-o json" in options
    jq(program, example(command))
    if re.search(r"[<>]", program):
        assert jq(program, unknown(example(command))) == []


def test_the_recipe_for_little_used_vgpus_names_those_alone() -> None:
    document = example("usage")
    (busy, *_) = document["vgpus"]
    named = {"busy": 42, "little": 3, "off": None}
    document["vgpus"] = [{**busy, "vm": vm, "sm": {**busy["sm"], "p95": p95}} for vm, p95 in named.items()]
    (program,) = {program for command, _, program in RECIPES if command == "usage" and ".sm.p95" in program}
    assert jq(program, document) == ["little"]
