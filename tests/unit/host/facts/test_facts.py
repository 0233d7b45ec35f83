"""The snapshot: what is there, what is unknown and why, and nothing written."""

from __future__ import annotations

import os
import re
import shutil
import typing
from pathlib import Path
from typing import Any

import pytest

from tests.descriptors import opened
from tests.unit.host.fakehost import (
    BOOT,
    FRAMEWORKS,
    GPU_A,
    GPU_B,
    MDEV,
    MDEV_PF,
    MDEV_VF,
    TWO_GPUS,
    UUID_A,
    UUID_B,
    VENDOR,
    VM,
    Asker,
    FakeHost,
    make_entry,
    make_instance,
    make_record,
    make_step,
    no_nvml,
    observe,
    stat_line,
    why,
)
from tests.unit.host.fakenvml import FakeNvml
from vgpumgr.host.ledger.blocked_write import find_child
from vgpumgr.host.protocol.gpu import CreatableFact, GpuFact, ParentFact, TypeFact, VgpuFact
from vgpumgr.host.protocol.ledger import BlockedWriteFact, InstanceEntry, LedgerEntry
from vgpumgr.host.protocol.snapshot import HandleFact, Observed, QemuFact, UnknownFact
from vgpumgr.host.server import Server


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_empty_gpu_offers_each_of_its_types_on_each_parent(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    (gpu,) = observe(host)["gpus"]
    assert (gpu["pci"], gpu["uuid"], gpu["name"], gpu["pci_id"]) == (GPU_A, UUID_A, "NVIDIA A40", "10de:2235")
    assert (gpu["numa_node"], gpu["local_cpus"]) == (0, "0-5,12-17")
    host.put(f"{host.function(GPU_A)}/numa_node", "-1")
    assert observe(host)["gpus"][0]["numa_node"] is None
    assert gpu["framework"] == framework
    assert [each["id"] for each in gpu["types"]] == [558, 560, 562]
    assert [each["vf_index"] for each in gpu["parents"]] == ([None] if framework == MDEV_PF else [0, 1, 2])
    assert [offer[1] for offer in gpu["offers"]] == [{"id": 560, "available": 1}]
    for parent in gpu["parents"]:
        assert parent["creatable"] == 0
        assert parent["vfio_dev"] is (True if framework == VENDOR else None)
        assert parent["iommu_group"] is (True if framework == VENDOR else None)
        assert parent["vgpus"] == []


def test_what_a_start_needs_is_told_where_it_is_missing(tmp_path: Path) -> None:
    """VFIO's container, and a VF's IOMMU group and vfio-dev directory."""
    host = FakeHost.build(tmp_path, VENDOR)
    assert observe(host)["vfio"] is True
    host.path("/dev/vfio/vfio").unlink()
    host.path("/sys/bus/pci/devices/0000:41:00.4/iommu_group").unlink()
    shutil.rmtree(host.path("/sys/bus/pci/devices/0000:41:00.5/vfio-dev"))
    found = observe(host)
    (gpu,) = found["gpus"]
    assert found["vfio"] is False
    assert [(parent["iommu_group"], parent["vfio_dev"]) for parent in gpu["parents"]] == [
        (False, True),
        (True, False),
        (True, True),
    ]


def test_every_key_of_the_protocol_is_there(host: FakeHost) -> None:
    host.make_mdev("0000:41:00.4", 560, MDEV)
    host.add_process(5, "/dev/vfio/77")
    me = find_child(os.getpid())
    assert me is not None
    record = make_record(MDEV_VF, pid=me.pid, start=me.start, more="of a later version")
    instance = make_instance(more="of a later version")
    host.put_ledger(make_entry(MDEV_VF, more="of a later version"), blocked_writes=[record], instances=[instance])
    snapshot = observe(host)
    assert snapshot["boot"] == BOOT
    gpu = snapshot["gpus"][0]
    pairs: list[tuple[dict[str, Any], Any]] = [
        (snapshot, Observed),
        (gpu, GpuFact),
        (gpu["types"][0], TypeFact),
        (gpu["parents"][0], ParentFact),
        (gpu["offers"][1][0], CreatableFact),
        (gpu["parents"][0]["vgpus"][0], VgpuFact),
        (snapshot["handles"][0], HandleFact),
        (snapshot["qemus"][0], QemuFact),
        (snapshot["ledger"][0], LedgerEntry),
        (snapshot["blocked_writes"][0], BlockedWriteFact),
        (snapshot["instances"][0], InstanceEntry),
        (snapshot["unknown"][0], UnknownFact),
    ]
    for value, shape in pairs:
        assert set(value) == set(typing.get_type_hints(shape))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_vgpu_is_told_with_its_type_and_the_paths_a_holder_would_have_open(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    step = make_step(framework)
    host.make_vgpu(step["parent"], 560, step["uuid"])
    gpu = observe(host)["gpus"][0]
    parent = gpu["parents"][0]
    (vgpu,) = parent["vgpus"]
    assert (vgpu["uuid"], vgpu["type_id"], vgpu["type_name"]) == (step["uuid"], 560, "NVIDIA A40-4Q")
    assert vgpu["vfio"] == (["/dev/vfio/650", "/dev/vfio/devices/vfio650"] if framework == VENDOR else ["/dev/vfio/77"])
    assert vgpu["placement_id"] is None
    if framework != MDEV_PF:
        assert gpu["offers"][parent["creatable"]] == []  # a VF takes one


def test_a_function_with_the_two_files_of_an_old_driver_alone_leaves_nothing_unknown(tmp_path: Path) -> None:
    """R525 has creatable_vgpu_types and current_vgpu_type, and no other file in nvidia/ (its open kernel part)."""
    host = FakeHost.build(tmp_path, VENDOR)
    host.make_vgpu("0000:41:00.4", 560, None)
    assert sorted(path.name for path in host.path(f"{host.function('0000:41:00.4')}/nvidia").iterdir()) == [
        "creatable_vgpu_types",
        "current_vgpu_type",
    ]
    assert [row["what"] for row in observe(host)["unknown"] if "0000:41:00.4" in row["what"]] == []


def test_the_name_of_a_type_that_no_function_lists_any_more_comes_from_the_ledger(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, VENDOR)
    for vf in range(3):
        host.put(f"{host.function(f'0000:41:00.{4 + vf}')}/nvidia/creatable_vgpu_types", "ID    : vGPU Name")
    host.make_vgpu("0000:41:00.4", 560, None)
    bare = observe(host)
    assert bare["gpus"][0]["parents"][0]["vgpus"][0]["type_name"] is None
    assert "no function lists" in why(bare, "vgpus[0000:41:00.4].type_name", GPU_A)
    host.put_ledger(make_entry(VENDOR))
    assert observe(host)["gpus"][0]["parents"][0]["vgpus"][0]["type_name"] == "NVIDIA A40-4Q"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("none", f"SR-IOV is off; run /usr/lib/nvidia/sriov-manage -e {GPU_A}"),
        (
            "no sriov-manage",
            "/usr/lib/nvidia/sriov-manage is not there: the driver here is not NVIDIA's vGPU host driver",
        ),
        ("vfio-pci", "the GPU is bound to vfio-pci, not to nvidia"),
        ("no SR-IOV", "the driver here is not NVIDIA's vGPU host driver"),
        ("bare VFs", "nvidia-vgpud has not run"),
    ],
)
def test_a_gpu_without_vgpus_says_why_and_what_to_run_if_anything(tmp_path: Path, change: str, words: str) -> None:
    host = FakeHost.build(tmp_path, gpus=())
    host.add_gpu(GPU_A, UUID_A, None)
    top = host.function(GPU_A)
    host.put("/usr/lib/nvidia/sriov-manage", "#!/bin/sh")
    if change == "no sriov-manage":
        host.path("/usr/lib/nvidia/sriov-manage").unlink()
    elif change == "vfio-pci":
        host.path(f"{top}/driver").unlink()
        host.link(f"{top}/driver", "/sys/bus/pci/drivers/vfio-pci")
    elif change == "no SR-IOV":
        host.put(f"{top}/sriov_totalvfs", "0")
    elif change == "bare VFs":
        host.link(f"{top}/virtfn0", host.add_function("0000:41:00.4"))
    snapshot = observe(host)
    gpu = snapshot["gpus"][0]
    assert (gpu["framework"], gpu["types"], gpu["parents"]) == (None, None, [])
    assert words in gpu["problem"]
    assert ("sriov-manage -e" in gpu["problem"]) == (change == "none")
    assert why(snapshot, "framework", GPU_A) == gpu["problem"]


