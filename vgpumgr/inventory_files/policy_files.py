"""Placement policies that are not vgpumgr's own: a file in the folder of `vgpumgr_plugins`, or an installed package.

A file runs with the rights of the user who runs vgpumgr (docs/plugins.md). It is loaded once, and only if an inventory
or a command names its policy.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from typing import TYPE_CHECKING, Final

from vgpumgr.core.policies import known, ranking
from vgpumgr.core.policies.policy import Policy
from vgpumgr.errors import PolicyFailed
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ENTRY_POINTS: Final = "vgpumgr.placement"
_HINT: Final = "see `vgpumgr docs plugins`"


def check(folder: Path) -> None:
    """Raise PolicyFailed if a folder of policies cannot be read, or if a built-in policy's name hides a file of it."""
    try:
        there = {one.name for one in folder.iterdir()}
    except (OSError, ValueError) as error:  # ValueError: a path that no system takes
        why = (isinstance(error, OSError) and error.strerror) or error
        raise PolicyFailed(say("the folder {} cannot be read: {}", folder, why), hint=_HINT) from None
    for name in known.BUILT_IN:
        if (file := _file(folder, name)).name in there:
            text = say("{} is never used: {} is a policy of vgpumgr's own", file, name)
            raise PolicyFailed(text, hint="give the file and its `name` another name")


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('-', '_')}.py"


@functools.cache
def find(folder: Path | None, name: str) -> Policy:
    """A policy: `folder`/NAME.py (hyphens as underscores), else that of an installed package. Raises PolicyFailed."""
    file = None if folder is None else _file(folder, name)
    if file is not None and file.is_file():
        return _checked(_loaded(functools.partial(_of_file, file), str(file)), name, str(file))
    for point in importlib.metadata.entry_points(group=_ENTRY_POINTS, name=name):
        return _checked(_loaded(point.load, point.value), name, point.value)
    if file is None:
        return known.find(name)
    raise known.unknown(name, f"{file} does not exist")


def _of_file(file: Path) -> object:
    """The module in a file, which is the policy. It is not entered in sys.modules: two folders may use one name."""
    spec = importlib.util.spec_from_file_location(f"vgpumgr_policy_{file.stem}", file)
    assert spec is not None  # of a .py file there is always one
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _loaded(load: Callable[[], object], where: str) -> object:
    try:
        return load()
    except (Exception, SystemExit) as error:  # somebody else's code, which must not end ours
        line = ranking.line_in(where, error)
        what = type(error).__name__ if line is None else f"{type(error).__name__} in line {line}"
        text = say("{} cannot be loaded: {}: {}", where, what, error)
        raise PolicyFailed(text, hint=_HINT) from error


def _checked(found: object, name: str, where: str) -> Policy:
    if not isinstance(found, Policy):
        missing = [attribute for attribute in ("name", "order", "why") if not hasattr(found, attribute)]
        raise PolicyFailed(say("{} has no {}", where, ", ".join(missing)), hint=_HINT)
    if found.name != name:
        text = say("{} has the name {}, not {}", where, repr(found.name), repr(name))
        raise PolicyFailed(text, hint="correct its `name`")
    return found
