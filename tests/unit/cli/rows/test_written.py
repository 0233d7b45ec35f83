"""A csv field is one line, no formula, and never as Python writes a value."""

from __future__ import annotations

import pytest

from vgpumgr.cli.rows import written
from vgpumgr.cli.rows.column import Column


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, ""),
        ("=cmd()", "'=cmd()"),
        ("+1", "'+1"),
        ("-x", "'-x"),
        ("@a", "'@a"),
        ("-", "-"),
        (-1, "-1"),
        (0.5, "0.5"),
        (True, "true"),
        ("a\x1b\n", "a\\x1b\\n"),
        (["kvm01", "kvm02"], "kvm01 kvm02"),
        (["=a", "b"], "'=a b"),
        ([0, 16], "[0, 16]"),
        ([{"unit": None}], '[{"unit": null}]'),
    ],
)
def test_a_field_holds_no_control_character_and_no_formula(value: object, field: str) -> None:
    assert written.csv_field(value) == field


def test_jsonl_has_objects_where_keys_have_dots() -> None:
    columns = [Column(key=key, head="") for key in ("vm", "sm.mean", "sm.p95")]
    text = written.json_lines(columns, [{"vm": "vm01", "sm": {"mean": 1.5, "p95": None, "max": 3}}, {"vm": "vm02"}])
    assert (
        text == '{"vm": "vm01", "sm": {"mean": 1.5, "p95": null}}\n{"vm": "vm02", "sm": {"mean": null, "p95": null}}\n'
    )
