"""Compiles the mock libnvidia-ml.so.1 with the machine's C compiler against NVIDIA's own nvml.h.

The header comes from the PyPI package nvidia-nvml-dev, so each exported function has the true prototype or does not
compile. The compiled library is kept in a folder named by the hash of all its inputs.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.errors import LabError
from vgpumgr.lab import extra

if TYPE_CHECKING:
    from collections.abc import Sequence

LIBRARY = "libnvidia-ml.so.1"
_HEADER_PACKAGE = "nvidia-nvml-dev"
_SOURCES = Path(__file__).parent / "mock"
_FLAGS = (
    *("-std=gnu11", "-shared", "-fPIC", "-pthread", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"),
    *(f"-Wl,-soname,{LIBRARY}", "-Wl,-z,defs"),
)
_COMPILE_S = 120


def build(directory: Path, *, compiler: str = "cc", extra_flags: Sequence[str] = ()) -> Path:
    """Compile the library below `directory` if it is missing; returns libnvidia-ml.so.1, which is alone in its folder.

    `extra_flags` is for sanitizers. Raises LabError naming what to install if the compiler or nvml.h is missing.
    """
    path = shutil.which(compiler)
    if path is None:
        raise LabError(
            f"no C compiler {compiler!r}: the lab compiles a mock {LIBRARY}",
            hint="apt-get install gcc libc6-dev",
        )
    header = find_header()
    sources = sorted(_SOURCES.iterdir())
    key = _key(path, (*sources, header), extra_flags)
    library = directory / f"nvml-{key}" / LIBRARY
    if not library.exists():
        _compile(path, [*_FLAGS, *extra_flags], sources, header, library)
    return library


def find_header() -> Path:
    """nvml.h of the installed nvidia-nvml-dev. Raises LabError."""
    try:
        files = importlib.metadata.files(_HEADER_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        path = Path(str(file.locate()))
        if file.name == "nvml.h" and path.is_file():
            return path
    raise LabError(
        f"no nvml.h: the Python package {_HEADER_PACKAGE} is not installed, or not completely",
        hint=extra.install_command(),
    )


def _key(compiler: str, files: Sequence[Path], extra_flags: Sequence[str]) -> str:
    """The key of a library: a hash of its sources and header, the flags, and the compiler."""
    version = subprocess.run([compiler, "--version"], check=False, capture_output=True, timeout=_COMPILE_S).stdout
    digest = hashlib.sha256()
    for part in (version, "\0".join([*_FLAGS, *extra_flags]).encode(), *(file.read_bytes() for file in files)):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:16]


def _compile(compiler: str, flags: Sequence[str], sources: Sequence[Path], header: Path, library: Path) -> None:
    """Compile to a temporary file and move it into place, so that parallel or killed builds do no harm."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent.parent) as folder:
        product = Path(folder) / LIBRARY
        units = [str(source) for source in sources if source.suffix == ".c"]
        # -isystem: warnings are errors in our code, not in NVIDIA's header.
        argv = [compiler, *flags, "-isystem", str(header.parent), "-o", str(product), *units]
        try:
            process = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=_COMPILE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(f"the mock {LIBRARY} could not be compiled: {error}") from error
        if process.returncode != 0:
            raise LabError(
                f"the mock {LIBRARY} does not compile with {compiler}",
                hint="apt-get install gcc libc6-dev, and nvidia-nvml-dev of version 13 or later",
                details=process.stderr.splitlines()[:20],
            )
        os.replace(product, library)  # noqa: PTH105 -- what happens is one rename(2)
