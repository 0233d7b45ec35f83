"""What is shipped: the wheel carries the templates, the catalogue and the host program; libraries come without what nobody needs."""

from __future__ import annotations

import json  # noqa: F401 -- to be there already
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from vgpumgr.lean_imports import lean_imports

_IMPORTED = """
import sys
from vgpumgr.lean_imports import lean_imports
with lean_imports("invoke"):
    import paramiko, tabulate
print("invoke" in sys.modules, "importlib.metadata" in sys.modules, "email" in sys.modules)
import importlib.metadata, invoke
print(invoke.__name__, importlib.metadata.version("paramiko") == "unknown", importlib.metadata.version("tabulate") == "unknown")
"""


def test_a_library_comes_alone_and_the_rest_can_still_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTED], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False", "False", "invoke", "False", "False"]


def test_a_module_that_is_there_already_stays() -> None:
    import importlib.metadata as real

    with lean_imports("json"):
        assert sys.modules["importlib.metadata"] is real
        assert sys.modules["json"] is not None


ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=120,
    )
    return next(folder.glob("vgpumgr-*.whl"))


def test_the_wheel_renders_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, the package finds its templates, its catalogue and the host program's source."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    program = (
        "from vgpumgr import resources, templates; from vgpumgr.core.model import domain_xml, vgpu\n"
        "print(resources.__file__)\n"
        "print(templates.render_hostdev(domain_xml.Hostdev(source=vgpu.Vf('0000:41:00.4'), alias='ua-a', managed=False)))\n"
        "print(resources.pages()['exit-codes'].startswith('# Exit codes'))\n"
        "print(len(resources.catalogue_text()) > 10000, 'vgpumgr_host/program.py' in resources.host_sources())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith(str(tmp_path))
    assert "<address domain='0x0000' bus='0x41' slot='0x00' function='0x4'/>" in done.stdout
    assert done.stdout.rstrip().endswith("True\nTrue True")


def test_the_wheel_holds_no_tests_and_no_tools(wheel: Path) -> None:
    """Only the package itself, its data and the metadata are shipped."""
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"vgpumgr"}
