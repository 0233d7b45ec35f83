"""Which files of a directory form an inventory: as in Ansible (core 2.19), but files it silently skips are reported.

This looks only at names and file types; reader.py reads the files found here.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.core.inventory import Location, Problem
from vgpumgr.core.inventory.groups import BY_ANSIBLE
from vgpumgr.errors import InventoryError
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Mapping

YAML = (".yml", ".yaml")
ENVIRONMENT = "VGPUMGR_INVENTORY"
# Files that Ansible never reads as an inventory (INVENTORY_IGNORE_EXTS and IGNORED_ALWAYS).
_IGNORED_ENDS = (
    ".pyc", ".pyo", ".swp", ".bak", "~", ".rpm", ".md", ".txt", ".rst", ".orig", ".cfg", ".retry",
)  # fmt: skip
_IGNORED_NAMES = ("host_vars", "group_vars", "vars_plugins")
_MAX_DEPTH = 16


@dataclass(slots=True, kw_only=True)
class Folder:
    """The files to read, in Ansible's order. Variable files are listed by the name of their host or group.

    `for_ansible`: the files that only Ansible reads, each with the problem to report if Ansible is not asked.
    """

    root: Path
    files: list[Path] = field(default_factory=list)
    group_vars: dict[str, list[Path]] = field(default_factory=dict)
    host_vars: dict[str, list[Path]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    for_ansible: dict[Path, Problem] = field(default_factory=dict)

    def problem(self, path: Path, text: str, hint: str | None = None) -> None:
        self.problems.append(self.problem_of(path, text, hint))

    def problem_of(self, path: Path, text: str, hint: str | None = None) -> Problem:
        return Problem(where=Location(file=os.path.relpath(path, self.root), line=1), text=text, hint=hint)


def find_inventory(option: str | None, environ: Mapping[str, str], cwd: Path, home: Path) -> Path:
    """The inventory: the option's, else VGPUMGR_INVENTORY's, else in a usual place. Raises InventoryError."""
    for value, source in ((option, Option("-i/--inventory")), (environ.get(ENVIRONMENT), ENVIRONMENT)):
        if value:
            path = _expand(value, cwd, home)
            try:
                path.stat()
            except OSError as error:
                why = "" if isinstance(error, FileNotFoundError) else f": {error.strerror}"
                hint = "name an existing directory"
                if "," in value:
                    hint = say(
                        "{}; hosts are written into a file, and each inventory has an {} of its own", hint, Option("-i")
                    )
                raise InventoryError(say("no inventory at {} (from {}){}", path, source, why), hint=hint) from error
            return path
    places = (cwd / "inventory", home / ".config/vgpumgr/inventory", Path("/etc/vgpumgr/inventory"))
    for place in places:
        if _is_dir(place):
            return place
    raise InventoryError(
        "no inventory found",
        hint=say(
            "name one with {} or {}; `vgpumgr docs install` shows how a first one is written",
            Option("-i", "DIR"),
            ENVIRONMENT,
        ),
        details=[f"looked for {place}" for place in places],
    )


def _expand(text: str, cwd: Path, home: Path) -> Path:
    if text == "~" or text.startswith("~/"):
        return home / text[2:]
    return cwd / text


def scan(path: Path) -> Folder:
    """All files of the inventory at `path`: a directory, or one file with host_vars and group_vars next to it."""
    if _is_dir(path):
        folder = Folder(root=path)
        _scan_sources(path, folder, ())
    else:
        folder = Folder(root=path.parent)
        _add_source(path, folder)
    for name, by_name in (("group_vars", folder.group_vars), ("host_vars", folder.host_vars)):
        _scan_variables(folder.root / name, by_name, folder)
    return folder


def _scan_sources(directory: Path, folder: Folder, above: tuple[str, ...]) -> None:
    real = os.path.realpath(directory)
    if real in above or len(above) >= _MAX_DEPTH:
        folder.problem(directory, "a folder that contains itself, or folders nested too deeply", "remove the link")
        return
    for name in _names(directory, folder):
        if name.startswith(".") or name in _IGNORED_NAMES or name.endswith(_IGNORED_ENDS):
            continue
        path = directory / name
        if _is_dir(path):
            _scan_sources(path, folder, (*above, real))
        else:
            _add_source(path, folder)


def _add_source(path: Path, folder: Folder) -> None:
    """Add a file in which Ansible looks for hosts. JSON, TOML and executables are set apart, each with a problem."""
    suffix = path.suffix.lower()
    if suffix in (".json", ".toml"):
        folder.for_ansible[path] = folder.problem_of(path, f"a {suffix[1:].upper()} inventory is not read", BY_ANSIBLE)
    elif suffix not in (*YAML, ".ini") and _mode(path) & 0o111:
        folder.for_ansible[path] = folder.problem_of(path, "an executable inventory is not run", BY_ANSIBLE)
    else:
        folder.files.append(path)


def _scan_variables(directory: Path, by_name: dict[str, list[Path]], folder: Folder) -> None:
    """Find the variable files in host_vars or group_vars.

    Of NAME, NAME.yml and NAME.yaml, Ansible reads only the first that exists.
    """
    if not os.path.lexists(directory):
        return
    candidates: dict[str, list[tuple[int, Path]]] = {}
    for entry in _names(directory, folder):
        if entry.startswith(".") or entry.endswith(_IGNORED_ENDS):
            continue
        path = directory / entry
        if path.suffix == ".json":
            folder.problem(path, "a JSON file of variables is not read", "write it as YAML")
            continue
        rank = YAML.index(path.suffix) + 1 if path.suffix in YAML else 0
        candidates.setdefault(path.stem if rank else entry, []).append((rank, path))
    for name, paths in candidates.items():
        first, *others = (path for _, path in sorted(paths))
        for other in others:
            folder.problem(other, f"Ansible reads {first.name} and not this one", "merge the two")
        by_name[name] = _inside(first, folder, ()) if _is_dir(first) else [first]


def _inside(directory: Path, folder: Folder, above: tuple[str, ...]) -> list[Path]:
    """All files of variables below a directory, in order of their names."""
    real = os.path.realpath(directory)
    if real in above or len(above) >= _MAX_DEPTH:
        folder.problem(directory, "a folder that contains itself, or folders nested too deeply", "remove the link")
        return []
    files: list[Path] = []
    for name in _names(directory, folder):
        path = directory / name
        if name.startswith(".") or name.endswith("~"):
            continue
        if _is_dir(path):
            if not path.suffix:  # Ansible skips directories with a dot in their name
                files += _inside(path, folder, (*above, real))
        elif path.suffix == ".json":
            folder.problem(path, "a JSON file of variables is not read", "write it as YAML")
        elif not path.suffix or path.suffix in YAML:
            files.append(path)
    return files


def _is_dir(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 -- Path's raises where a folder above may not be looked into


def _names(directory: Path, folder: Folder) -> list[str]:
    try:
        return sorted(path.name for path in directory.iterdir())
    except OSError as error:
        folder.problem(directory, f"cannot be listed: {error.strerror}")
        return []


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0  # reading it will report the problem