@pytest.mark.parametrize("nodes", [(), ("fwctl0",)])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_gpu_whose_driver_makes_vgpus_by_fwctl_is_named_and_offers_none(
    tmp_path: Path, framework: str, nodes: tuple[str, ...]
) -> None:
    """nova-core, or a driver with a node of fwctl below the GPU; a node of another device says nothing of it."""
    host = FakeHost.build(tmp_path, framework)
    top = host.function(GPU_A)
    host.path("/sys/devices/pci0000:02/0000:02:00.0/fwctl/fwctl1").mkdir(parents=True)
    host.link("/sys/class/fwctl/fwctl1", "/sys/devices/pci0000:02/0000:02:00.0/fwctl/fwctl1")
    assert observe(host)["gpus"][0]["framework"] == framework
    for node in nodes:
        host.path(f"{top}/nova_core.fwctl.0/fwctl/{node}").mkdir(parents=True)
        host.link(f"/sys/class/fwctl/{node}", f"{top}/nova_core.fwctl.0/fwctl/{node}")
    host.path(f"{top}/driver").unlink()
    host.link(f"{top}/driver", f"/sys/bus/pci/drivers/{'nvidia' if nodes else 'NovaCore'}")
    (gpu,) = observe(host)["gpus"]
    assert (gpu["framework"], gpu["parents"]) == (None, [])
    named = (
        "nvidia, which makes vGPUs by fwctl (/dev/fwctl/fwctl0)" if nodes else "nova-core, which makes vGPUs by fwctl"
    )
    assert gpu["problem"] == f"the GPU is bound to {named}, not by sysfs: vgpumgr does not serve that"


