"""A directory that looks like a host with vGPUs, and a small driver that reacts to writes: for tests in one process.

The lab's FUSE host is the better imitation, and tests of whole journeys use that; this one can be broken file by file.
"""

# ruff: noqa: PTH103, PTH115, PTH211 -- a host is a hundred files, and each test makes one: pathlib takes thrice as long

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgpumgr.host.files import Root, read_all
from vgpumgr.host.ledger import ledger
from vgpumgr.host.protocol.ledger import LEDGER_VERSION_WITHOUT_CORDONS
from vgpumgr.host.server import Server
from vgpumgr.host.steps.guard import RemovalGuard
from vgpumgr.host.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.host.fakenvml import FakeNvml

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
BOOT = "b7000000-0000-4000-8000-000000000001"
GPU_A = "0000:41:00.0"
GPU_B = "0000:81:00.0"
UUID_A = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
UUID_B = "GPU-bbbbbbbb-0000-4000-8000-000000000002"
TWO_GPUS = ((GPU_A, UUID_A), (GPU_B, UUID_B))
VM = "6a1f0000-0000-4000-8000-000000000001"
OTHER_VM = "6a1f0000-0000-4000-8000-000000000002"
MDEV = "9e0d0000-0000-4000-8000-000000000001"
OTHER_MDEV = "9e0d0000-0000-4000-8000-000000000002"
TYPES = {558: ("NVIDIA A40-2Q", 2048, 24), 560: ("NVIDIA A40-4Q", 4096, 12), 562: ("NVIDIA A40-8Q", 8192, 6)}

MIG_TYPES = {700: 14, 701: 19}  # MIG-backed types, and the ids of their profiles

MDEV_PF, MDEV_VF, VENDOR = "mdev-pf", "mdev-vf", "vendor-vfio"
FRAMEWORKS = (MDEV_PF, MDEV_VF, VENDOR)
HARDWARE = (MDEV_VF, VENDOR)  # the two kinds: an mdev, whatever its parent is, and a VF with a type


