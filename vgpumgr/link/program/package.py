"""The host program as it is sent: one compressed zip of its modules, each as source and compiled by this Python.

zipimport looks for NAME.pyc before NAME.py, and takes the source if the compiled module is for another Python (by its
magic number; CPython 3.9 to 3.13). So a host with the controller's Python compiles nothing; compiling is most of the
cost of a start. Only our own source and NVIDIA's NVML binding (nvml_cut.py) are compiled, nothing that a host sent. A
far host gets only the sources, a third of the size: each doubling of a new connection's window costs a round trip.

Making the zip takes 0.25 s, so it is kept in Python's __pycache__, and made again when a source or this Python
changes. A controller that cannot write there, or must not (PYTHONDONTWRITEBYTECODE), sends only the sources.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import subprocess
import sys
import tempfile
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

from vgpumgr import resources
from vgpumgr.link.program import nvml_cut

_MAKE_S = 60.0
_BEGINS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_DIGEST_BYTES = hashlib.sha256().digest_size
_SIZE_BYTES = 8


class Packages(NamedTuple):
    """The compressed zips for a host that is near, and for one that is far."""

    near: bytes
    far: bytes


def read_or_make() -> Packages:
    """Return the stored packages, or make and store them. If neither is possible: packages with the sources only.

    Raises ConfigError without pynvml.
    """
    ours, binding = resources.host_sources(), nvml_cut.source()
    made_of = {**ours, nvml_cut.BINDING: binding}
    # The archive's name says for which Python it is; its digest shows whether it is complete and from these sources.
    archive = Path(importlib.util.cache_from_source(str(Path(__file__).with_name("vgpumgr_host.py")))).with_suffix(
        ".zip"
    )
    with contextlib.suppress(OSError):
        whole = archive.read_bytes()
        if whole[:_DIGEST_BYTES] == _digest(made_of, data := whole[_DIGEST_BYTES:]):
            size = int.from_bytes(data[:_SIZE_BYTES])
            return Packages(data[_SIZE_BYTES : _SIZE_BYTES + size], data[_SIZE_BYTES + size :])
    sources = {**ours, nvml_cut.BINDING: nvml_cut.cut(binding, ours.values())}
    if sys.dont_write_bytecode or not sys.executable:
        return _plain(sources)
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        # In that folder: a rename must not cross file systems, and nothing is made that cannot be kept.
        with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
            packages = make(sources, Path(folder))
            data = len(packages.near).to_bytes(_SIZE_BYTES) + packages.near + packages.far
            new = Path(folder) / archive.name
            new.write_bytes(_digest(made_of, data) + data)
            new.rename(archive)
    except (OSError, subprocess.SubprocessError):
        return _plain(sources)
    return packages


def _plain(sources: dict[str, bytes]) -> Packages:
    data = pack(sources, level=6)
    return Packages(data, data)


def make(sources: dict[str, bytes], folder: Path) -> Packages:
    """Make the packages, by way of files in `folder`. Raises OSError, SubprocessError."""
    plain = {name: without_comments(source) for name, source in sources.items()}
    for name, source in plain.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(source)
    # A separate Python compiles: only its start option leaves out each instruction's columns, a third of the size.
    # Lines stay, for tracebacks; the files' hashes are not checked (PEP 552), so that no date matters.
    options = ("-q", "-b", "-o", "2", "--invalidation-mode", "unchecked-hash", "-s", str(folder))
    command = [sys.executable, "-I", "-X", "no_debug_ranges", "-m", "compileall", *options, str(folder)]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=_MAKE_S)
    binaries = {f"{name}c": (folder / f"{name}c").read_bytes() for name in plain}
    return Packages(near=pack({**plain, **binaries}, level=9), far=pack(plain, level=9))


def pack(files: dict[str, bytes], *, level: int) -> bytes:
    """A zip of these files, compressed as a whole, since they are alike. The same files give the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), data)  # an explicit ZipInfo has a fixed date
    return zlib.compress(out.getvalue(), level)


def without_comments(source: bytes) -> bytes:
    """The module without comments and docstrings, indented by one blank instead of four. Line numbers stay."""
    text = source.decode()
    lines = text.split("\n")
    previous = tokenize.NEWLINE
    within: set[int] = set()  # the lines that begin inside a string
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        (row, column), (last, end) = token.start, token.end
        if token.type == tokenize.COMMENT:
            lines[row - 1] = lines[row - 1][:column].rstrip()
        elif token.type == tokenize.STRING and previous in _BEGINS and not lines[last - 1][end:].strip():
            lines[row - 1 : last] = [lines[row - 1][:column] + "0", *[""] * (last - row)]  # a statement still
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            previous = token.type
        if token.string:
            within.update(range(row, last))
    return "\n".join(line if at in within else _indented(line) for at, line in enumerate(lines)).encode()


def _indented(line: str) -> str:
    code = line.lstrip(" ")
    return " " * ((len(line) - len(code)) // 4) + code


def _digest(sources: dict[str, bytes], data: bytes) -> bytes:
    """A hash of the data, of its sources, and of what made it: this module and this Python."""
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for part in (Path(__file__).read_bytes(), *(each for pair in sorted(sources.items()) for each in pair), data):
        raw = part.encode() if isinstance(part, str) else part
        digest.update(b"%d " % len(raw) + raw)
    return digest.digest()
