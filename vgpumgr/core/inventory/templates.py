"""The literal of a Jinja template that has only the host's own variables and their defaults. Pure.

Connection variables may be such templates. A template with Ansible's filters, lookups or facts has no literal here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.inventory.located import Value

_VARIABLE = re.compile(
    r"\{\{-?\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?:\|\s*(?:default|d)\(\s*"
    r"(?:'([^'\\{}]*)'|\"([^\"\\{}]*)\"|([0-9]+|[Tt]rue|[Ff]alse))\s*\)\s*)?-?\}\}"
)
_OPENINGS = ("{{", "{%", "{#")
_DEPTH = 8
_MAGIC = ("inventory_hostname", "inventory_hostname_short")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host that has the template, and its variables by name."""

    name: str
    variable: Callable[[str], Value | None]


def literal(text: str, host: Host) -> str | None:
    """The text with every variable replaced; None if the template needs more than that."""
    return _replace(text, host, _DEPTH)


def _replace(text: str, host: Host, depth: int) -> str | None:
    values: list[str] = []
    for match in _VARIABLE.finditer(text):
        name, default = match[1], next((one for one in match.groups()[1:] if one is not None), None)
        absent = default is not None and name not in _MAGIC and host.variable(name) is None
        value = default if absent else _value(name, host, depth)
        if value is None:
            return None
        values.append(value)
    replacements = iter(values)
    rest = _VARIABLE.sub("", text)
    if any(opening in rest for opening in _OPENINGS):
        return None
    return _VARIABLE.sub(lambda _: next(replacements), text)


def _value(name: str, host: Host, depth: int) -> str | None:
    if name == "inventory_hostname":
        return host.name
    if name == "inventory_hostname_short":
        return host.name.partition(".")[0]
    value = host.variable(name) if depth else None
    if value is None or value.opaque is not None:
        return None
    if isinstance(value.data, bool):  # `yes` is True, too
        return str(value.data)
    if isinstance(value.data, str):
        return _replace(value.data, host, depth - 1)
    return value.text if isinstance(value.data, int) else None
