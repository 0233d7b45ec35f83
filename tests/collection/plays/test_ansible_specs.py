"""The options of module, documentation and action plugin are the same, without running Ansible."""

from __future__ import annotations

import ast
import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.collection.plays.plays import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import ModuleType

PLUGINS = ROOT / "ansible" / "plugins"
MODULES = sorted(path.stem for path in (PLUGINS / "modules").glob("*.py"))
_TOLD = ("type", "default", "choices", "elements", "required")


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tested_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(path: Path, name: str) -> str:
    """A constant of a file that is not imported."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets):
            assert isinstance(node.value, ast.Constant)
            return str(node.value.value)
    raise AssertionError(f"{path} has no {name}")


def documented(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {
            **{key: row[key] for key in _TOLD if key in row},
            **({"options": documented(row["suboptions"])} if "suboptions" in row else {}),
        }
        for name, row in options.items()
    }


def specified(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {
            **{key: row[key] for key in _TOLD if key in row},
            **({"options": specified(row["options"])} if "options" in row else {}),
        }
        for name, row in options.items()
    }


@pytest.mark.parametrize("module", MODULES)
def test_documentation_and_specification_name_the_same_options(module: str) -> None:
    specs = load(PLUGINS / "module_utils" / "specs.py")
    fragment = yaml.safe_load(text_of(PLUGINS / "doc_fragments" / "vgpumgr.py", "DOCUMENTATION"))
    doc = yaml.safe_load(text_of(PLUGINS / "modules" / f"{module}.py", "DOCUMENTATION"))
    assert documented({**doc["options"], **fragment["options"]}) == specified(
        getattr(specs, module.upper())["argument_spec"]
    )


def test_no_option_is_a_word_that_yaml_takes_for_something_else() -> None:
    """`on: kvm01` would be the option True."""
    specs = load(PLUGINS / "module_utils" / "specs.py")
    for module in MODULES:
        for name in getattr(specs, module.upper())["argument_spec"]:
            assert yaml.safe_load(name) == name


@pytest.mark.parametrize(
    ("version", "fine"), [("0.1.0", True), ("0.2.0.dev3+g1", True), ("1", True), ("0.0.9", False), ("0.0", False)]
)
def test_a_vgpumgr_that_is_too_old_is_said_to_be_so(
    monkeypatch: pytest.MonkeyPatch, version: str, *, fine: bool
) -> None:
    monkeypatch.setattr("vgpumgr.__version__", version)
    failed = load(PLUGINS / "module_utils" / "library.py").why_not()
    assert (failed is None) is fine
    if failed is not None:
        assert f"vgpumgr {version}" in failed["msg"]
        assert "needs 0.1.0 or newer" in failed["msg"]
