"""The wheel in a clean environment, without the repository: the README's tour, and the documentation, templates and completion that it needs."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from typing import TYPE_CHECKING

import pytest

from tests.pages import reading, running, verdict

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.lab, pytest.mark.timeout(2 * running.LONGEST_S)]


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """The programs of an environment that has the wheel, and what it depends on at the versions of the lock file."""
    wheels, environment = tmp_path / "dist", tmp_path / "environment"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [
        *pip,
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(wheels),
        str(running.CHECKOUT),
    ]
    subprocess.run(build, check=True, timeout=running.LONGEST_S)
    (wheel,) = wheels.glob("vgpumgr-*.whl")
    locked = re.findall(
        r"^([\w.-]+==\S+)", (running.CHECKOUT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE
    )
    pinned = tmp_path / "pinned.txt"
    pinned.write_text("\n".join(locked), encoding="utf-8")
    venv.create(environment, with_pip=False)
    into = [
        *pip,
        "--python",
        str(environment / "bin/python"),
        "install",
        "--quiet",
        "--no-compile",
        "--constraint",
        str(pinned),
    ]
    subprocess.run([*into, f"vgpumgr[lab] @ file://{wheel}"], check=True, timeout=running.LONGEST_S)
    return environment / "bin"


def test_the_tour_is_the_same(clean: Path, tmp_path: Path) -> None:
    asked = subprocess.run(
        [clean / "python", "-c", "import vgpumgr; print(vgpumgr.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert asked.stdout.startswith(str(tmp_path))
    ran = running.run(reading.blocks(running.CHECKOUT / "README.md"), tmp_path / "tour", programs=clean)
    assert len(ran) > 20
    wrong = verdict.complaints("README.md", ran)
    assert not wrong, "\n\n".join(wrong)
    for command in (["docs", "stories"], ["completion", "bash"], ["version", "-o", "json"]):
        subprocess.run([clean / "vgpumgr", *command], check=True, capture_output=True, timeout=60, cwd=tmp_path)
