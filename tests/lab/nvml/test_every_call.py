"""No NVML call of the product is one that only a double has answered."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import vgpumgr.host
from tests.lab.driver.migs import cut
from tests.unit.host.fakehost import FakeHost
from vgpumgr.host.protocol.gpu import VENDOR_VFIO
from vgpumgr.lab.driver.boards import board
from vgpumgr.lab.driver.model import GuestDriver
from vgpumgr.lab.nvml.state import PATH_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.nvml.conftest import Host

REPOSITORY = Path(__file__).parents[3]
_CALL = re.compile(r"""(?:["']|\b(?:_nvml|library|nvml)\.)(nvml[A-Z]\w+)""")


def named_in_the_host_program() -> set[str]:
    """Apart from the questions of `host certify`: whether a driver answers those calls is what they ask."""
    folder = Path(vgpumgr.host.__file__).parent
    return {
        name
        for file in folder.rglob("*.py")
        if file.name != "nvml_binding.py" and file.parent.name != "certify"
        for name in _CALL.findall(file.read_text())
    }


def calls_on(host: Host, library: Path, folder: Path) -> dict[str, set[int]]:
    """Every NVML function that the host program calls on this simulated host, with its answers."""
    if host.gpu.mig_on:
        _divide(host)
    else:
        if host.gpu.framework == VENDOR_VFIO:
            host.driver.set_mixed(host.gpu.pci, mixed=True)  # places are asked for in that mode alone
        host.start_vm()
        host.driver.set_guest(host.vm_uuid, GuestDriver(version="570.133.20", license=5, expires_s=None))
    host.clock_us += 2_000_000  # so that there are samples of it
    state = folder / "state"
    state.write_text(host.text)
    gpus = [gpu.pci for gpu in host.gpus]
    root = FakeHost.build(folder / "root", gpus=tuple((gpu.pci, gpu.uuid) for gpu in host.gpus)).root
    done = subprocess.run(
        [sys.executable, "-m", "tests.lab.nvml.every_call", str(root), *gpus],
        cwd=REPOSITORY,
        env={**os.environ, PATH_VARIABLE: str(state), "LD_LIBRARY_PATH": str(library.parent)},
        check=True,
        capture_output=True,
        text=True,
    )
    return {name: set(codes) for name, codes in json.loads(done.stdout).items()}


def _divide(host: Host) -> None:
    """On kvm01 make a GPU instance with a running vGPU in it; on kvm02 have a board whose instances take several vGPUs."""
    if len(host.gpus) == 1:
        host.gpu.board = board("RTXPRO6000", "test")
        return
    host.gpu.links = (host.gpus[1].pci,)
    host.driver.set_vfs(host.gpus[1].pci, on=False)  # then its MIG mode may be set
    cut(host.driver, host.gpu, "1g.5gb")
    host.start_vm(short="1-5C")


def test_each_call_of_the_host_program_is_answered_by_the_mock_of_nvidias_header(
    make_host: Callable[..., Host], library: Path, tmp_path: Path
) -> None:
    answers: dict[str, set[int]] = {}
    for spec, of in (("mdev-vf", "kvm01"), ("vendor-vfio", "kvm01"), ("mig", "kvm01"), ("mig", "kvm02")):
        # R570 has the first scheduler calls, R595 those with _v2
        (tmp_path / spec / of).mkdir(parents=True)
        for name, codes in calls_on(make_host(spec, of), library, tmp_path / spec / of).items():
            answers.setdefault(name, set()).update(codes)
    named = named_in_the_host_program()
    assert len(named) > 20
    assert set(answers) == named
    assert {name for name, codes in answers.items() if 0 not in codes} == set()
