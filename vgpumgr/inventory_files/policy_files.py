"""Placement policies that are not vgpumgr's own: a file in the folder of `vgpumgr_plugins`, or an installed package.

A file runs with the rights of the user who runs vgpumgr, as the inventory's own commands do. It is loaded once, and
only if an inventory or a command names its policy.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from typing import TYPE_CHECKING, Final

from vgpumgr.core.policies import known
from vgpumgr.errors import PolicyFailed
from vgpumgr.wording import say

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.core.policies.policy import Policy

_ENTRY_POINTS: Final = "vgpumgr.placement"
_NEEDS: Final = ("name", "order", "why")


@functools.cache
def finder(folder: Path | None) -> known.Find:
    """How to find a policy by its name: vgpumgr's own, `folder`/NAME.py (hyphens as underscores), then packages."""

    @functools.cache
    def find(name: str) -> Policy:
        if name in known.BUILT_IN:
            return known.BUILT_IN[name]
        file = None if folder is None else folder / f"{name.replace('-', '_')}.py"
        if file is not None and file.is_file():
            return _checked(_of_file(file), name, str(file))
        for point in importlib.metadata.entry_points(group=_ENTRY_POINTS, name=name):
            try:
                return _checked(point.load(), name, point.value)
            except Exception as error:
                raise _unusable(point.value, error) from error
        if file is None:
            return known.find(name)
        raise known.unknown(name, f"{file} does not exist")

    return find


def _of_file(file: Path) -> object:
    """The module in a file, which is the policy. It is not entered in sys.modules: two folders may use one name."""
    spec = importlib.util.spec_from_file_location(f"vgpumgr_policy_{file.stem}", file)
    assert spec is not None  # of a .py file there is always one
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _unusable(str(file), error) from error
    return module


def _unusable(where: str, error: Exception) -> PolicyFailed:
    return PolicyFailed(
        say("{} cannot be loaded: {}: {}", where, type(error).__name__, error), hint="see docs/plugins.md"
    )


def _checked(policy: object, name: str, where: str) -> Policy:
    missing = [attribute for attribute in _NEEDS if not hasattr(policy, attribute)]
    if missing:
        raise PolicyFailed(say("{} has no {}", where, ", ".join(missing)), hint="see docs/plugins.md")
    found: Policy = policy  # type: ignore[assignment]  # checked above
    if found.name != name:
        raise PolicyFailed(
            say("{} has the name {}, not {}", where, repr(found.name), repr(name)), hint="correct its `name`"
        )
    return found