@pytest.mark.parametrize("driver", ["vfio-pci", "NovaCore"])
def test_nvml_is_not_asked_about_a_gpu_of_another_driver_and_that_is_the_reason(tmp_path: Path, driver: str) -> None:
    host = FakeHost.build(tmp_path, gpus=TWO_GPUS)
    host.put("/usr/lib/nvidia/sriov-manage", "#!/bin/sh")
    host.path(f"{host.function(GPU_B)}/driver").unlink()
    host.link(f"{host.function(GPU_B)}/driver", f"/sys/bus/pci/drivers/{driver}")
    nvml = FakeNvml()
    snapshot = observe(host, nvml)
    assert nvml.calls.count("nvmlDeviceGetHandleByPciBusId") == 1
    assert why(snapshot, "mode", GPU_B) == f"NVIDIA's driver does not have the GPU: it is bound to {driver}"


def test_a_pci_domain_other_than_0000_works(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, VENDOR, gpus=(("10000:41:00.0", UUID_A), ("0001:41:00.0", UUID_B)))
    gpus = observe(host)["gpus"]
    assert [gpu["pci"] for gpu in gpus] == ["0001:41:00.0", "10000:41:00.0"]
    assert gpus[1]["parents"][0]["pci"] == "10000:41:00.4"


def test_what_is_no_nvidia_gpu_is_left_out(host: FakeHost) -> None:
    host.add_function("0000:01:00.0", vendor="0x8086")
    host.add_function("0000:41:00.1", kind="0x040300")  # the card's sound function
    assert [gpu["pci"] for gpu in observe(host)["gpus"]] == [GPU_A]


