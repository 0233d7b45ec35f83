"""One host in this process: the lab's driver, its /sys as plain files, and the real host program reading and writing them.

The host program is given files, not the lab's FUSE, because a case makes some hundred observations and must take tens of
milliseconds. What it writes goes straight to the driver: its own writer forks a child, whose driver would be a copy.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import re
import shutil
import stat
import uuid as uuid_module
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pytest

from tests.model.libvirt_double import Libvirt
from tests.model.nvml_double import Nvml
from tests.unit.host.fakehost import stat_line
from vgpumgr.host.files import Root
from vgpumgr.host.ledger import blocked_write
from vgpumgr.host.ledger.ledger import read_ledger, write_ledger
from vgpumgr.host.ledger.writer import Writer
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.host.protocol.ledger import LEDGER_PATH
from vgpumgr.host.protocol.session import LOCK_PATH
from vgpumgr.host.refusal import errno_name
from vgpumgr.host.server import Server
from vgpumgr.host.steps import params, reset_step, steps, vfs_step
from vgpumgr.host.steps.guard import RemovalGuard
from vgpumgr.host.steps.tool import Ended
from vgpumgr.host.timing import Timing
from vgpumgr.lab import spec
from vgpumgr.lab.driver import boards, mig
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.driver import CREATE_EIO, Driver
from vgpumgr.lab.driver.upgrade import SAME
from vgpumgr.lab.sysfs.tree import PROC_DRIVER_PATH, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.model.libvirt_double import Vm
    from vgpumgr.host.protocol.steps import Step
    from vgpumgr.lab.driver.model import BoardSpec, Gpu, Vgpu
    from vgpumgr.lab.driver.upgrade import Upgrade
    from vgpumgr.lab.sysfs.nodes import Node

BOARDS = {MDEV_PF: "T4", MDEV_VF: "A40", VENDOR_VFIO: "L40S"}
GPUS = ("0000:41:00.0", "0000:81:00.0")
VFS = 3
# Short name → how many a GPU takes: few, so that a handful of VMs meets every limit. 8Q and 8C are of one size.
TYPES = {"4Q": 3, "8Q": 2, "8C": 2, "16Q": 1}
MIG_BOARD = "A100"
MIG_TYPES = ("1-5C", "3-20C", "7-40C")
SLICED_TYPES = ("4C", "8C")  # of the same board with MIG off

# What a GPU's own files say anew after each change; everything else stays as long as its functions do.
_CHANGING = ("available_instances", "creatable_vgpu_types", "current_vgpu_type", "placement_id", "gpu_instance_id")
ABSENT = ""
Content: TypeAlias = (
    "bytes | str | None"  # a file's bytes, a link's target (ABSENT: neither is there), None for a directory
)
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_pids = itertools.count(1)
_at_root: dict[str, Machine] = {}
_hanging: set[int] = set()  # the processes of all machines whose writes have not returned
_SHOWN = ("/bus/pci/devices", "/bus/mdev/devices", "/devices/pci", "/module/")


class Place(NamedTuple):
    """What tells one vGPU of a host from another: the mdev's UUID, or where none is, the VF (gpu, index)."""

    gpu: str
    vf: int | None
    uuid: str | None


