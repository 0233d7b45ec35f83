"""Symptoms are found by name, also where nothing could be read."""

from __future__ import annotations

from vgpumgr.core.model.symptoms import ModuleVersion, Symptoms, Unit


def test_a_unit_or_module_is_found_by_its_name() -> None:
    unit, module = Unit(name="a", active="active", file="enabled"), ModuleVersion(name="nvidia", version=None)
    found = Symptoms(units=(unit,), modules=(module,))
    assert (found.unit("a"), found.unit("b")) == (unit, None)
    assert (found.module("nvidia"), found.module("nouveau")) == (module, None)
    assert Symptoms(units=None, modules=None).unit("a") is None
    assert Symptoms(units=None, modules=None).module("nvidia") is None
