"""What is left of a VM after its stop, where a fault says so: plugins, and a QEMU that is still exiting."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.lab.machine.test_life import UUID, make_mdev
from tests.lab_fixtures import SMALL
from vgpumgr.errors import LabError
from vgpumgr.lab.machine.lingering import parse_fault
from vgpumgr.lab.machine.machine import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

LONG = "600"
HOST = "kvm01"
PF_EXITING = 0x4  # include/linux/sched.h
# One line per process: pid, state, name, command line, what it has open of a vGPU.
_PROCESSES = """cd /proc; for pid in [0-9]*; do
  echo "$pid $(cut -d' ' -f3 $pid/stat) $(cat $pid/comm) [$(tr '\\0' ' ' <$pid/cmdline)] $(
    readlink $pid/fd/* | grep -E '^/dev/(vfio/|nvidia-vgpu)' | sort | tr '\\n' ' ')"
done 2>/dev/null"""


@pytest.fixture(scope="module")
def own(lab_factory: LabFactory) -> Iterator[Lab]:
    with lab_factory.lend(SMALL, wiped=True) as lab:
        make_mdev(lab, "vm01")
        yield lab


@pytest.fixture(autouse=True)
def _cleared(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "own" in request.fixturenames:
        request.getfixturevalue("own").control(HOST, "clear")


def processes(lab: Lab, pattern: str) -> list[str]:
    """What those of that name (the first 15 letters of it) look like, without their pids."""
    rows = (line.partition(" ")[2].rstrip() for line in lab.must(HOST, _PROCESSES).splitlines())
    return sorted(row for row in rows if re.search(pattern, row))


def lost(lab: Lab) -> list[str]:
    found: list[str] = lab.control(HOST, "status")["lost"]
    return found


@pytest.mark.lab
def test_a_vm_that_runs_has_a_plugin_and_by_default_both_end_together(own: Lab) -> None:
    own.control(HOST, "hold", vm="vm01")
    (plugin,) = processes(own, "nvidia-vgpu-mgr")
    assert re.fullmatch(r"S nvidia-vgpu-mgr \[vgpu infinity \] /dev/nvidia-vgpu0", plugin)
    own.control(HOST, "release", vm="vm01")
    assert processes(own, "nvidia-vgpu-mgr|qemu-system") == []


@pytest.mark.lab
def test_slow_plugin_leaves_the_plugin_alone_with_the_vgpu(own: Lab) -> None:
    own.control(HOST, "fault", name=f"slow-plugin:{LONG}")
    own.control(HOST, "hold", vm="vm01")
    own.control(HOST, "release", vm="vm01")
    assert len(processes(own, "/dev/nvidia-vgpu0")) == 1
    assert processes(own, "qemu-system|/dev/vfio") == []
    assert "vm01" not in own.must(HOST, "nvidia-smi vgpu")
    own.control(HOST, "clear")
    assert processes(own, "nvidia-vgpu-mgr") == []
    assert own.must(HOST, "ls /dev").find("nvidia-vgpu") == -1


@pytest.mark.lab
def test_slow_exit_leaves_a_qemu_that_ends_and_seems_to_have_nothing(own: Lab) -> None:
    """A process that ends: its memory, and so its command line, is gone before its files are closed."""
    own.control(HOST, "fault", name=f"slow-exit:{LONG}")
    own.control(HOST, "hold", vm="vm01")
    own.control(HOST, "release", vm="vm01")
    wait_until(lambda: "[-name" not in "".join(processes(own, "qemu-system")), "the end of its memory", timeout=300)
    (qemu,) = processes(own, "qemu-system")
    assert re.fullmatch(r"[DSZ] qemu-system-x86 \[\]", qemu)  # Z: the first thread is done, another one closes
    threads = own.must(HOST, "cat /proc/$(pgrep qemu-system)/task/*/stat").splitlines()
    fields = [line.rpartition(") ")[2].split() for line in threads]
    assert all(int(flags) & PF_EXITING for _, *_, flags in (row[:7] for row in fields))
    assert any(state in "DS" for state, *_ in fields)
    assert processes(own, "/dev/vfio|nvidia-vgpu-mgr") == []
    assert "vm01" not in own.must(HOST, "nvidia-smi vgpu")
    with pytest.raises(LabError, match="busy"):
        own.control(HOST, "hold", vm="vm01")
    own.control(HOST, "clear")
    assert processes(own, "qemu-system") == []


@pytest.mark.lab
def test_a_plugin_that_outlives_a_slow_exit_has_its_vgpus_device_open_all_the_while(own: Lab) -> None:
    for kind in ("slow-exit", "slow-plugin"):
        own.control(HOST, "fault", name=f"{kind}:{LONG}")
    own.control(HOST, "hold", vm="vm01")
    (before,) = processes(own, "nvidia-vgpu-mgr")
    own.control(HOST, "release", vm="vm01")
    wait_until(lambda: "[-name" not in "".join(processes(own, "qemu-system")), "the end of its memory", timeout=300)
    assert before.endswith("/dev/nvidia-vgpu0")
    assert processes(own, "nvidia-vgpu-mgr") == [before]  # a device that was removed would be "(deleted)"
    assert own.must(HOST, "ls /dev/nvidia-vgpu0").strip() == "/dev/nvidia-vgpu0"


@pytest.mark.lab
def test_a_fault_lasts_as_long_as_it_says_and_a_second_one_takes_its_place(own: Lab) -> None:
    own.control(HOST, "fault", name=f"slow-plugin:{LONG}")
    own.control(HOST, "fault", name="slow-plugin:0.2")
    own.control(HOST, "fault", name="slow-exit:0.2")
    assert own.control(HOST, "status")["faults"] == ["slow-exit:0.2", "slow-plugin:0.2"]
    own.control(HOST, "hold", vm="vm01")
    own.control(HOST, "release", vm="vm01")
    wait_until(lambda: not processes(own, "qemu-system|nvidia-vgpu-mgr"), "the end of all", timeout=300)
    own.control(HOST, "clear")
    own.control(HOST, "hold", vm="vm01")
    own.control(HOST, "release", vm="vm01")


@pytest.mark.lab
def test_what_is_removed_while_a_plugin_lives_is_lost_until_a_reboot(own: Lab) -> None:
    """The write says success, 5 s later. The last test: the vGPU is gone."""
    own.control(HOST, "fault", name=f"slow-plugin:{LONG}")
    own.control(HOST, "hold", vm="vm01")
    own.control(HOST, "release", vm="vm01")
    own.must(HOST, f"echo 1 > /sys/bus/mdev/devices/{UUID}/remove")
    assert lost(own) == ["A40-4Q 0000:41:00.4"]
    own.control(HOST, "reboot")
    assert lost(own) == []
    assert processes(own, "nvidia-vgpu-mgr") == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("slow-plugin:4", ("slow-plugin", 4.0)),
        ("slow-exit:0.25", ("slow-exit", 0.25)),
        ("slow-exit", None),
        ("slow-exit:", None),
        ("slow-plugin:-1", None),
        ("slow-plugin:1e9", None),
        ("slow:4", None),
    ],
)
def test_a_slow_fault_has_a_number_of_seconds(name: str, meant: tuple[str, float] | None) -> None:
    assert parse_fault(name) == meant