class Machine:
    """A host with two GPUs. Made anew (`install`) for each case; its folder is used again, since little of it changes."""

    def __init__(self, name: str, framework: str, root: Path) -> None:
        self.name = name
        self.framework = framework
        self.root = root.resolve()
        _at_root[Root(self.root).path("")] = self
        self._there: dict[str, Content] = {}
        self._seen: Mapping[str, Node] | None = None
        self._fixed: dict[str, Node] = {}
        self.driver: Driver
        self.libvirt: Libvirt
        self.boots: int
        self.broken_promises: list[str]
        self.hung: dict[str, int]  # GPU UUID → the process whose write there has not returned
        self.connections: list[Callable[[], None]]
        self.orphans: dict[Place, int]  # ours, and the ledger that named them is lost: place → type id
        self.owners: dict[Place, tuple[str, str]]  # of orphans: VM and slot
        self.foreign_instances: set[int]  # GPU instances that somebody else made: their serials
        self.sick: bool  # whether every write below /sys is answered EIO
        self.places_refused: bool  # whether a vGPU was not moved because of that
        self.figures: dict[
            int, tuple[int | None, int | None]
        ]  # what NVML says of a type's size and maximum, if otherwise
        for folder in ("root", "dev/vfio", "etc/modprobe.d", "var/lib", "proc/sys/kernel/random", "sys"):
            (root / folder).mkdir(parents=True)
        (root / "etc/machine-id").write_text(f"{uuid_module.uuid5(uuid_module.NAMESPACE_DNS, name).hex}\n")
        (root / "dev/vfio/vfio").touch()
        (root / "proc/sys/kernel/hostname").write_text(f"{name}\n")
        (root / "proc/sys/kernel/osrelease").write_text("6.1.0\n")

    def install(
        self,
        *,
        in_mig: bool = False,
        board: BoardSpec | None = None,
        second: BoardSpec | None = None,
        fabric: spec.FabricSpec | None = None,
        cards: Mapping[str, BoardSpec] | None = None,
        shown: Callable[[str, Content], Content] = lambda _where, content: content,
    ) -> None:
        """As on its first day: nothing is made, nobody runs, no ledger. `in_mig`: both GPUs are in MIG mode.

        `board`: instead of one that has few types and VFs; `second`: the second GPU's, instead of that. `fabric`: that both are on.
        `cards`: address → board, instead of both. `shown`: what a file of this host holds, of its path and what the lab's would hold.
        """
        small = board or (_mig_board() if in_mig else _board(BOARDS[self.framework]))
        gpus = tuple(
            spec.GpuSpec(
                pci=pci,
                uuid=f"GPU-{uuid_module.uuid5(uuid_module.NAMESPACE_DNS, self.name + pci)}",
                board=one,
                framework=self.framework,
                numa_node=0,
                mig=in_mig,
            )
            for pci, one in (cards or dict.fromkeys(GPUS, small) | ({GPUS[1]: second} if second else {})).items()
        )
        host = spec.HostSpec(
            name=self.name,
            machine_id=(self.root / "etc/machine-id").read_text().strip(),
            driver_version="570.172.07",
            gpus=gpus,
            fabric=fabric,
        )
        self.boots = 0
        self.driver = Driver(spec.host_state(host, boot_id=""))
        self._tree = Tree(self.driver, lambda: "")
        self.libvirt = Libvirt(self.name, version=10_000_000)
        self.libvirt.qemu = self
        self.broken_promises = []
        self.hung = {}
        self.sick = self.places_refused = False
        self.orphans, self.owners = {}, {}
        self.foreign_instances = set()
        self.connections = []
        self.shown = shown
        self.figures = {}
        shutil.rmtree(self.root / "var/lib/vgpumgr", ignore_errors=True)
        for file in (self.root / "etc/modprobe.d").iterdir():
            file.unlink()
        self._boot()
        self._install_fabric_manager(fabric)

    def _install_fabric_manager(self, fabric: spec.FabricSpec | None) -> None:
        shutil.rmtree(self.root / "usr", ignore_errors=True)
        if fabric is None or fabric.manager == "absent":
            return
        files = {
            "usr/bin/nv-fabricmanager": "",
            "usr/share/nvidia/nvswitch/fabricmanager.cfg": f"FABRIC_MODE={fabric.mode}\n",
        }
        if fabric.manager == "running":
            (self.root / "proc/9/fd").mkdir(parents=True)
            files["proc/9/stat"] = stat_line(9, "nv-fabricmanage", "S") + "\n"
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)

    @property
    def id(self) -> str:
        """Its machine-id."""
        return (self.root / "etc/machine-id").read_text().strip()

    @property
    def disks(self) -> tuple[Path, ...]:
        """The folders that our files are in; a test may have mounted something small there."""
        return self.root / "var/lib", self.root / "etc/modprobe.d"

    # what the host program sees

    def serve(self, at: Callable[[str], None]) -> Server:
        """One run of the host program; `at` is told each point of a step."""
        guard = RemovalGuard(Root(self.root), lambda: Nvml(self), timing=Timing(), pause=lambda _seconds: None)
        return Server(
            self.root,
            nvml=lambda: Nvml(self),
            libvirt=self.libvirt.serve(at),
            write=self.write,
            at=at,
            guard=guard,
        )

    def write(self, path: str, text: bytes) -> None:
        """A write below /sys. The attempt alone is a broken promise where a VM holds what is to be taken away, or where an
        earlier write to the GPU has not returned.
        """
        target = os.path.relpath(os.path.realpath(path), self.root / "sys")
        gpu, _ = self.driver.parent(_PCI.findall(target)[-1])
        if gpu.uuid in self.hung:
            self.broken_promises.append(
                f"{self.name}: {target} was written to, and a write to {gpu.pci} has not returned"
            )
        if self.sick:
            self.places_refused |= path.endswith("/placement_id")
            raise OSError(errno.EIO, "sick")
        key = _key_taken_away(target, text)
        found = self.driver.find(key) if key else None
        if found is not None and found[1].holder_uuid is not None:
            self.broken_promises.append(f"{self.name}: {key} was to be taken from {found[1].holder_name}")
            raise OSError(errno.EBUSY, "held")
        self._tree.write(f"/{target}", text)
        self.show()

    def show(self) -> None:
        """Bring the files to what the driver's state is."""
        view = self._tree._refresh()
        if self._seen is not view.fixed:
            self._seen, self._fixed = view.fixed, _files(view.fixed)
            todo = self._fixed
        else:
            todo = {where: node for where, node in self._fixed.items() if where.endswith(_CHANGING)}
        moving = _files(view.moving)
        for where in sorted(self._there.keys() - self._fixed.keys() - moving.keys(), reverse=True):
            self._put(where, ABSENT)
        for where, node in sorted({**todo, **moving}.items(), key=lambda row: row[0]):
            self._put(where, _content(node))

    def _put(self, where: str, content: Content) -> None:
        """Write what differs: a file's bytes, a link's target ("": neither is there), None for a directory."""
        content = self.shown(where, content)
        old = self._there.get(where, ABSENT)
        if old == content:
            return
        file = self.root / where
        if old is None:
            file.rmdir()
        elif old != ABSENT:
            file.unlink()
        if content is None:
            file.mkdir(parents=True, exist_ok=True)
        elif content != ABSENT:
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                file.symlink_to(content)
            else:
                file.write_bytes(content)
        self._there[where] = content

    # the truth, for judging

    def hardware(self) -> dict[Place, Vgpu]:
        """Every vGPU that is there."""
        with self.driver.reading() as state:
            return {place(gpu, vgpu): vgpu for gpu in state.gpus for vgpu in gpu.vgpus}

    def gpus(self) -> list[Gpu]:
        with self.driver.reading() as state:
            return state.gpus

    def ledger(self) -> list[dict[str, Any]]:
        """The ledger's entries, as they lie on the disk."""
        return self._records("entries")

    def has_ledger(self) -> bool:
        """Whether its file is there."""
        return (self.root / LEDGER_PATH[1:]).exists()

    def reservations(self) -> list[dict[str, Any]]:
        """Its rows of reserved places, also of those whose time is over."""
        return self._records("reservations")

    def ledger_instances(self) -> list[dict[str, Any]]:
        """Its entries of GPU instances."""
        return self._records("instances")

    def blocked_writes(self) -> set[str]:
        """The UUIDs of the GPUs that the ledger has such a write of."""
        return {record["gpu_uuid"] for record in self._records("blocked_writes")}

    def _records(self, what: str) -> list[dict[str, Any]]:
        file = self.root / LEDGER_PATH[1:]
        records: list[dict[str, Any]] = json.loads(file.read_bytes()).get(what, []) if file.exists() else []
        return records

    def is_locked(self) -> bool:
        """Whether anybody holds the host's lock: asked of the kernel, not of the host program."""
        descriptor = os.open(self.root / LOCK_PATH[1:], os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    # what happens to it

    def run_tool(self, verb: str, *more: str) -> None:
        """`sriov-manage -e PCI`, `sriov-manage -d PCI`, `nvidia-smi --gpu-reset -i PCI`. OSError where the driver refuses."""
        pci = more[-1]
        if self.sick:
            raise OSError(errno.EIO, "sick")
        if verb == "--gpu-reset":
            self.driver.reset(pci)
        else:
            self.driver.set_vfs(pci, on=verb == "-e")
        self.show()

    def make(self, gpu: Gpu, vf: int, type_id: int, uuid: str) -> None:
        """Somebody's own vGPU. OSError where the driver refuses."""
        if self.framework == VENDOR_VFIO:
            self.driver.set_vf_type(vf_pci(gpu, vf), type_id)
        else:
            self.driver.create_mdev(gpu.pci if self.framework == MDEV_PF else vf_pci(gpu, vf), type_id, uuid)
        self.show()

    def make_instance(self, gpu: Gpu, profile_id: int, start: int) -> None:
        """Somebody's own GPU instance, ready for a vGPU. OSError where the driver refuses."""
        profile = mig.profile_of(gpu, profile_id)
        assert profile is not None
        serial = self.driver.create_instance(gpu.pci, profile_id, start)
        self.driver.create_compute(gpu.pci, serial, mig.COMPUTE_PROFILES[profile.slices])
        self.foreign_instances.add(serial)
        self.show()

    def reboot(self, upgrade: Upgrade = SAME) -> None:
        """Every vGPU and every running VM is gone, and whoever was connected; definitions and the ledger stay."""
        for cut in self.connections:
            cut()
        self.connections.clear()
        self.libvirt.lose_running()
        self.let_go()
        self.orphans.clear()
        self.foreign_instances.clear()
        self._boot(upgrade)

    @property
    def boot(self) -> str:
        """The id of this boot."""
        return f"b0000000-0000-4000-8000-{self.boots:012}"

    def _boot(self, upgrade: Upgrade = SAME) -> None:
        self.boots += 1
        self.driver.reboot(self.boot, upgrade)
        (self.root / "proc/sys/kernel/random/boot_id").write_text(f"{self.boot}\n")
        for process in (self.root / "proc").glob("[0-9]*"):
            shutil.rmtree(process)
        self.show()

    def lose_ledger(self) -> bool:
        """Its file goes. False where there is none, or where it has a write that has not returned."""
        file = self.root / LEDGER_PATH[1:]
        if self.hung or not file.exists():
            return False
        there = self.hardware()
        for row in self.ledger():
            where = Place(gpu=row["gpu_uuid"], vf=row["vf_index"] if row["uuid"] is None else None, uuid=row["uuid"])
            if row["boot"] == self.boot and where in there and there[where].type.id == row["type_id"]:
                self.orphans[where] = row["type_id"]
                self.owners[where] = row["vm_uuid"], row["slot"]
        file.unlink()
        return True

    def end_reservations(self) -> None:
        """Their time is over, by the host's clock."""
        file = self.root / LEDGER_PATH[1:]
        if file.exists():
            document = json.loads(file.read_bytes())
            for row in document.get("reservations", []):
                row["until"] = 0
            file.write_text(json.dumps(document))

    def sort_orphans(self, named: set[tuple[Place, int]]) -> None:
        """Forget those that the ledger names again, and those that are gone."""
        there = self.hardware()
        for where, kind in tuple(self.orphans.items()):
            if (where, kind) in named or where not in there or there[where].type.id != kind:
                del self.orphans[where]

    def hang(self, gpu: Gpu) -> None:
        """A write to that GPU, which somebody's run began just before it was killed, does not return."""
        if gpu.uuid in self.hung:
            return
        pid = self.hung[gpu.uuid] = next(_pids)
        _hanging.add(pid)
        root = Root(self.root)
        ledger = read_ledger(root)
        record = {
            "gpu_uuid": gpu.uuid,
            "gpu": gpu.pci,
            "path": f"/sys/bus/pci/devices/{gpu.pci}/create",
            "verb": "create_vgpu",
            "vm_name": "somebody's",
            "slot": "vgpu0",
            "vfio": [],
            "boot": (self.root / "proc/sys/kernel/random/boot_id").read_text().strip(),
            "pid": pid,
            "start": 0,
            "since": "2026-11-21T00:00:00Z",
        }
        write_ledger(root, ledger.with_blocked_writes((*ledger.blocked_writes, record)))

    def let_go(self) -> None:
        """What hung returns, with an error: it has done nothing."""
        _hanging.difference_update(self.hung.values())
        self.hung.clear()

    def fail_creates(self, fail: bool) -> None:
        """Whether the driver answers every create with EIO."""
        if fail:
            self.driver.set_fault(CREATE_EIO)
        else:
            self.driver.clear_faults()

    def hold(self, key: str, vm_uuid: str, vm_name: str) -> None:
        """A VM opens the vGPU of that mdev UUID or VF address: the driver knows, and /proc shows the handle."""
        self.driver.hold(key, vm_uuid, vm_name)
        found = self.driver.find(key)
        assert found is not None
        gpu, vgpu = found
        path = f"/dev/vfio/{vgpu.group}"
        if vgpu.uuid is None and vgpu.vf is not None and vgpu.vf % 2:  # a kernel with cdev shows the other name
            path = f"/dev/vfio/devices/vfio{gpu.first_vfio + vgpu.vf}"
        folder = self.root / f"proc/{_pid(vm_uuid)}"
        (folder / "fd").mkdir(parents=True, exist_ok=True)
        (folder / "cmdline").write_bytes(f"qemu\0-name\0guest={vm_name}\0-uuid\0{vm_uuid}\0".encode())
        (folder / "stat").write_text(stat_line(_pid(vm_uuid), "qemu-system-x86", "S") + "\n")
        node = self.root / path.lstrip("/")
        node.parent.mkdir(parents=True, exist_ok=True)
        node.touch()
        (folder / "fd" / str(len(list((folder / "fd").iterdir())))).symlink_to(node)

    def release(self, vm_uuid: str) -> tuple[str, ...]:
        """The VM closes all that it has open; the keys."""
        shutil.rmtree(self.root / f"proc/{_pid(vm_uuid)}", ignore_errors=True)
        return self.driver.release(vm_uuid)

    # what libvirt's QEMU does while a VM runs (libvirt_double.Qemu)

    def take(self, vm: Vm, key: str) -> bool:
        found = self.driver.find(key)
        if found is None or found[1].holder_uuid:
            return False
        self.hold(key, vm.uuid, vm.name)
        return True

    def give_back(self, vm: Vm, key: str) -> None:
        for other in self.release(vm.uuid):
            if other != key:
                self.hold(other, vm.uuid, vm.name)


def _board(name: str) -> BoardSpec:
    board = boards.board(name, "test")
    kinds = [replace(boards.type_of(board, short, "test"), max_instances=most) for short, most in sorted(TYPES.items())]
    return replace(board, types=tuple(kinds), vfs=VFS if board.vfs else 0)


def _mig_board() -> BoardSpec:
    board = boards.board(MIG_BOARD, "test")
    kinds = tuple(boards.type_of(board, short, "test", mig=True) for short in MIG_TYPES)
    sliced = tuple(replace(boards.type_of(board, short, "test"), max_instances=2) for short in SLICED_TYPES)
    return replace(board, types=sliced, mig_types=kinds, vfs=VFS)


class _Writing:
    """What stands for writer.Writing: the write is done here, by a child that ended before anybody could ask for it."""

    pid = 0  # nobody's

    def __init__(self, write: Callable[[], None]) -> None:
        self._write = write

    def run(self, deadline_s: float) -> str | None:
        del deadline_s
        try:
            self._write()
        except OSError as error:
            return errno_name(error.errno or errno.EIO)
        return None


@contextmanager
def writing_in_process() -> Iterator[None]:
    """While it lasts, the host program's writer forks no child: see the module's docstring."""

    @contextmanager
    def ready(writer: Writer, path: str, text: bytes) -> Iterator[_Writing]:
        yield _Writing(lambda: writer._write(path, text))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "ready", ready)
        patch.setattr(steps, "started", lambda pid: blocked_write.Child(pid, 0))
        patch.setattr(params, "read_params", _read_params)
        patch.setattr(blocked_write, "is_alive", lambda child: child.pid in _hanging)
        patch.setattr(blocked_write, "MOMENT_S", 0)
        patch.setattr(vfs_step, "run_tool", _run_tool)
        patch.setattr(reset_step, "run_tool", _run_tool)
        yield


