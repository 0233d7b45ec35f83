"""The one deadly act: nothing is taken away while anything can hold it, seen or not; what ends by itself is told as NotYet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import (
    GPU_A,
    HARDWARE,
    MDEV_VF,
    OTHER_MDEV,
    OTHER_VM,
    VENDOR,
    VM,
    host_with_vgpu,
    locked,
    make_destroy,
    make_entry,
    make_evacuate,
    make_step,
    no_nvml,
)
from tests.unit.host.fakenvml import FakeNvml
from vgpumgr.host.facts.qemu import is_machine_of
from vgpumgr.host.files import Root
from vgpumgr.host.steps.guard import RemovalGuard, matched
from vgpumgr.host.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vgpumgr.host.protocol.snapshot import HandleFact

each_hardware = pytest.mark.parametrize("framework", HARDWARE)
QEMU = ("/usr/bin/qemu-system-x86_64", "-name", "guest=vm01,debug-threads=on", "-uuid", VM)
OTHER_QEMU = ("qemu", "-name", "guest=vm02", "-uuid", OTHER_VM)
LONG_AGO = 3600.0
SETTLE_S = Timing().settle_s


class Clock:
    """Time that passes only where somebody waits for it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.paused: list[float] = []

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)
        self.now += seconds


class Bench:
    """A host with vm01's vGPU, its VM off for an hour, and a locked host program with a clock of ours."""

    def __init__(self, root: Path, framework: str = MDEV_VF, nvml: Callable[[], Any] = no_nvml) -> None:
        self.host = host_with_vgpu(root, framework)
        self.framework = framework
        self.host.ended("vm01", LONG_AGO)
        self.clock = Clock()
        self.since: float | None = None
        guard = RemovalGuard(
            Root(root), nvml, timing=Timing(), clock=self.clock, wall=self._wall, pause=self.clock.pause
        )
        self.asker = locked(self.host, nvml=nvml, write=self._write, guard=guard)

    def _wall(self) -> float:
        """The host's time: `since` seconds after vm01 ended, if that is said."""
        if self.since is None:
            return time.time()
        return self.host.path("/var/log/libvirt/qemu/vm01.log").stat().st_mtime + self.since

    def _write(self, path: str, data: bytes) -> None:
        raise OSError(5, "nothing may be written here")

    def add_plugin(self, pid: int, *, start: int = 1000, number: int = 0) -> None:
        node = f"/dev/nvidia-vgpu{number}"
        self.host.add_process(pid, node, command=("nvidia-vgpu-mgr",), name="nvidia-vgpu-mgr", start=start)

    def refusal(self, **step: Any) -> dict[str, Any]:
        """Of a destroy; nothing was written, in the ledger neither. `step` replaces keys."""
        before = self.host.tree()
        error: dict[str, Any] = self.asker.execute(make_destroy(self.framework, **step))["err"]
        assert self.host.tree() == before
        return error

    def waits_for(self, **step: Any) -> str:
        error = self.refusal(**step)
        assert (error["kind"], error["vm"]) == ("NotYet", "vm01"), error
        return "; ".join(error["waits_for"])

    def is_written(self, **step: Any) -> bool:
        error = self.asker.execute(make_destroy(self.framework, **step))["err"]
        assert error["kind"] in ("NotYet", "SysfsRefused"), error
        return bool(error["kind"] == "SysfsRefused")


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    return lambda *framework, **more: Bench(tmp_path, *framework, **more)


@pytest.fixture
def there(bench: Callable[..., Bench]) -> Bench:
    """Its vGPU is an mdev of a VF."""
    return bench()


@each_hardware
def test_a_vm_that_is_off_for_long_costs_no_wait(bench: Callable[..., Bench], framework: str) -> None:
    there = bench(framework)
    assert there.is_written()
    assert there.clock.paused == []


def test_an_evacuation_waits_for_the_same(there: Bench) -> None:
    there.since = 1.0
    refusal = there.asker.execute(make_evacuate(MDEV_VF))["err"]
    assert (refusal["kind"], "vm01 ended 1 s ago" in refusal["waits_for"][0]) == ("NotYet", True)


@each_hardware
@pytest.mark.parametrize("how", ["ending", "without descriptors", "first thread gone"])
def test_a_qemu_of_the_vm_that_is_ending_is_waited_for_though_no_descriptor_shows(
    bench: Callable[..., Bench], framework: str, how: str
) -> None:
    there = bench(framework)
    scope = r"/machine.slice/machine-qemu\x2d3\x2dvm01.scope"
    if how == "ending":
        there.host.add_process(41, command=(), state="D", ending=True, group=scope)
    else:
        there.host.add_process(41, command=QEMU, state="D" if how == "without descriptors" else "Z")
    if how == "first thread gone":
        there.host.put("/proc/41/task/42/stat", "42 (CPU 0/KVM) D " + " ".join(["0"] * 18) + " 9 0")
        there.host.put("/proc/41/cgroup", f"0::{scope}")
    assert "pid 41" in there.waits_for()
    there.host.end_process(41)
    there.clock.now += SETTLE_S
    assert there.is_written()


