"""Errors as they are printed under one another: each with its host and what of it, whatever its class is made of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from vgpumgr import errors
from vgpumgr.cli import output
from vgpumgr.cli.settings import Settings

if TYPE_CHECKING:
    from vgpumgr.errors import VgpumgrError

ERRORS = [
    errors.SysfsRefused("kvm01", "refused", path="/sys/create", errno_name="EIO"),
    errors.NvmlRefused("kvm01", "refused", function="nvmlInit", code=9),
    errors.HypervisorError("kvm01", "refused", code=1),
    errors.Unreachable("kvm01", "tcp", "refused"),
    errors.NoCapacity("refused"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_any_class_is_told_with_its_host_once_and_what_of_it(
    error: VgpumgrError, capsys: pytest.CaptureFixture[str]
) -> None:
    output.print_error(Settings(), error, about=("kvm01", "vm05 vgpu0"))
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith("error: kvm01: vm05 vgpu0: ")
    assert said.endswith("refused")
    assert said.count("kvm01") == 1
    output.print_error(Settings(log_format="json"), error, about=("kvm01", "vm05 vgpu0"))
    line = json.loads(capsys.readouterr().err)
    assert (f"error: {line['message']}", line["host"]) == (said, "kvm01")
