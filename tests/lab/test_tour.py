"""The README's tour: its commands run in their order in one shell, as a reader runs them, and print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
MARK = "--- tour ---"
_LONGEST_S = 240
# What differs from run to run: how long it took, and the time of the measurement.
_VARIES = (
    (re.compile(r"\b\d+\.\d s\b"), "… s"),
    (re.compile(r"^percent of the whole GPU, .*$"), "percent of the whole GPU, …"),
    (re.compile(r"  \d+(\.\d+)?%( +[▁▂▃▄▅▆▇█ ]+)?$"), "  …"),  # the coverage, and the bars at their quarters of an hour
    (re.compile(r"\(pid \d+"), "(pid …"),
    (re.compile(r"open /dev/vfio/\d+|/dev/vfio/\d+ open"), "/dev/vfio/… open"),
)
_PROGRESS = ("reading ", "looking for ")  # on a terminal it is wiped

pytestmark = [pytest.mark.lab, pytest.mark.timeout(_LONGEST_S + 60)]


def tour(page: Path = README) -> list[tuple[str, list[str]]]:
    """Each command of the page's blocks that show what is printed, with the lines that it shows."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        if not block.startswith("$ "):
            continue
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def steady(lines: list[str]) -> list[str]:
    """Without what differs, and without blank lines at the end."""
    for pattern, text in _VARIES:
        lines = [pattern.sub(text, line) for line in lines]
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").split("\n")


def test_the_readmes_tour_is_what_it_shows(tmp_path: Path) -> None:
    steps = [
        (
            command.replace("/tmp/lab", str(tmp_path / "lab")).replace(
                "$PWD/.venv/bin", str(Path(sys.executable).parent)
            ),
            shown,
        )
        for command, shown in tour()
    ]
    assert len(steps) > 10
    assert steps[0][0].startswith("PATH=")
    script = tmp_path / "tour.sh"
    script.write_text("".join(f"echo '{MARK}'\n{command}\n" for command, _ in steps), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VGPUMGR_")}
    try:
        ran = subprocess.run(
            ["bash", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=_LONGEST_S,
            check=False,
        )
    finally:
        vgpumgr = Path(sys.executable).with_name("vgpumgr")
        subprocess.run([vgpumgr, "lab", "down", "--dir", tmp_path / "lab"], check=False, env=environment, timeout=60)
    printed = [part.splitlines()[1:] for part in ran.stdout.split(MARK)[1:]]
    for (command, shown), lines in zip(steps, printed, strict=True):
        told = [line for line in lines if not line.startswith(_PROGRESS)]
        assert steady(told) == steady(shown), command