@each_hardware
def test_a_handle_of_a_qemu_that_is_ending_passes_and_any_other_lasts(
    bench: Callable[..., Bench], framework: str
) -> None:
    there = bench(framework)
    node = "/dev/vfio/650" if framework == VENDOR else "/dev/vfio/77"
    there.host.add_process(41, node, command=QEMU, ending=True)
    assert "open by pid 41" in there.waits_for()
    there.host.end_process(41)
    there.host.add_process(42, node, command=QEMU)
    assert there.refusal()["kind"] == "InUse"


@pytest.mark.parametrize("runs", [False, True])
def test_an_ending_qemu_counts_whosever_it_is_and_anothers_that_runs_does_not(there: Bench, runs: bool) -> None:
    """A copy of the definition may have had the vGPU a moment ago, and what an ending QEMU had cannot be seen."""
    there.host.add_process(43, "/dev/kvm", command=OTHER_QEMU)
    there.host.add_process(41, command=(), state="D", ending=True)
    assert "of an unknown VM" in there.waits_for(runs=runs)
    there.host.end_process(41)
    there.host.add_process(42, command=(), state="D", ending=True, group="/machine/qemu-4-vm02.libvirt-qemu")
    assert "of another VM, which may have had it, has not ended (pid 42" in there.waits_for(runs=runs)
    there.host.end_process(42)
    there.clock.now += SETTLE_S
    assert there.is_written(runs=runs)


def test_a_vm_that_runs_without_this_vgpu_is_told_by_its_descriptors(there: Bench) -> None:
    there.host.add_process(41, "/dev/kvm", command=QEMU)
    assert "pid 41" in there.waits_for()
    there.clock.now += SETTLE_S
    assert there.is_written(runs=True)
    there.host.add_process(42, command=(), state="D", ending=True, group="/machine/qemu-4-vm01.libvirt-qemu")
    assert "pid 42" in there.waits_for(runs=True)


@pytest.mark.parametrize("start", [1000, pytest.param(10**9, id="begun after the VM's end")])
def test_a_plugin_that_outlives_its_vm_is_waited_for_whenever_it_began(there: Bench, start: int) -> None:
    """A copy of the VM may have run with the vGPU since: whose plugin it is cannot be told."""
    there.add_plugin(50, start=start)
    assert "the vGPU plugin of a VM that ended has /dev/nvidia-vgpu0 open (pid 50" in there.waits_for()
    there.host.end_process(50)
    there.clock.now += SETTLE_S
    assert there.is_written()


@each_hardware
def test_the_plugin_of_a_vm_that_runs_is_no_reason_to_wait(bench: Callable[..., Bench], framework: str) -> None:
    there = bench(framework)
    other = make_step(framework, vf=1, uuid=OTHER_MDEV)
    if framework == VENDOR:
        there.host.make_vgpu(other["parent"], 560, None)
        node = "/dev/vfio/651"
    else:
        there.host.make_mdev(other["parent"], 560, OTHER_MDEV, group=78)
        node = "/dev/vfio/78"
    there.host.add_process(60, node, command=OTHER_QEMU, start=500)
    there.add_plugin(61, start=510, number=1)
    assert there.is_written()
    there.add_plugin(50, start=400)
    assert "the vGPU plugin of a VM that ended" in there.waits_for()


def test_an_mdev_of_another_vendor_that_is_in_use_explains_no_plugin(there: Bench) -> None:
    there.host.put("/sys/devices/pci0000:00/0000:00:02.0/vendor", "0x8086")
    there.host.make_mdev("0000:00:02.0", 1, OTHER_MDEV, group=78)
    there.host.add_process(60, "/dev/vfio/78", command=OTHER_QEMU, start=500)
    there.add_plugin(50, start=2000)
    assert "the vGPU plugin of a VM that ended" in there.waits_for()


@each_hardware
def test_a_virtual_function_that_is_passed_through_as_it_is_explains_no_plugin(
    bench: Callable[..., Bench], framework: str
) -> None:
    there = bench(framework)
    there.host.add_process(60, "/dev/vfio/651", command=OTHER_QEMU, start=500)
    there.add_plugin(50, start=2000)
    assert "the vGPU plugin of a VM that ended" in there.waits_for()


