"""The literal that a Jinja template stands for, where it is no more than variables: what to write instead. Pure.

It is for a hint only. Nothing is ever decided by it: Ansible has filters, lookups and facts, and a template of those has no literal here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.inventory.located import Value

_VARIABLE = re.compile(r"\{\{-?\s*([A-Za-z_][A-Za-z0-9_]*)\s*-?\}\}")
_OPENINGS = ("{{", "{%", "{#")
_DEPTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host that has the template, and its variables by name."""

    name: str
    variable: Callable[[str], Value | None]


def literal(text: str, host: Host) -> str | None:
    """The text with every variable replaced; None if that is not all there is to it."""
    return _replace(text, host, _DEPTH)


def _replace(text: str, host: Host, depth: int) -> str | None:
    values: list[str] = []
    for name in _VARIABLE.findall(text):
        value = _value(name, host, depth)
        if value is None:
            return None
        values.append(value)
    replaced = iter(values)
    rest = _VARIABLE.sub("", text)
    if any(opening in rest for opening in _OPENINGS):
        return None
    return _VARIABLE.sub(lambda _: next(replaced), text)


def _value(name: str, host: Host, depth: int) -> str | None:
    if name == "inventory_hostname":
        return host.name
    if name == "inventory_hostname_short":
        return host.name.partition(".")[0]
    found = host.variable(name) if depth else None
    if found is None or found.opaque is not None or isinstance(found.data, bool):
        return None
    if isinstance(found.data, str):
        return _replace(found.data, host, depth - 1)
    return found.text if isinstance(found.data, int) else None
