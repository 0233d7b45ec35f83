"""What is sent to hosts: the sources and what this Python made of them, and nothing else."""

from __future__ import annotations

import ast
import functools
import importlib.util
import io
import os
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vgpumgr import resources
from vgpumgr.link.program import nvml_cut, package

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.link.program.package import Packages

OURS = resources.host_sources()
NAMES = (*OURS, nvml_cut.BINDING)
ONE = "vgpumgr_host/refusal.py"
NVIDIAS = b"class NVMLError(Exception): pass\ndef _nvmlGetFunctionPointer(name): pass\n"
FEW = {ONE: OURS[ONE], nvml_cut.BINDING: b""}  # which names nothing of NVIDIA's
_COMPILED = """
import sys, zipimport
sys.path.insert(0, sys.argv[1])
compiled = []
compile_source = zipimport._compile_source
zipimport._compile_source = lambda path, source: compiled.append(path) or compile_source(path, source)
import vgpumgr_host.program, vgpumgr_host.server
print(len(compiled))
"""


@functools.cache
def sources() -> dict[str, bytes]:
    """By name. Not made where this file is imported, which each worker does."""
    return {**OURS, nvml_cut.BINDING: nvml_cut.cut(nvml_cut.source(), OURS.values())}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    return package.make(sources(), tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def made(both: Packages) -> bytes:
    """For a host that is near."""
    return both.near


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where the package is kept, still empty. Its few sources compile quickly."""
    monkeypatch.setattr(resources, "host_sources", lambda: {ONE: FEW[ONE]})
    monkeypatch.setattr(nvml_cut, "source", lambda: NVIDIAS)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = importlib.util.cache_from_source(str(Path(package.__file__).with_name("vgpumgr_host.py")))
    return Path(path).with_suffix(".zip")


def unpack(data: bytes) -> dict[str, bytes]:
    archive = zipfile.ZipFile(io.BytesIO(zlib.decompress(data)))
    return {name: archive.read(name) for name in archive.namelist()}


def start(data: bytes, folder: Path, code: str = _COMPILED) -> str:
    """What a Python prints that imports the program from it."""
    path = folder / "sent.zip"
    path.write_bytes(zlib.decompress(data))
    done = subprocess.run([sys.executable, "-I", "-c", code, str(path)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_it_holds_the_host_program_as_source_and_compiled_and_nothing_else(made: bytes) -> None:
    files = unpack(made)
    assert "vgpumgr_host/program.py" in files
    assert set(files) == set(NAMES) | {f"{name}c" for name in NAMES}
    unchecked_hash = (1).to_bytes(4, "little")
    assert {data[:8] for name, data in files.items() if name.endswith("c")} == {
        importlib.util.MAGIC_NUMBER + unchecked_hash
    }


def test_a_far_host_is_sent_the_sources_alone(both: Packages) -> None:
    assert set(unpack(both.far)) == set(NAMES)
    assert len(both.far) < 95_000 < len(both.near)


def test_the_same_sources_make_the_same_bytes(both: Packages, tmp_path: Path) -> None:
    assert package.make(sources(), tmp_path) == both


def test_a_host_with_this_python_compiles_nothing(made: bytes, tmp_path: Path) -> None:
    assert start(made, tmp_path) == "0\n"


def test_a_host_with_another_python_compiles_the_sources(made: bytes, tmp_path: Path) -> None:
    files = unpack(made)
    other = bytes([importlib.util.MAGIC_NUMBER[0] ^ 1]) + importlib.util.MAGIC_NUMBER[1:]
    forged = {name: other + data[4:] if name.endswith("c") else data for name, data in files.items()}
    assert int(start(package.pack(forged, level=1), tmp_path)) > 20


@pytest.mark.parametrize("compiled", [True, False])
def test_a_traceback_names_file_and_line(made: bytes, tmp_path: Path, *, compiled: bool) -> None:
    files = {name: data for name, data in unpack(made).items() if compiled or name.endswith(".py")}
    code = "import sys; sys.path.insert(0, sys.argv[1]); from vgpumgr_host.files import Root; Root(7)"
    said = start(package.pack(files, level=1), tmp_path, code)
    lines = OURS["vgpumgr_host/files.py"].decode().split("\n")
    line = next(number for number, text in enumerate(lines, 1) if "os.fspath(top)" in text)
    assert f'vgpumgr_host/files.py", line {line}, in __init__' in said


@pytest.mark.parametrize("name", NAMES)
def test_without_its_comments_a_module_is_the_same_line_by_line(name: str) -> None:
    source = sources()[name]
    sent = package.without_comments(source)
    assert sent.count(b"\n") == source.count(b"\n")
    assert statements(sent) == statements(source)
    assert b"#" not in sent or len(sent) < len(source)


def statements(source: bytes) -> tuple[str, list[int]]:
    """The module's statements, and the lines of all their parts, without those that only say something, and no columns."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if hasattr(node, "body") and isinstance(node.body, list):
            node.body = [
                each
                for each in node.body
                if not isinstance(getattr(each, "value", None), ast.Constant) or not isinstance(each, ast.Expr)
            ]
    return ast.dump(tree), [getattr(node, "lineno", 0) for node in ast.walk(tree)]


def test_a_comment_ends_a_docstring_is_nothing_code_is_indented_by_less_and_other_strings_stay() -> None:
    source = '"""Says."""\n\nX = "# no"  # yes\n\n\ndef f():\n    """Two\n    lines."""\n    return """a\n    # b"""\n'
    sent = '0\n\nX = "# no"\n\n\ndef f():\n 0\n\n return """a\n    # b"""\n'
    assert package.without_comments(source.encode()).decode() == sent


def test_no_assert_of_the_host_program_is_lost_by_compiling() -> None:
    found = [
        name
        for name, source in sources().items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assert)
    ]
    assert found == []


