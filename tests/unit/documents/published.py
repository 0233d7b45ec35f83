"""The schemas under docs/schemas/, and what tests ask of them."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "schemas"

# Not the object of a command: what the others share, and what stands on stderr when any command fails.
SHARED, ERROR = "common", "error"

# Objects whose keys are names of things and not of fields; a journal's steps are as whoever wrote them printed them. A
# capture is as the host program of its version read it.
MAPS = ("versions", "fgpu_per_gpu", "steps")
CAPTURE = "capture"


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """Every schema by its thing: list, discover, …"""
    return {
        file.name.removesuffix("-1.json"): json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(FOLDER.glob("*.json"))
    }


@cache
def validator(thing: str) -> Draft202012Validator:
    """Checks an object of that thing; the schemas refer to one another by file name, as in the folder."""
    registry: Registry[Any] = Registry()
    pairs = ((f"{name}-1.json", Resource.from_contents(schema)) for name, schema in schemas().items())
    return Draft202012Validator(schemas()[thing], registry=registry.with_resources(pairs))


def problems(thing: str, document: object) -> list[str]:
    """What is wrong with an object, as `path: why`; the deepest reason where there are alternatives."""
    return [_told(error) for error in validator(thing).iter_errors(document)]


def _told(error: Any) -> str:
    from jsonschema.exceptions import best_match

    deepest = best_match([error]) or error
    return f"{deepest.json_path}: {deepest.message}"


def needless(thing: str, *documents: Any) -> list[str]:
    """Where an object of that thing lacks a key and is let pass all the same; asked once for objects within it that are alike, maps apart."""
    seen: set[object] = set()
    return [where for document in documents for where in _needless_in(thing, document, seen)]


def _needless_in(thing: str, document: Any, seen: set[object]) -> Iterator[str]:
    for path in _objects(document, ()):
        part = _at(document, path)
        alike = (*(key for key in path if isinstance(key, str)), *part, part.get("verb"), part.get("kind"))
        if alike in seen:
            continue
        seen.add(alike)
        # Of the rest of the document as little as will do, since all of it is looked at for each key.
        least, place = _least(document, path), tuple(0 if isinstance(key, int) else key for key in path)
        if not validator(thing).is_valid(least):
            least, place = document, path
        for key in part:
            without = deepcopy(least)
            del _at(without, place)[key]
            if validator(thing).is_valid(without):
                yield ".".join(map(str, (*path, key)))


def _least(value: Any, path: tuple[str | int, ...]) -> Any:
    """The object at that path with what it stands in; of the lists on the way one item, and of all others none."""
    if not path:
        return value
    if isinstance(value, list):
        return [_least(value[int(path[0])], path[1:])]
    return {
        key: _least(below, path[1:]) if key == path[0] else [] if isinstance(below, list) else below
        for key, below in value.items()
    }


def _objects(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        if next((key for key in reversed(path) if isinstance(key, str)), None) not in MAPS:
            yield path
        for key, below in value.items():
            if key != CAPTURE:
                yield from _objects(below, (*path, key))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _objects(below, (*path, number))


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def objects_of(thing: str) -> dict[str, frozenset[str]]:
    """Every kind of object that a schema describes, by its description, with the keys that are always there."""
    found: dict[str, frozenset[str]] = {}
    _collect(schemas()[thing], thing, found, set())
    return found


def _collect(part: Any, thing: str, found: dict[str, frozenset[str]], seen: set[str]) -> None:
    if isinstance(part, list):
        for below in part:
            _collect(below, thing, found, seen)
    if not isinstance(part, dict):
        return
    if part.get("type") == "object" and "required" in part and "then" not in part:
        found[part["description"]] = frozenset(part["required"])
    reference = part.get("$ref")
    if isinstance(reference, str) and "#/$defs/" in reference and reference not in seen:  # others: in their own schema
        seen.add(reference)
        file, _, pointer = reference.partition("#/$defs/")
        owner = file.removesuffix("-1.json") if file else SHARED
        _collect(schemas()[owner]["$defs"][pointer], owner, found, seen)
    for key, below in part.items():
        if key not in ("examples", "$defs"):
            _collect(below, thing, found, seen)