def test_nvml_that_is_missing_is_unknown_and_never_empty(tmp_path: Path) -> None:
    snapshot = observe(FakeHost.build(tmp_path))
    assert snapshot["active"] is None
    assert snapshot["gpus"][0]["mode"] is None
    for gpu, what in (
        (None, "nvml"),
        (None, "active"),
        (GPU_A, "mode"),
        (GPU_A, "framebuffer_mib"),
        (GPU_A, "scheduler"),
    ):
        assert "no pynvml here" in why(snapshot, what, gpu)


def test_handles_carry_the_vm_of_their_command_line(host: FakeHost) -> None:
    command = ("/usr/bin/qemu-system-x86_64", "-name", "guest=vm01,debug-threads=on", "-uuid", VM)
    host.add_process(41, "/dev/vfio/vfio", "/dev/vfio/77", "socket:[1]", command=command)
    host.add_process(42, "/dev/vfio/devices/vfio3", command=("holder",), name="holder", start=7)
    found = observe(host)
    assert found["handles"] == [
        {
            "path": "/dev/vfio/77",
            "pid": 41,
            "start": 1000,
            "command": "qemu-system-x86_64",
            "vm_name": "vm01",
            "vm_uuid": VM,
        },
        {
            "path": "/dev/vfio/devices/vfio3",
            "pid": 42,
            "start": 7,
            "command": "holder",
            "vm_name": None,
            "vm_uuid": None,
        },
    ]
    assert [(qemu["pid"], qemu["vm_name"], qemu["vm_uuid"]) for qemu in found["qemus"]] == [(41, "vm01", VM)]


def test_a_descriptor_counts_by_what_it_is_and_never_by_its_name(host: FakeHost) -> None:
    own = host.node("/run/qemu/vm01.dev/vfio/77")  # QEMU's own /dev has the same node
    host.path("/dev/vfio").mkdir(parents=True, exist_ok=True)
    os.link(own, host.path("/dev/vfio/77"))
    host.add_process(41, "/run/qemu/vm01.dev/vfio/77")
    host.add_process(42, "/tmp/nobody/dev/vfio/77", command=("sleep",), name="sleep")
    assert [(handle["pid"], handle["path"]) for handle in observe(host)["handles"]] == [(41, "/dev/vfio/77")]


@pytest.mark.parametrize(("number", "path"), [("chr", "/dev/vfio/77"), ("major", "/dev/vfio/78")])
def test_a_character_device_counts_by_its_number_wherever_its_node_lies(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, number: str, path: str
) -> None:
    """Also one that has gone from /dev since: then its driver's number in /proc/devices tells it."""
    host.put("/proc/devices", "Character devices:\n  1 mem\n511 vfio\n")
    host.node("/dev/vfio/77")
    host.add_process(41, "/elsewhere/dev/vfio/78")
    host.add_process(42, "/elsewhere/dev/vfio/79", command=("cat",), name="cat")
    numbers = {"77": (511, 1), "78": (511, 1 if number == "chr" else 9), "79": (1, 3)}
    real = os.stat

    def stat(name: Any, **more: Any) -> os.stat_result:
        found = real(name, **more)
        end = Path(os.readlink(name, **more) if "dir_fd" in more else name).name
        if end not in numbers:
            return found
        values = list(found[:10])
        values[0] = 0o020600
        return os.stat_result(values, {"st_rdev": os.makedev(*numbers[end])})

    monkeypatch.setattr(os, "stat", stat)
    assert [(handle["pid"], handle["path"]) for handle in observe(host)["handles"]] == [(41, path)]


def test_a_vgpu_plugin_is_seen_by_the_drivers_own_node(host: FakeHost) -> None:
    host.add_process(50, "/dev/nvidia-vgpu3", "/dev/nvidia-vgpuctl", command=("/usr/bin/nvidia-vgpu-mgr",), name="vgpu")
    found = observe(host)
    assert [(handle["path"], handle["command"]) for handle in found["handles"]] == [
        ("/dev/nvidia-vgpu3", "nvidia-vgpu-mgr")
    ]
    assert found["qemus"] == []


