"""The collection as its users get it: built, and installed from the artifact, in a folder of its own."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "ansible"
BIN = Path(sys.executable).parent
HOME = ROOT / ".cache" / "collection"  # what ansible-test keeps: virtual environments, one for each of its tests
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """`artifact` is the tarball, `folder` where it is installed, below `paths`."""

    artifact: Path
    paths: Path

    @property
    def folder(self) -> Path:
        return self.paths / "ansible_collections" / "vgpumgr" / "kvm"


def run(
    *argv: str | Path, cwd: Path, paths: Path | None = None, offline: bool = True
) -> subprocess.CompletedProcess[str]:
    """One of Ansible's programs, with no setting of the person who runs the tests; offline in a namespace without a network."""
    env = {
        "HOME": str(HOME),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{BIN}:/usr/bin:/bin",  # no shims of a version manager, which ansible-test takes for Pythons
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_CERT_", "REQUESTS_CA_"))},
        **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")},
    }
    if paths is not None:
        env["ANSIBLE_COLLECTIONS_PATH"] = str(paths)
    HOME.mkdir(parents=True, exist_ok=True)
    prefix = ["unshare", "--net"] if offline else []
    return subprocess.run(
        [*prefix, str(BIN / argv[0]), *map(str, argv[1:])],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def must(*argv: str | Path, cwd: Path, paths: Path | None = None, offline: bool = True) -> str:
    """As run; it has to succeed. Its stdout."""
    done = run(*argv, cwd=cwd, paths=paths, offline=offline)
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(folder: Path) -> Built:
    must("ansible-galaxy", "collection", "build", SOURCE, "--output-path", folder, cwd=folder)
    (artifact,) = folder.glob("vgpumgr-kvm-*.tar.gz")
    return install(artifact, folder / "installed")


def install(artifact: Path, paths: Path) -> Built:
    must(
        "ansible-galaxy", "collection", "install", "--offline", "--no-deps", "-p", paths, artifact, cwd=artifact.parent
    )
    return Built(artifact=artifact, paths=paths)


def fill(built: Built) -> None:
    """Have ansible-test take what its tests want of PyPI, once for each version of it and of Python.

    pip itself it would fetch from a server of its own: Python's ensurepip stands in for that.
    """
    filled = HOME / f"filled-{importlib.metadata.version('ansible-core')}-{PYTHON}"
    if filled.exists():
        return
    bootstrap = HOME / ".ansible" / "test" / "cache" / "get_pip_24_2.py"
    bootstrap.parent.mkdir(parents=True, exist_ok=True)
    bootstrap.write_text("import ensurepip\n\nensurepip.bootstrap(upgrade=True, default_pip=True)\n", encoding="utf-8")
    must("ansible-test", "sanity", "--python", PYTHON, cwd=built.folder, offline=False)
    filled.touch()
