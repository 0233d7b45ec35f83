"""The published schemas, by themselves and beside the code: nothing here needs a host."""

from __future__ import annotations

import inspect
import re
import typing
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import vgpumgr
from tests.unit.core import step_kinds
from tests.unit.documents import published
from vgpumgr import errors
from vgpumgr.controller import install_files
from vgpumgr.core import step as steps
from vgpumgr.core.driver import asking, modes, scheduler
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.model import claims, snapshot, vgpu
from vgpumgr.core.model import view as views
from vgpumgr.core.policies import known
from vgpumgr.core.reconcile import drift
from vgpumgr.core.report import listing, schedulers
from vgpumgr.core.usage import readings, usage_rows

CODE = Path(vgpumgr.__file__).parent
THINGS = sorted(set(published.schemas()) - {published.SHARED})


@pytest.mark.parametrize("thing", sorted(published.schemas()))
def test_every_schema_is_one(thing: str) -> None:
    """Draft 2020-12, named after its file, and with a description of every property."""
    schema = published.schemas()[thing]
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert [name for name, part in properties(schema) if not told(part)] == []
    named = schema.get("properties", {}).get("schema", {}).get("const")
    assert named == (None if thing in (published.SHARED, published.ERROR) else f"vgpumgr.{thing}/1")


def properties(part: Any) -> list[tuple[str, Any]]:
    if isinstance(part, list):
        return [pair for below in part for pair in properties(below)]
    if not isinstance(part, dict):
        return []
    own = list(part["properties"].items()) if isinstance(part.get("properties"), dict) and "type" in part else []
    return own + [pair for key, below in part.items() if key != "examples" for pair in properties(below)]


def told(part: dict[str, Any]) -> bool:
    return bool({"description", "const", "$ref"} & set(part))


@pytest.mark.parametrize("thing", sorted(set(THINGS) - {published.ERROR}))
def test_every_object_has_the_same_frame(thing: str) -> None:
    schema = published.schemas()[thing]
    required = set(schema["required"]) | (set(defined("change", "required")) if "$ref" in schema else set())
    assert {"outcomes", "unreached", "findings"} <= required


def test_every_schema_is_built_in_one_place_of_the_documents() -> None:
    """`vgpumgr.THING/1` stands once in vgpumgr/documents, and nowhere else."""
    folders = (CODE, CODE.parent / "ansible")
    built = [
        (thing, file.parent)
        for folder in folders
        for file in folder.rglob("*.py")
        for thing in re.findall(r"vgpumgr\.([a-z_]+)/1\b", file.read_text(encoding="utf-8"))
    ]
    assert sorted(built) == [(thing, CODE / "documents") for thing in THINGS if thing != published.ERROR]