@each_hardware
def test_a_vm_that_ended_just_now_is_let_settle_on_mdev_alone(bench: Callable[..., Bench], framework: str) -> None:
    """On vendor-vfio the driver itself refuses, and nothing is lost."""
    there = bench(framework)
    there.since = 1.0
    if framework == VENDOR:
        assert there.is_written()
        return
    assert "vm01 ended 1 s ago" in there.waits_for()
    there.since = SETTLE_S
    assert there.is_written()


def test_from_the_last_that_was_seen_of_it_the_time_begins_anew(there: Bench) -> None:
    there.host.add_process(41, command=QEMU, state="D")
    there.waits_for()
    there.host.end_process(41)
    there.clock.now += SETTLE_S - 1
    assert "what may have held it ended 4 s ago" in there.waits_for()
    there.clock.now += 1
    assert there.is_written()


def test_what_was_seen_on_the_way_to_another_vms_vgpu_counts_as_well(there: Bench) -> None:
    there.host.add_process(42, command=(), state="D", ending=True, group="/machine/qemu-4-vm03.libvirt-qemu")
    there.host.ended("vm02", LONG_AGO)
    keys: dict[str, Any] = {
        "vf_index": 1,
        "parent": f"{GPU_A[:-1]}5",
        "uuid": OTHER_MDEV,
        "vm_uuid": OTHER_VM,
        "vm_name": "vm02",
    }
    there.host.make_mdev(keys["parent"], 560, OTHER_MDEV, group=78)
    there.host.put_ledger(make_entry(MDEV_VF), make_entry(MDEV_VF, **keys))
    assert there.refusal(**keys)["kind"] == "NotYet"
    there.host.end_process(42)
    there.clock.now += 1
    assert "what may have held it ended 1 s ago" in there.waits_for()


def test_where_nothing_tells_the_end_it_is_looked_at_twice(there: Bench) -> None:
    there.host.path("/var/log/libvirt/qemu/vm01.log").unlink()
    assert there.is_written()
    assert there.clock.paused == [Timing().recheck_s]


def test_what_nvml_listed_when_it_was_planned_must_have_left_its_list(bench: Callable[..., Bench]) -> None:
    nvml = FakeNvml(active=1)
    there = bench(nvml=lambda: nvml)
    assert "NVML lists it" in there.waits_for(listed=True)
    there.clock.now += SETTLE_S
    assert there.is_written()


@pytest.mark.parametrize(("vm", "waits"), [("", True), (OTHER_VM, False)])
def test_a_row_of_nvml_that_names_neither_device_nor_vm_counts(
    there: Bench, monkeypatch: pytest.MonkeyPatch, vm: str, waits: bool
) -> None:
    row = {"gpu": GPU_A, "uuid": None, "vf": None, "vm_uuid": vm or None, "vm_name": None}
    seen = {"active": [row], "silent": {}}
    monkeypatch.setattr("vgpumgr.host.steps.guard.observe", lambda *_, **__: seen)
    if waits:
        assert "NVML lists it as active for VM ?" in there.waits_for(listed=True)
    else:
        assert there.is_written(listed=True)


def handle(pid: int, start: int, path: str = "/dev/nvidia-vgpu0") -> HandleFact:
    return {"path": path, "pid": pid, "start": start, "command": "vgpu", "vm_name": None, "vm_uuid": None}


@pytest.mark.parametrize(
    ("plugins", "held", "count"),
    [
        ([], [5], 0),
        ([(1, 6)], [5], 1),
        ([(1, 4)], [5], 0),  # another VM starts, and has no plugin yet
        ([(1, 4), (2, 6)], [5], 1),
        ([(1, 6), (2, 7)], [5], 1),
        ([(1, 6), (2, 7)], [5, 5], 2),
        ([(1, 2), (1, 2)], [5, 6], 2),  # one process for several vGPUs
    ],
)
def test_a_plugin_belongs_to_a_vgpu_in_use_whose_qemu_began_before_it(
    plugins: list[tuple[int, int]], held: list[int], count: int
) -> None:
    rows = [handle(pid, start, f"/dev/nvidia-vgpu{at}") for at, (pid, start) in enumerate(plugins)]
    assert matched(rows, held) == count


@pytest.mark.parametrize(
    ("machine", "name", "same"),
    [
        ("qemu-3-vm01", "vm01", True),
        ("qemu-3-vm01", "vm1", False),
        ("qemu-3-vm01", "vm_01", True),
        ("qemu-12-a.b-c", "a.b-c", True),
        ("qemu-1-" + "x" * 57, "x" * 80, True),
        ("lxc-3-vm01", "vm01", False),
    ],
)
def test_libvirts_name_of_a_machine_leaves_out_what_it_cannot_have(machine: str, name: str, same: bool) -> None:
    assert is_machine_of(machine, name) is same
