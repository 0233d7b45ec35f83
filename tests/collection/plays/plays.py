"""Runs the real ansible-playbook against a lab, as cron would: no venv in the PATH, no setting but the inventory."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.lab_fixtures import Lab

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 120.0
# What breaks a module on a target, whatever else is set: extra variables stand above all.
NO_PYTHON = ("-e", "ansible_python_interpreter=/nonexistent/python")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """`results` are those of all tasks and items, in the order in which they ended; `stats` is the recap, by target."""

    code: int
    out: str
    results: tuple[dict[str, Any], ...]
    stats: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        """How many slots were changed, or would be."""
        return sum(row["changed"] for row in self.rows)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One for each slot, whether it was a task of its own or one of a list; in the order of their VMs."""
        found = [row for result in self.results for row in result.get("vms", [result])]
        return sorted(found, key=lambda row: str(row.get("vm")))

    @property
    def diffs(self) -> dict[str, tuple[str, str]]:
        """`VM on HOST` → what is before and after."""
        found = [row for result in self.results for row in result.get("diff", [])]
        return {row["before_header"]: (row["before"], row["after"]) for row in found if "prepared" not in row}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plays:
    """`collections`: where Ansible finds the collection; `folder`: for plays, results and Ansible's own litter."""

    lab: Lab
    collections: Path
    folder: Path

    def play(
        self, play: Sequence[Mapping[str, Any]] | str, *options: str, inventory: Sequence[Path] = (), **env: str
    ) -> Ran:
        """Run a play, or the playbook of that name. The lab's own inventory unless others are named."""
        name = play if isinstance(play, str) else str(self._write(play))
        return self._run("ansible-playbook", name, options, inventory or [self.lab.layout.inventory], env)

    def task(self, module: str, args: Mapping[str, Any], *options: str, collections: Path | None = None) -> Ran:
        """One task on localhost: `ansible localhost -m`."""
        given = ("-m", f"vgpumgr.kvm.{module}", *(("-a", json.dumps(args)) if args else ()), *options)
        return self._run(
            "ansible",
            "localhost",
            given,
            [self.lab.layout.inventory],
            {"ANSIBLE_LOAD_CALLBACK_PLUGINS": "1"},
            collections=collections,
        )

    def _write(self, play: Sequence[Mapping[str, Any]]) -> Path:
        path = self.folder / "play.yml"
        path.write_text(yaml.safe_dump(list(play), sort_keys=False), encoding="utf-8")
        return path

    def _run(
        self,
        program: str,
        what: str,
        options: Sequence[str],
        inventory: Sequence[Path],
        env: Mapping[str, str],
        *,
        collections: Path | None = None,
    ) -> Ran:
        results = self.folder / "results"
        results.unlink(missing_ok=True)
        sources = [word for path in inventory for word in ("-i", str(path))]
        done = subprocess.run(
            [str(Path(sys.executable).with_name(program)), *sources, what, *options],
            cwd=self.folder,
            env={
                "HOME": str(self.folder),
                "PATH": "/usr/bin:/bin",
                "LC_ALL": "C.UTF-8",
                "VGPUMGR_STORE": self.lab.env["VGPUMGR_STORE"],
                "ANSIBLE_COLLECTIONS_PATH": str(collections or self.collections),
                "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callbacks")),
                "ANSIBLE_CALLBACKS_ENABLED": "results_to_file",
                "ANSIBLE_FORKS": "6",
                "RESULTS_FILE": str(results),
                **env,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        told = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
        rows = [json.loads(line) for line in told]
        return Ran(
            code=done.returncode,
            out=done.stdout + done.stderr,
            results=tuple(
                {**row["result"], "failed": row["kind"] == "failed"} for row in rows if row["kind"] != "stats"
            ),
            stats=next((row["stats"] for row in rows if row["kind"] == "stats"), {}),
        )


def link_collection(folder: Path) -> Path:
    """A collections path with the checkout's own collection in it."""
    (folder / "ansible_collections" / "vgpumgr").mkdir(parents=True)
    (folder / "ansible_collections" / "vgpumgr" / "kvm").symlink_to(ROOT / "ansible")
    return folder