def test_the_index_names_every_schema_with_the_command_that_prints_it() -> None:
    """docs/schemas/README.md: each file once, and each command of a schema's title."""
    index = (published.FOLDER / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[([a-z_]+)-1\.json\]", index, re.MULTILINE)) == sorted(published.schemas())
    for thing in THINGS:
        (row,) = [line for line in index.splitlines() if line.startswith(f"| [{thing}-1.json]")]
        words = set(re.findall(r"[a-z]+", published.schemas()[thing]["title"].lower())) - {"of", "and"}
        assert words <= set(re.findall(r"[a-z]+", row.lower())), thing


@pytest.mark.parametrize("thing", THINGS)
def test_the_examples_are_what_the_schema_says(thing: str) -> None:
    """At least one, each valid, and together with an object of every kind that the schema describes; `list` shows those of the frame."""
    examples = published.schemas()[thing]["examples"]
    assert examples
    assert [problem for example in examples for problem in published.problems(thing, example)] == []
    shown = [set(found) for example in examples for found in objects(example)]
    kinds = published.objects_of(thing)
    if thing not in (
        "plan",
        "change",
        "drain",
        "purge",
        "forget",
    ):  # they share the steps, and the first two show them between them
        missing = {name for name, keys in kinds.items() if not any(keys <= have for have in shown)}
        of_the_frame = {defined("finding", "description"), defined("error", "description"), "A host's error."}
        assert missing <= (set() if thing == "list" else of_the_frame)


def test_plan_and_change_show_every_step_between_them() -> None:
    examples = [example for thing in ("plan", "change") for example in published.schemas()[thing]["examples"]]
    assert {step["verb"] for example in examples for step in example["plan"]} == verbs()


def objects(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [found for below in value for found in objects(below)]
    if isinstance(value, dict):
        return [value, *(found for below in value.values() for found in objects(below))]
    return []


@pytest.mark.parametrize("thing", THINGS)
def test_no_key_may_be_missing(thing: str) -> None:
    """Every object without any one of its keys is refused: a reader may count on each. Unknown keys are let pass."""
    examples = published.schemas()[thing]["examples"]
    assert published.needless(thing, *examples) == []
    for example in examples:
        assert published.problems(thing, {**example, "added_later": 1}) == []


def defined(name: str, *path: str) -> Any:
    """A part of a shared definition."""
    part = published.schemas()[published.SHARED]["$defs"][name]
    for key in path:
        part = part[key]
    return part


def verbs() -> set[str]:
    """Of every step in the code; a claim's verb is its state's."""
    found = {verb for kind in step_kinds.ALL if isinstance(verb := vars(kind)["verb"], str)}
    for state in (claims.PENDING, claims.BOUND, claims.LEAVING):
        claim = typing.cast("claims.Claim", type("Stub", (), {"state": state}))
        found.add(steps.PutClaim(vm=None, vm_name=None, claim=claim, before=None).verb)  # type: ignore[arg-type]
    return found | {"put_wait", "drop_wait"}  # of one step: with a wait, or without


def test_the_verbs_are_the_codes_steps() -> None:
    steps = defined("step", "oneOf")
    assert {step["properties"]["verb"]["const"] for step in steps} == verbs()
    assert {verb for step in steps for verb in step["properties"]["inverse"]["enum"]} <= verbs()


def test_the_outcomes_are_those_of_the_errors_and_of_success() -> None:
    def tree(kind: type[errors.VgpumgrError]) -> set[str]:
        return {kind.outcome}.union(
            *(tree(below) for below in kind.__subclasses__() if below.__module__ == errors.__name__)
        )

    success = {outcome.value for outcome in typing.get_args(errors.Success)} | {
        errors.Outcome.WAITING,
        errors.Outcome.UNVERIFIED,
    }
    assert set(defined("outcome", "enum")) == {*errors.Outcome} == tree(errors.VgpumgrError) | success


def test_the_states_of_a_vgpu_are_those_that_listing_gives() -> None:
    states = typing.get_args(listing.State)
    assert sorted(defined("vgpu", "properties", "state", "enum")) == sorted(states)
    source = inspect.getsource(listing)
    assert [state for state in states if source.count(f'"{state}"') < 2] == []  # in the type, and where it is given


def test_the_kinds_of_findings_are_words_as_the_schema_says_and_the_sets_of_them_are_of_these() -> None:
    kinds = typing.get_args(views.FindingKind)
    assert list(kinds) == sorted(set(kinds))
    assert [kind for kind in kinds if not re.search(defined("finding", "properties", "kind", "pattern"), kind)] == []
    assert set(kinds) >= views.SERVED | views.STANDING


def test_the_other_lists_of_words_are_the_codes() -> None:
    """Frameworks, modes, origins, claims' states, policies, schedulers, and the states of a job's file."""
    schemas = published.schemas()
    claim = schemas["show"]["properties"]["vm"]["properties"]["claims"]["items"]["properties"]
    host = schemas["inventory"]["properties"]["hosts"]["items"]["properties"]
    slot = host["vms"]["items"]["properties"]["slots"]["items"]["properties"]
    file = schemas["install"]["properties"]["files"]["items"]["properties"]
    gpu = defined("gpu_scheduler", "properties")
    difference = gpu["differences"]["items"]["properties"]
    used = schemas["usage"]["properties"]["vgpus"]["items"]["properties"]
    assert used["state"]["enum"] == [readings.RUNNING, readings.OFF, usage_rows.GONE, readings.UNKNOWN]
    assert gpu["policy"]["enum"] == [*scheduler.POLICIES, None]
    assert gpu["persistent"]["properties"]["state"]["enum"] == [
        scheduler_plan.NONE,
        scheduler_plan.LOADED,
        scheduler_plan.PENDING_REBOOT,
        None,
    ]
    assert difference["kind"]["enum"] == [
        scheduler_plan.DRIFT,
        scheduler_plan.PENDING_REBOOT,
        scheduler_plan.UNVERIFIED,
    ]
    assert gpu["state"]["enum"] == [schedulers.OK, *difference["kind"]["enum"], schedulers.UNDECLARED, None]
    assert defined("framework", "enum") == [snapshot.MDEV_PF, snapshot.MDEV_VF, snapshot.VENDOR_VFIO, None]
    assert defined("mode", "enum") == [*modes.MODES, None]
    assert defined("vgpu", "properties", "origin", "enum") == [*typing.get_args(vgpu.Whose), None]
    assert claim["state"]["enum"] == [claims.PENDING, claims.BOUND, claims.LEAVING]
    assert host["policy"]["pattern"] == slot["policy"]["pattern"] == f"^{known.NAME.pattern}$"
    assert slot["only"]["enum"] == slot["prefer"]["enum"] == [*asking.WAYS, None]
    assert slot["compute"]["enum"] == [*scheduler.POLICIES, None]
    assert file["state"]["enum"] == [*install_files.FileState]


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (listing.VgpuRow, ("vgpu",)),
        (views.Finding, ("finding",)),
        (drift.Drift, ("drift",)),
        (scheduler.EngineState, ("gpu_scheduler", "properties", "engines", "items")),
        (scheduler_plan.Difference, ("gpu_scheduler", "properties", "differences", "items")),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_may_be_none_in_the_code_may_be_null_and_nothing_else(kind: type, where: tuple[str, ...]) -> None:
    """The values that are printed field by field: the same names, and null exactly where the type says None."""
    part = defined(*where)
    assert set(part["required"]) == set(part["properties"]) == set(kind.__annotations__)
    for name, annotation in kind.__annotations__.items():
        assert may_be_null(part["properties"][name]) == ("None" in annotation), name


def may_be_null(part: dict[str, Any]) -> bool:
    if "$ref" in part:
        return may_be_null(defined(part["$ref"].rpartition("/")[2]))
    if "anyOf" in part:
        return any(may_be_null(one) for one in part["anyOf"])
    return None in part.get("enum", []) or "null" in (
        [part["type"]] if isinstance(part.get("type"), str) else part.get("type", [])
    )
