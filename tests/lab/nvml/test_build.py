"""Compiling the mock: cached by content, and what is missing is named."""

from __future__ import annotations

import importlib.metadata
import subprocess
from typing import TYPE_CHECKING

import pytest

from vgpumgr.errors import LabError
from vgpumgr.lab import extra
from vgpumgr.lab.nvml.build import LIBRARY, build, find_header

if TYPE_CHECKING:
    from pathlib import Path


def symbols(library: Path) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in listed.splitlines()}


def test_the_library_exports_nvml_and_nothing_else(library: Path) -> None:
    """All of them declared by nvml.h, so their prototypes are NVIDIA's."""
    declared = find_header().read_text(encoding="utf-8")
    assert {name for name in symbols(library) if f"{name}(" not in declared} == set()
    assert {"nvmlInit_v2", "nvmlDeviceGetActiveVgpus", "nvmlVgpuInstanceGetVmID"} <= symbols(library)


def test_the_same_sources_are_compiled_once_and_other_flags_apart(tmp_path: Path) -> None:
    first = build(tmp_path, extra_flags=("-O0",))
    written = first.stat().st_mtime_ns
    assert build(tmp_path, extra_flags=("-O0",)) == first
    assert first.stat().st_mtime_ns == written
    assert build(tmp_path, extra_flags=("-O0", "-DOTHER")) != first


def test_a_missing_compiler_is_named_with_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no C compiler 'no-such-cc'") as caught:
        build(tmp_path, compiler="no-such-cc")
    assert caught.value.hint is not None
    assert "gcc" in caught.value.hint


def test_a_missing_header_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "files", absent)
    with pytest.raises(LabError, match="nvidia-nvml-dev") as caught:
        build(tmp_path)
    assert caught.value.hint == extra.install_command()


def test_what_does_not_compile_shows_the_compilers_words_and_leaves_no_library(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="does not compile") as caught:
        build(tmp_path, extra_flags=("-include", "no-such-header.h"))
    assert any("no-such-header.h" in line for line in caught.value.details)
    assert list(tmp_path.rglob(LIBRARY)) == []