def qemus(host: FakeHost) -> list[tuple[Any, ...]]:
    rows = observe(host)["qemus"]
    return [(row["pid"], row["state"], row["ending"], row["vm_name"], row["machine"]) for row in rows]


@pytest.mark.parametrize("ending", [False, True])
def test_a_process_that_only_says_that_it_is_a_qemu_is_none(host: FakeHost, *, ending: bool) -> None:
    """Anybody can run a program of that name with that command line: its user, or libvirt's machine, decides (found: breaker F4)."""
    host.put(
        "/etc/passwd",
        "root:x:0:0::/root:/bin/sh\nlibvirt-qemu:x:64055:994::/var/lib/libvirt:/usr/sbin/nologin\nme:x:1000:1000::/:/bin/sh",
    )
    forged = (
        "/tmp/qemu-system-x86_64",
        "-name",
        "guest=vm01,debug-threads=on",
        "-uuid",
        "6a1f0000-0000-0000-0000-000000000001",
    )
    for pid, uid, group in (
        (41, 65534, "/user.slice/user-1000.slice"),
        (42, 1000, "/user.slice"),
        (43, 64055, "/user.slice"),
        (44, 1000, r"/machine.slice/machine-qemu\x2d3\x2dvm01.scope/libvirt/emulator"),
        (45, 0, "/user.slice"),
    ):
        host.add_process(pid, command=() if ending else forged, ending=ending, uid=uid, group=group)
    assert [(row["pid"], row["uid"]) for row in observe(host)["qemus"]] == [(43, 64055), (44, 1000), (45, 0)]


def test_a_qemu_that_is_ending_is_seen_without_descriptors_and_told_by_its_control_group(host: FakeHost) -> None:
    scope = r"/machine.slice/machine-qemu\x2d3\x2dvm01.scope/libvirt/emulator"
    host.add_process(41, command=(), state="D", ending=True, group=scope)
    host.add_process(42, command=(), state="D", ending=True, group="/machine/qemu-4-vm02.libvirt-qemu")
    host.add_process(43, command=(), state="D", ending=True)
    host.add_process(44, command=(), state="D", ending=True, name="kworker/0:1")
    assert qemus(host) == [
        (41, "D", True, None, "qemu-3-vm01"),
        (42, "D", True, None, "qemu-4-vm02"),
        (43, "D", True, None, None),
    ]


def test_a_qemu_whose_first_thread_has_ended_lives_as_long_as_another_and_has_its_descriptors(host: FakeHost) -> None:
    host.add_process(41, state="Z", command=())
    assert qemus(host) == []
    host.put("/proc/41/task/41/stat", stat_line(41, "qemu-system-x86", "Z"))
    host.put("/proc/41/task/45/stat", stat_line(45, "CPU 0/KVM", "D"))
    descriptors = host.path("/proc/41/task/45/fd")
    descriptors.mkdir()
    (descriptors / "7").symlink_to(host.node("/dev/vfio/77"))
    assert qemus(host) == [(41, "D", True, None, None)]
    assert [handle["path"] for handle in observe(host)["handles"]] == ["/dev/vfio/77"]