class FakeHost:
    """One fake root. Everything is a plain file or a relative link, as deep as the real thing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._top = str(root)

    @classmethod
    def build(
        cls, root: Path, framework: str | None = MDEV_VF, *, gpus: tuple[tuple[str, str], ...] = ((GPU_A, UUID_A),)
    ) -> FakeHost:
        host = cls(root)
        host.put("/etc/machine-id", "0123456789abcdef0123456789abcdef")
        host.put("/proc/sys/kernel/random/boot_id", BOOT)
        host.put("/proc/sys/kernel/hostname", "kvm01")
        host.put("/proc/sys/kernel/osrelease", "6.1.0")
        host.put("/dev/vfio/vfio", "")
        host.put("/sys/module/nvidia/version", "570.133.10")
        host.put("/proc/driver/nvidia/params", 'EnableMSI: 1\nRegistryDwords: ""\nRegistryDwordsPerDevice: ""')
        for folder in (
            "/root",
            "/var/lib",
            "/etc/modprobe.d",
            "/sys/bus/pci/devices",
            "/sys/bus/mdev/devices",
            "/sys/bus/pci/drivers/nvidia",
        ):
            (root / folder[1:]).mkdir(parents=True, exist_ok=True)
        host.path("/root").chmod(0o700)
        for pci, uuid in gpus:
            host.add_gpu(pci, uuid, framework)
        return host

    # files

    def path(self, absolute: str) -> Path:
        return self.root / absolute[1:]

    def put(self, absolute: str, text: str) -> Path:
        self._write(absolute, f"{text}\n")
        return self.path(absolute)

    def _write(self, absolute: str, text: str) -> None:
        where = f"{self._top}{absolute}"
        try:
            descriptor = os.open(where, _WRITE, 0o644)
        except FileNotFoundError:
            self._make_folder(where)
            descriptor = os.open(where, _WRITE, 0o644)
        os.write(descriptor, text.encode())
        os.close(descriptor)

    def link(self, absolute: str, to: str) -> None:
        where, target = f"{self._top}{absolute}", "../" * (absolute.count("/") - 1) + to[1:]
        try:
            os.symlink(target, where)
        except FileNotFoundError:
            self._make_folder(where)
            os.symlink(target, where)

    @staticmethod
    def _make_folder(of: str) -> None:
        os.makedirs(of.rpartition("/")[0], exist_ok=True)

    def tree(self) -> dict[str, str]:
        """Everything below the root, to see that nothing was written."""
        found: dict[str, str] = {}
        folders = [self._top]
        for folder in folders:
            for entry in os.scandir(folder):
                name = entry.path[len(self._top) + 1 :]
                if entry.is_symlink():
                    found[name] = f"-> {os.readlink(entry.path)}"
                elif entry.is_file():
                    found[name] = read_all(entry.path).decode()
                else:
                    found[name] = "/"
                    if entry.is_dir():
                        folders.append(entry.path)
        return found

    # the machine

    def function(self, pci: str) -> str:
        """A PCI function's directory, where the link in /sys/bus/pci/devices points."""
        return f"/sys/devices/pci{pci[:7]}/{pci}"

    def add_function(self, pci: str, *, vendor: str = "0x10de", kind: str = "0x030200", group: int = 0) -> str:
        top = self.function(pci)
        self.put(f"{top}/vendor", vendor)
        self.put(f"{top}/class", kind)
        self.put(f"{top}/device", "0x2235")
        self.put(f"{top}/numa_node", "0")
        self.put(f"{top}/local_cpulist", "0-5,12-17\n")
        self.link(f"{top}/driver", "/sys/bus/pci/drivers/nvidia")
        self.link(f"{top}/iommu_group", f"/sys/kernel/iommu_groups/{group}")
        self.link(f"/sys/bus/pci/devices/{pci}", top)
        return top

    def add_gpu(self, pci: str, uuid: str, framework: str | None, *, vfs: int = 3) -> None:
        bus = int(pci.split(":")[1], 16)
        top = self.add_function(pci, group=bus)
        self.put(
            f"/proc/driver/nvidia/gpus/{pci}/information",
            f"Model: \t\t NVIDIA A40\nGPU UUID: \t {uuid}\nBus Location: \t {pci}",
        )
        if framework == MDEV_PF:
            self._add_types(top)
            return
        self.put(f"{top}/sriov_totalvfs", str(vfs))
        if framework is None:
            return
        for index in range(vfs):
            vf = f"{pci[:-1]}{4 + index}"
            function = self.add_function(vf, group=bus * 10 + index)
            self.link(f"{top}/virtfn{index}", function)
            self.link(f"{function}/physfn", top)
            if framework == MDEV_VF:
                self._add_types(function)
            else:
                self.put(f"{function}/nvidia/current_vgpu_type", "0")
                self.put(f"{function}/nvidia/creatable_vgpu_types", _creatable())
                self.path(f"{function}/vfio-dev/vfio{bus * 10 + index}").mkdir(parents=True)

    def _add_types(self, top: str) -> None:
        for type_id, (name, mib, most) in TYPES.items():
            folder = f"{top}/mdev_supported_types/nvidia-{type_id}"
            self.put(f"{folder}/name", name)
            self.put(
                f"{folder}/description",
                f"num_heads=4, frl_config=60, framebuffer={mib}M, max_resolution=1x1, max_instance={most}",
            )
            self.put(f"{folder}/available_instances", "1")
            self.put(f"{folder}/create", "")

    # vGPUs

    def make_mdev(self, parent: str, type_id: int, uuid: str, *, group: int = 77) -> None:
        top = f"{self.function(parent)}/{uuid}"
        self.put(f"{top}/remove", "")
        self.put(f"{top}/nvidia/placement_id", "Not Applicable")
        self.link(f"{top}/mdev_type", f"{self.function(parent)}/mdev_supported_types/nvidia-{type_id}")
        self.link(f"{top}/iommu_group", f"/sys/kernel/iommu_groups/{group}")
        self.link(f"/sys/bus/mdev/devices/{uuid}", top)

    def remove_mdev(self, uuid: str) -> None:
        link = self.path(f"/sys/bus/mdev/devices/{uuid}")
        shutil.rmtree(link.resolve())
        link.unlink()

    def make_vgpu(self, parent: str, type_id: int, uuid: str | None) -> None:
        """Whatever the framework is: an mdev where there is a uuid, else a VF's type."""
        if uuid is None:
            self.put(f"{self.function(parent)}/nvidia/current_vgpu_type", str(type_id))
        else:
            self.make_mdev(parent, type_id, uuid)

    def driver_write(self, path: str, data: bytes) -> None:
        """What the kernel and the driver do when this is written: stands for host/writer.write_file."""
        text = data.decode("latin-1").strip()
        file = Path(path)
        if not file.exists():
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        if file.name == "create":
            if self.path(f"/sys/bus/mdev/devices/{text}").is_symlink():
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
            self.make_mdev(file.parent.parent.parent.name, int(file.parent.name.removeprefix("nvidia-")), text)
            self.put_params(text, "")
        elif file.name == "remove":
            self.remove_mdev(file.parent.name)
        elif file.name == "placement_id":
            file.write_text(f"{text}\n")
        elif file.name == "vgpu_params":
            file.write_bytes(data[:-1] + b"\n")  # the driver keeps all but the last byte, whatever that is
        else:
            instance = self._instance_for(int(text))
            file.write_text(f"{text}\n")
            for name, content in (("vgpu_params", ""), ("gpu_instance_id", instance)):
                beside = file.with_name(name)
                beside.unlink(missing_ok=True)
                if text != "0" and content is not None:
                    beside.write_text(f"{content}\n")

    # MIG, of the first GPU (fakemig.py changes the same file)

    @property
    def _mig_file(self) -> Path:
        return self.path("/proc/driver/fake-mig")

    def mig(self) -> dict[str, Any]:
        """What the driver has: `on`, `pending` and `instances`, each with id, profile, start, size and computes."""
        if not self._mig_file.exists():
            return {"on": False, "pending": False, "instances": [], "next": 1}
        state: dict[str, Any] = json.loads(self._mig_file.read_text())
        return state

    def put_mig(self, **changes: Any) -> None:
        self._mig_file.parent.mkdir(parents=True, exist_ok=True)
        self._mig_file.write_text(json.dumps({**self.mig(), **changes}))

    def put_instance(self, profile: int, start: int, size: int, *, computes: int = 1) -> int:
        """An instance as another tool would make it; returns its id, which nothing had before."""
        state = self.mig()
        made = {"id": state["next"], "profile": profile, "start": start, "size": size, "computes": computes}
        self.put_mig(on=True, pending=True, instances=[*state["instances"], made], next=state["next"] + 1)
        return int(made["id"])

    def in_instances(self) -> list[int]:
        """The ids of the instances that the GPU's vGPUs are in."""
        return [int(file.read_text()) for file in self.root.glob("sys/devices/*/*/nvidia/gpu_instance_id")]

    def _instance_for(self, type_id: int) -> int | None:
        """As the driver chooses: the lowest id of those with the type's profile that are free."""
        if type_id not in MIG_TYPES:
            return None
        taken = self.in_instances()
        free = [
            each["id"]
            for each in self.mig()["instances"]
            if each["profile"] == MIG_TYPES[type_id] and each["id"] not in taken
        ]
        if not free:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return int(min(free))

    def params(self, device: str) -> Path:
        """nvidia/vgpu_params of an mdev (its UUID) or a VF (its address)."""
        top = f"/sys/bus/mdev/devices/{device}" if len(device) == 36 else self.function(device)
        return self.path(f"{top}/nvidia/vgpu_params")

    def place(self, device: str) -> Path:
        """nvidia/placement_id of an mdev (its UUID) or a VF (its address)."""
        return self.params(device).with_name("placement_id")

    def put_params(self, device: str, text: str) -> None:
        self.params(device).write_text(f"{text}\n")

    def add_process(
        self,
        pid: int,
        *links: str,
        command: tuple[str, ...] = ("qemu-system-x86_64",),
        name: str = "qemu-system-x86",
        state: str = "S",
        ending: bool = False,
        start: int = 1000,
        group: str = "/user.slice",
        uid: int = 0,
    ) -> None:
        """A process with these files open; a node below /dev is made where it is not there. `ending`: it is in do_exit."""
        folder = self.path(f"/proc/{pid}/fd")
        folder.mkdir(parents=True)
        for number, target in enumerate(links):
            (folder / str(number)).symlink_to(self.node(target) if target.startswith("/") else target)
        self.path(f"/proc/{pid}/cmdline").write_bytes(b"".join(each.encode() + b"\0" for each in command))
        self.put(f"/proc/{pid}/stat", stat_line(pid, name, state, ending=ending, start=start))
        self.put(f"/proc/{pid}/cgroup", f"0::{group}")
        self.put(f"/proc/{pid}/status", f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")

    def node(self, path: str) -> Path:
        """A device node: a plain file, for nobody but root may make another."""
        file = self.path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.touch()
        return file

    def end_process(self, pid: int) -> None:
        shutil.rmtree(self.path(f"/proc/{pid}"))

    def ended(self, vm: str, seconds_ago: float) -> None:
        """libvirt's log of a VM, last written so long ago."""
        log = self.put(f"/var/log/libvirt/qemu/{vm}.log", "shutting down, reason=destroyed")
        at = time.time() - seconds_ago
        os.utime(log, (at, at))

    # the ledger

    @property
    def ledger_file(self) -> Path:
        return self.path("/var/lib/vgpumgr/ledger.json")

    def entries(self) -> list[dict[str, Any]]:
        if not self.ledger_file.exists():
            return []
        entries: list[dict[str, Any]] = json.loads(self.ledger_file.read_text())["entries"]
        return entries

    def put_ledger(self, *entries: dict[str, Any], **more: Any) -> None:
        self.ledger_file.parent.mkdir(parents=True, exist_ok=True)
        document = {"version": LEDGER_VERSION_WITHOUT_CORDONS, "settings": {}, "entries": list(entries), **more}
        self.ledger_file.write_bytes(ledger.render(document))

    def instances(self) -> list[dict[str, Any]]:
        """The ledger's entries of GPU instances."""
        if not self.ledger_file.exists():
            return []
        entries: list[dict[str, Any]] = json.loads(self.ledger_file.read_text()).get("instances", [])
        return entries

    def blocked_writes(self) -> list[dict[str, Any]]:
        """The ledger's records of writes that have not returned."""
        records: list[dict[str, Any]] = json.loads(self.ledger_file.read_text()).get("blocked_writes", [])
        return records


def stat_line(pid: int, name: str, state: str, *, ending: bool = False, start: int = 1000) -> str:
    """/proc/PID/stat as far as anybody reads it: flags are its 9th field, starttime the 22nd."""
    flags = 0x00400100 | (0x4 if ending else 0)
    return f"{pid} ({name}) {state} 1 1 1 0 -1 {flags} {' '.join('0' for _ in range(12))} {start} 0 0"


def _creatable() -> str:
    return "ID    : vGPU Name\n" + "\n".join(f"{type_id:<5} : {name}" for type_id, (name, _, _) in TYPES.items())


def make_step(framework: str, *, vf: int = 0, **more: Any) -> dict[str, Any]:
    """A create of a 4Q for VM's vgpu0 on the first GPU; `more` replaces keys."""
    on_pf = framework == MDEV_PF
    return {
        "verb": "create_vgpu",
        "vm_uuid": VM,
        "vm_name": "vm01",
        "slot": "vgpu0",
        "generation": 1,
        "gpu_uuid": UUID_A,
        "gpu": GPU_A,
        "vf_index": None if on_pf else vf,
        "parent": GPU_A if on_pf else f"{GPU_A[:-1]}{4 + vf}",
        "uuid": None if framework == VENDOR else MDEV,
        "type_id": 560,
        "type_name": "NVIDIA A40-4Q",
        "placement_id": None,
        "mig": None,
        "expect": "empty",
        "param": None,
        "replaces": None,
        "runs": False,
        "listed": False,
        **more,
    }


def make_type(
    number: int, name: str, most: int | None, framebuffer_mib: int | None, mig_profile: int | None = None
) -> dict[str, Any]:
    """A type as a fact."""
    return {
        "id": number,
        "name": name,
        "max": most,
        "framebuffer_mib": framebuffer_mib,
        "mig_profile": mig_profile,
        "max_per_instance": None,
    }


def make_mig_step(*, start: int = 2, **more: Any) -> dict[str, Any]:
    """A create of a 2-10C for VM's vgpu0 in the first GPU's 2g.10gb at that start; `more` replaces keys."""
    place = {"profile": "2g.10gb", "profile_id": 14, "start": start}
    return make_step(VENDOR, **{"type_id": 700, "type_name": "NVIDIA A100-2-10C", "mig": place, **more})


def make_instance_step(verb: str = "create_instance", *, start: int = 2, **more: Any) -> dict[str, Any]:
    """A 2g.10gb of the first GPU; `more` replaces keys."""
    return {
        "verb": verb,
        "gpu_uuid": UUID_A,
        "gpu": GPU_A,
        "profile": "2g.10gb",
        "profile_id": 14,
        "start": start,
        "size": 2,
        "expect": "empty" if verb == "create_instance" else "present",
        **more,
    }


def make_instance(*, start: int = 2, **more: Any) -> dict[str, Any]:
    """The ledger's entry of make_instance_step's instance."""
    own = make_instance_step(start=start)
    del own["verb"], own["expect"]
    return {**own, "boot": BOOT, "state": "made", **more}


def make_destroy(framework: str, **more: Any) -> dict[str, Any]:
    """The step that takes back what make_step makes."""
    return make_step(framework, **{"verb": "destroy_vgpu", "expect": "present", **more})


def make_evacuate(framework: str, **more: Any) -> dict[str, Any]:
    """The step that takes away what make_step makes, and leaves its entry."""
    return make_step(framework, **{"verb": "evacuate_vgpu", "expect": "present", **more})


def make_setting(policy: str = "fixed-share", **more: Any) -> dict[str, Any]:
    """A scheduler setting with the driver's defaults; `more` replaces keys."""
    return {
        "policy": policy,
        "arr": None,
        "averaging_factor": None,
        "frequency_hz": None,
        "time_slice_ns": None,
        **more,
    }


def make_scheduler_step(api: int = 1, **more: Any) -> dict[str, Any]:
    """Fixed share for the first GPU, which is at best effort; `more` replaces keys."""
    engines = ("graphics",) if api == 1 else ("graphics", "nvenc0", "nvenc1")
    return {
        "verb": "set_scheduler",
        "gpu_uuid": UUID_A,
        "gpu": GPU_A,
        "api": api,
        "setting": make_setting(),
        "expect": dict.fromkeys(engines, "best-effort"),
        **more,
    }


CONF = "/etc/modprobe.d/vgpumgr.conf"


def make_modprobe_step(**more: Any) -> dict[str, Any]:
    """A new file of ours; `more` replaces keys."""
    text = 'options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;RmPVMRL=0x00000011"\n'
    return {"verb": "write_modprobe", "path": CONF, "text": text, "expect": None, **more}


def make_entry(framework: str, **more: Any) -> dict[str, Any]:
    """The ledger's entry of make_step's vGPU."""
    own = make_step(framework)
    for key in (
        "verb",
        "mig",
        "expect",
        "param",
        "replaces",
        "runs",
        "listed",
    ):  # the file leaves mig out where it is null
        del own[key]
    return {**own, "boot": BOOT, "state": "made", **more}


def make_record(framework: str, **more: Any) -> dict[str, Any]:
    """The ledger's record of a destroy of make_step's vGPU: of process 1, which never ends, if its start were right."""
    step = make_destroy(framework)
    return {
        "gpu_uuid": step["gpu_uuid"],
        "gpu": step["gpu"],
        "path": f"/sys/bus/mdev/devices/{MDEV}/remove",
        "verb": step["verb"],
        "vm_name": step["vm_name"],
        "slot": step["slot"],
        "vfio": ["/dev/vfio/77"],
        "boot": BOOT,
        "pid": 1,
        "start": 0,
        "since": "2026-11-22T02:30:00Z",
        **more,
    }


def no_nvml() -> Any:
    raise ImportError("no pynvml here")


class Asker:
    """Asks a Server in this process, as the controller would over the wire."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer
        self._number = 0

    def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        self._number += 1
        answer: dict[str, Any] = json.loads(
            self._answer(json.dumps({"id": self._number, "do": verb, **fields}).encode())
        )
        assert answer["id"] == self._number
        return answer

    def lock(self, wait_s: float = 0) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask("lock", by="anna@ctl1 test", wait_s=wait_s)["ok"]
        return answer

    def execute(self, step: dict[str, Any], deadline_s: float = 10) -> dict[str, Any]:
        return self.ask("execute", step=step, deadline_s=deadline_s)


def wait_until(met: Callable[[], bool]) -> None:
    """Until it is so, and not for ever."""
    end = time.monotonic() + 120
    while not met():
        assert time.monotonic() < end
        time.sleep(0.01)


def make_server(host: FakeHost, **injected: Any) -> Server:
    """The host program on this host, whose second look before a removal comes at once."""
    nvml = injected.pop("nvml", no_nvml)
    guard = RemovalGuard(Root(host.root), nvml, timing=Timing(), pause=lambda seconds: None)
    return Server(host.root, **{"nvml": nvml, "write": host.driver_write, "guard": guard, **injected})


def locked(host: FakeHost, **injected: Any) -> Asker:
    """Asks the host program, which has the host's lock."""
    asker = Asker(make_server(host, **injected).answer)
    asker.lock()
    return asker


def execute(
    host: FakeHost, step: dict[str, Any], deadline_s: float = 10, *, nvml: FakeNvml | None = None, **injected: Any
) -> dict[str, Any]:
    """The answer to one step, from a host program that then releases the lock. `nvml`: None if the host has no NVML."""
    server = make_server(host, nvml=no_nvml if nvml is None else lambda: nvml, **injected)
    asker = Asker(server.answer)
    asker.lock()
    try:
        return asker.execute(step, deadline_s)
    finally:
        server.close()
        assert nvml is None or nvml.opened == 0, "an open NVML blocks sriov-manage"


def ask(host: FakeHost, nvml: FakeNvml | None, verb: str, **fields: Any) -> dict[str, Any]:
    """The answer to one request without the lock."""
    server = make_server(host, nvml=no_nvml if nvml is None else lambda: nvml)
    answer = Asker(server.answer).ask(verb, wait_s=0, **fields)
    assert nvml is None or nvml.opened == 0, "an open NVML blocks sriov-manage"
    return answer


def observe(host: FakeHost, nvml: FakeNvml | None = None) -> dict[str, Any]:
    """A snapshot of the host."""
    snapshot: dict[str, Any] = ask(host, nvml, "observe")["ok"]
    return snapshot


def why(snapshot: dict[str, Any], what: str, gpu: str | None = None) -> str:
    """Why this is unknown; empty where it is not."""
    return "; ".join(row["why"] for row in snapshot["unknown"] if (row["gpu"], row["what"]) == (gpu, what))


def two_gpus(root: Path, framework: str = MDEV_VF) -> FakeHost:
    return FakeHost.build(root, framework, gpus=TWO_GPUS)


def host_with_vgpu(
    root: Path, framework: str, gpus: tuple[tuple[str, str], ...] = ((GPU_A, UUID_A),), **entry: Any
) -> FakeHost:
    """A host with make_step's vGPU, entered as ours."""
    host = FakeHost.build(root, framework, gpus=gpus)
    step = make_step(framework)
    host.make_vgpu(step["parent"], step["type_id"], step["uuid"])
    host.put_ledger(make_entry(framework, **entry))
    return host