def test_it_is_made_once_and_kept(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = package.read_or_make()
    assert set(unpack(made.near)) == {name + form for name in FEW for form in ("", "c")}
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    monkeypatch.setattr(package, "make", None)
    assert package.read_or_make() == made


@pytest.mark.parametrize(
    "damage", [lambda whole: b"", lambda whole: whole[:-1], lambda whole: whole[:40] + b"?" + whole[41:]]
)
def test_what_is_kept_but_not_whole_is_made_again(kept: Path, damage: Callable[[bytes], bytes]) -> None:
    made = package.read_or_make()
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))
    assert package.read_or_make() == made
    assert kept.read_bytes() == whole


@pytest.mark.usefixtures("kept")
def test_another_source_is_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package.read_or_make()
    monkeypatch.setattr(resources, "host_sources", lambda: {ONE: FEW[ONE] + b"\nX = 1\n"})
    assert b"X = 1" in unpack(package.read_or_make().near)[ONE]
    monkeypatch.setattr(resources, "host_sources", lambda: {ONE: b"NVMLError"})
    monkeypatch.setattr(nvml_cut, "source", lambda: NVIDIAS.replace(b"Exception", b"ValueError"))
    assert b"ValueError" in unpack(package.read_or_make().near)[nvml_cut.BINDING]


def test_where_nothing_can_be_kept_the_sources_are_sent(kept: Path) -> None:
    kept.parent.parent.mkdir(parents=True)
    kept.parent.write_text("a file where the folder would be")
    assert [unpack(data) for data in package.read_or_make()] == [FEW, FEW]


def test_where_nothing_can_be_compiled_the_sources_are_sent(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", os.devnull)
    assert [unpack(data) for data in package.read_or_make()] == [FEW, FEW]
    assert not kept.exists()


def test_a_controller_that_must_not_write_compiled_files_sends_the_sources(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever forbids them (PYTHONDONTWRITEBYTECODE, python -B) means this one, too."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert unpack(package.read_or_make().near) == FEW
    assert not kept.parent.exists()