def test_descriptors_that_cannot_be_listed_make_all_handles_unknown(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.add_process(41, "/dev/vfio/77")
    host.path("/proc/42").mkdir()  # ended meanwhile: has no descriptors any more
    assert len(observe(host)["handles"]) == 1
    host.put("/proc/43/fd", "not a directory")
    host.put("/proc/43/stat", stat_line(43, "cat", "S"))
    snapshot = observe(host)
    assert snapshot["handles"] is None
    assert "process 43" in why(snapshot, "handles")


def test_a_gpu_that_the_driver_does_not_know_has_no_uuid_and_is_still_shown(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, gpus=((GPU_A, UUID_A), (GPU_B, UUID_B)))
    host.path(f"/proc/driver/nvidia/gpus/{GPU_A}/information").unlink()
    snapshot = observe(host)
    assert [gpu["uuid"] for gpu in snapshot["gpus"]] == [None, UUID_B]
    assert why(snapshot, "uuid", GPU_A)


def test_a_type_of_a_vf_that_cannot_be_read_is_a_vgpu_of_unknown_type(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, VENDOR)
    host.put(f"{host.function('0000:41:00.4')}/nvidia/current_vgpu_type", "what?")
    snapshot = observe(host)
    parent = snapshot["gpus"][0]["parents"][0]
    assert parent["creatable"] is None
    assert [vgpu["type_id"] for vgpu in parent["vgpus"]] == [None]
    assert why(snapshot, "vgpus[0000:41:00.4].type_id", GPU_A)


def test_a_vf_that_is_not_up_yet_offers_unknown_and_the_others_theirs(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, VENDOR)
    for name in ("current_vgpu_type", "creatable_vgpu_types"):
        host.path(f"{host.function('0000:41:00.4')}/nvidia/{name}").unlink()
    snapshot = observe(host)
    parents = snapshot["gpus"][0]["parents"]
    assert parents[0]["creatable"] is None
    assert [len(offer) for offer in snapshot["gpus"][0]["offers"]] == [3]
    assert parents[1]["creatable"] == 0
    assert "ENOENT" in why(snapshot, "parents[0000:41:00.4].creatable", GPU_A)


def test_mediated_devices_that_cannot_be_listed_leave_no_parent_that_looks_empty(host: FakeHost) -> None:
    bus = host.path("/sys/bus/mdev/devices")
    bus.rmdir()
    bus.write_text("")
    snapshot = observe(host)
    assert snapshot["gpus"][0]["parents"] == []
    assert "cannot list" in why(snapshot, "framework", GPU_A)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_any_one_file_may_be_missing_or_a_directory_and_the_rest_is_told(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    step = make_step(framework)
    host.make_vgpu(step["parent"], 560, step["uuid"])
    host.add_process(41, "/dev/vfio/77")
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_symlink() or path.is_file()]
    alike = re.compile(r"41:00\.[56]|nvidia-56[02]")  # two of three functions, and two of three types
    for path in (path for path in files if not alike.search(str(path))):
        aside = path.with_name(path.name + ".aside")
        path.rename(aside)
        assert observe(host)["hostname"] in {"kvm01", ""}, path
        path.mkdir()
        assert observe(host)["hostname"] in {"kvm01", ""}, path
        path.rmdir()
        aside.rename(path)
    assert observe(host)["gpus"][0]["framework"] == framework


def test_observing_writes_nothing_anywhere_and_leaves_nothing_open(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, VENDOR)
    observe(host)
    before, there = host.tree(), opened()
    observe(host)
    assert host.tree() == before
    assert opened() <= there


def test_a_broken_ledger_is_null_with_its_reason_and_stays_as_it_is(host: FakeHost) -> None:
    host.put("/var/lib/vgpumgr/ledger.json", "{")
    snapshot = observe(host)
    assert (snapshot["ledger"], snapshot["blocked_writes"]) == (None, None)
    assert "not JSON" in why(snapshot, "ledger")
    assert host.ledger_file.read_text() == "{\n"


def test_unlock_tells_of_the_touched_gpus_alone(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, gpus=((GPU_A, UUID_A), (GPU_B, UUID_B)))
    asker = Asker(Server(host.root, nvml=no_nvml).answer)
    assert len(asker.lock()["gpus"]) == 2
    assert [gpu["pci"] for gpu in asker.ask("unlock", gpu_uuids=[UUID_B])["ok"]["gpus"]] == [GPU_B]
    assert asker.ask("unlock", gpu_uuids=[])["err"]["kind"] == "NotLocked"
