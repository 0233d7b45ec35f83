"""Nights without false alarms: what the job of `install cron` ends with, and says, where nothing is wrong but a GPU is in use."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab_fixtures import ONE
from tests.unit.metrics.serving import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

DECLARED = """
vgpumgr_vms: {vm01: {vgpu0: {profile: 4Q}}, vm03: {vgpu0: {profile: 4Q}}}
"""
SCHEDULER = """
vgpumgr_gpus: {"0000:41:00.0": {scheduler: {policy: fixed-share, time_slice: 2ms}}}
"""
WAITS = "warning: kvm01: GPU 0000:41:00.0, declared fixed-share (host_vars/kvm01.yml:4), waits until its GPU is idle: "


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Iterator[Lab]:
    """vm01 and vm03 are declared and have their vGPUs, one on each GPU; vm01 then uses its own."""
    lab = lab_factory(ONE, shared=False)
    declare(lab, DECLARED)
    assert lab.run("reconcile", "--yes").returncode == 0
    assert lab.run("lab", "hold", "vm01").returncode == 0
    yield lab
    lab.down()


def declare(lab: Lab, text: str) -> None:
    file = lab.layout.inventory / "host_vars" / "kvm01.yml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


def night(lab: Lab, *options: str) -> tuple[int, str, str]:
    """What `install cron` prints now, run as cron would: exit code, stdout, stderr."""
    env = {**lab.env, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    argv = [*PROGRAM, "install", "cron", "--jitter", "0", *options]
    printed = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=600).stdout
    line = printed.splitlines()[-1].split(None, 6)[6].replace(r"\%", "%")
    bare = {"HOME": os.environ.get("HOME", "/root"), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "LOGNAME": "root"}
    done = subprocess.run(
        ["/bin/sh", "-c", line], env=bare, cwd="/", input="", capture_output=True, text=True, check=False, timeout=600
    )
    return done.returncode, done.stdout, done.stderr


def test_what_waits_for_a_gpu_in_use_is_one_line_of_a_night_that_ends_well_until_the_gpu_is_idle(lab: Lab) -> None:
    declare(lab, DECLARED + SCHEDULER)
    for options in ((), ("--plan-only",)):
        code, out, err = night(lab, *options)
        assert (code, out) == (0, "")
        assert err == f"{WAITS}the vGPU of vm01 is in use\n"
    strict = lab.run("plan", "--strict")
    assert strict.returncode == 5
    assert "the vGPU of vm01 is in use" in strict.stderr
    refused = lab.run(
        "scheduler", "set", "--on", "kvm01", "--gpu-id", "0000:41:00.0", "--policy", "fixed-share", "--yes"
    )
    assert refused.returncode == 5, "a person who asks for it now is told now"

    assert lab.run("lab", "stop", "vm01").returncode == 0
    assert night(lab)[0] == 0
    assert night(lab) == (0, "", "")


def test_a_night_with_a_declared_vm_that_is_not_there_serves_the_others_and_names_it(lab: Lab) -> None:
    """5, and not 2: nothing is wrong with the command. vm05 is new."""
    declare(lab, DECLARED.replace("{vm01:", "{vm05: {vgpu0: {profile: 4Q}}, vm77: {vgpu0: {profile: 4Q}}, vm01:"))
    code, _, err = night(lab)
    assert code == 5
    assert "kvm01 has no VM 'vm77' (host_vars/kvm01.yml:2)" in err
    assert "vm05" not in err
    assert "vm05" in lab.run("list", "-o", "name").stdout