def _read_params(path: str, step: Step) -> str:
    """What stands for params.read_params, whose child reads a file that the machine does not show."""
    machine = next(each for root, each in _at_root.items() if path.startswith(f"{root.rstrip('/')}/"))
    found = machine.driver.find(step["uuid"] or step["parent"])
    return "" if found is None else found[1].params


def _run_tool(root: Root, program: str, arguments: Sequence[str], deadline_s: float) -> Ended:
    """What stands for tool.run_tool: sriov-manage and nvidia-smi of the machine at that root."""
    del deadline_s
    command = " ".join([program, *arguments])
    try:
        _at_root[root.path("")].run_tool(*arguments)
    except OSError as error:
        return Ended(command, 1, f"In use by another client: {error.strerror}\n")
    return Ended(command, 0, "")


def place(gpu: Gpu, vgpu: Vgpu) -> Place:
    return Place(gpu=gpu.uuid, vf=None, uuid=vgpu.uuid) if vgpu.uuid else Place(gpu=gpu.uuid, vf=vgpu.vf, uuid=None)


def key_of(gpu: Gpu, vgpu: Vgpu) -> str:
    """How libvirt and the driver name it: the mdev's UUID, or the VF's address."""
    if vgpu.uuid is not None:
        return vgpu.uuid
    assert vgpu.vf is not None
    return vf_pci(gpu, vgpu.vf)


def _key_taken_away(path: str, text: bytes) -> str | None:
    """The vGPU that this write takes away, as Driver.find wants it; None where it takes none."""
    parts = path.split("/")
    if parts[-1] == "remove":
        return parts[-2]
    if parts[-1] == "current_vgpu_type" and text.strip() == b"0":
        return parts[-3]
    return None


def _pid(vm_uuid: str) -> int:
    return 1000 + int(vm_uuid[:6], 16)


def _files(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes that the host program reads, by their path below the root."""
    found = {}
    for path, node in nodes.items():
        if path.startswith(_SHOWN):
            found[f"sys{path}"] = node
        elif path.startswith(PROC_DRIVER_PATH):
            found[f"proc/driver{path.removeprefix(PROC_DRIVER_PATH)}"] = node
    return found


def _content(node: Node) -> Content:
    if stat.S_ISDIR(node.mode):
        return None
    if stat.S_ISLNK(node.mode):
        return node.target
    try:
        return node.read() if node.read is not None else b""
    except OSError:  # a placement id that there is none of: no such file is as good
        return ABSENT
