"""The literal in the hint for a Jinja template: only where plain variables are all there is to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.core.inventory import templates
from vgpumgr.core.inventory.located import Location, Value

WHERE = Location("hosts.yml", 1)
VARIABLES = {
    "domain": "example.net",
    "zone": "mgmt.{{ domain }}",
    "loop": "{{ loop }}",
    "a": "{{ b }}",
    "b": "{{ a }}",
    "number": 7,
    "flag": True,
    "list": (),
    "filtered": "{{ domain | upper }}",
}


def find(name: str) -> Value | None:
    if name == "secret":
        return Value(WHERE, "x", "x", "!vault")
    return Value(WHERE, VARIABLES[name], str(VARIABLES[name])) if name in VARIABLES else None  # type: ignore[arg-type]  # plain scalars


HOST = templates.Host(name="kvm01.example.net", variable=find)


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("{{ inventory_hostname }}", "kvm01.example.net"),
        ("{{inventory_hostname_short}}.{{- zone -}}", "kvm01.mgmt.example.net"),
        ("{{ number }}", "7"),
        ("{{ nobody }}", None),
        ("{{ loop }}", None),
        ("{{ a }}", None),
        ("{{ secret }}", None),
        ("{{ flag }}", None),
        ("{{ list }}", None),
        ("{{ filtered }}", None),
        ("{{ domain | upper }}", None),
        ("{{ domain }}{% if x %}y{% endif %}", None),
        ("{{ domain }}{# no #}", None),
        ("{{ groups['x'] }}", None),
    ],
)
def test_a_template_of_plain_variables_has_a_literal(text: str, literal: str | None) -> None:
    assert templates.literal(text, HOST) == literal


@given(st.text(alphabet="{}%# abz_-|.", max_size=40))
def test_a_literal_is_no_template(text: str) -> None:
    found = templates.literal(text, HOST)
    assert found is None or not any(opening in found for opening in ("{{", "{%", "{#"))
