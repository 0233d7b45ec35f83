"""Hosts are sent as much of NVIDIA's binding as the host program uses, and that works alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from vgpumgr import resources
from vgpumgr.errors import ConfigError
from vgpumgr.link.program import nvml_cut

if TYPE_CHECKING:
    from pathlib import Path

OURS = resources.host_sources()


@pytest.fixture(scope="module")
def part() -> bytes:
    return nvml_cut.cut(nvml_cut.source(), OURS.values())


def test_it_is_a_small_part_for_the_pythons_of_hosts(part: bytes) -> None:
    ast.parse(part, feature_version=(3, 9))
    assert len(part) < len(nvml_cut.source()) / 8
    assert b"NVIDIA Corporation.  All rights reserved." in part


def test_alone_it_answers_as_the_whole_does(part: bytes, tmp_path: Path) -> None:
    """In a Python without any other package: its calls, its errors and their texts, without a driver."""
    (tmp_path / "part.py").write_bytes(part)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import part\n"
        "for call in part.nvmlInit, lambda: part.nvmlDeviceGetName(part.c_nvmlDevice_t()):\n"
        "    try: call()\n"
        "    except part.NVMLError as error: print(error.value, error)\n"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"LD_LIBRARY_PATH": ""})
    assert done.stdout.splitlines() == ["12 NVML Shared Library Not Found", "1 Uninitialized"], done.stderr


def test_what_a_name_needs_comes_with_it_in_order_and_nothing_else() -> None:
    binding = b"""
from ctypes import *
import os, sys
ONE = 1
TWO = ONE + 1
def unused(): return os
@decorated
def first(): return TWO
def decorated(function): return function
class NVMLError(Exception): pass
def _nvmlGetFunctionPointer(name): raise NVMLError
"""
    assert nvml_cut.cut(binding, [b"nvml.first"]).decode().split("\n") == [
        "from ctypes import *",
        "ONE = 1",
        "TWO = ONE + 1",
        "@decorated",
        "def first(): return TWO",
        "def decorated(function): return function",
        "",
    ]


def test_what_the_host_program_has_itself_is_not_taken() -> None:
    binding = b"def mended(): pass\nclass NVMLError(Exception): pass\ndef _nvmlGetFunctionPointer(name): pass\n"
    assert (
        nvml_cut.cut(binding, [b"def mended(): raise NVMLError", b"nvml.mended()"])
        == b"class NVMLError(Exception): pass\n"
    )


def test_another_package_of_that_name_is_named() -> None:
    with pytest.raises(ConfigError, match="is not NVIDIA's binding"):
        nvml_cut.cut(b"def something(): pass", [])
