"""The OpenAPI document of the API: its parameters, and the schemas of docs/schemas, bundled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vgpumgr import __version__, resources

if TYPE_CHECKING:
    from collections.abc import Iterable

API = "/api/v1/"
_COMPONENTS = "#/components/schemas/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a request. `is_path`: it stands in the address."""

    name: str
    description: str
    is_many: bool = False
    is_path: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One address. Its name is that of its schema."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]

    def in_path(self, kind: str = "") -> str:
        """What its parameters add to the address; `kind`: what a route says of each."""
        return "".join(f"/{{{one.name}{kind}}}" for one in self.parameters if one.is_path)


def document(operations: Iterable[Operation]) -> dict[str, object]:
    """The document. Raises TemplateError if the schemas are not installed."""
    texts = resources.schemas()
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "vgpumgr",
            "version": __version__,
            "description": "The objects of `vgpumgr … -o json`. Only GET and HEAD.",
        },
        "paths": {API + one.name + one.in_path(): {"get": _operation(one)} for one in operations},
        "components": {"schemas": {name: _bundled(json.loads(text), name) for name, text in texts.items()}},
    }


def _operation(operation: Operation) -> dict[str, object]:
    failed = {"description": "Why there is no such object.", **_content("error-1")}
    return {
        "summary": operation.summary,
        "parameters": [_parameter(one) for one in operation.parameters],
        "responses": {
            "200": {"description": "The object.", **_content(f"{operation.name}-1")},
            "4XX": failed,
            "5XX": failed,
        },
    }


def _content(schema: str) -> dict[str, object]:
    return {"content": {"application/json": {"schema": {"$ref": _COMPONENTS + schema}}}}


def _parameter(one: Parameter) -> dict[str, object]:
    text: dict[str, object] = {"type": "string"}
    return {
        "name": one.name,
        "in": "path" if one.is_path else "query",
        "required": one.is_path,
        "description": one.description,
        "schema": {"type": "array", "items": text} if one.is_many else text,
    }


def _bundled(value: Any, name: str) -> Any:
    """A part of the schema `name`, its references leading to the components of one document."""
    match value:
        case {"$ref": str(target), **rest}:
            file, _, inside = target.partition("#")
            return {**rest, "$ref": _COMPONENTS + (file.removesuffix(".json") or name) + inside}
        case dict():
            return {key: _bundled(one, name) for key, one in value.items() if key not in ("$schema", "$id")}
        case list():
            return [_bundled(one, name) for one in value]
        case _:
            return value
