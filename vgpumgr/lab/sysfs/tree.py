"""The whole /sys of a simulated host, computed from the driver's state. Paths begin below /sys: "/bus/pci/devices"."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.lab.driver import ill_host
from vgpumgr.lab.driver.errors import os_error
from vgpumgr.lab.sysfs import pci_nodes, proc_driver, vgpu_nodes
from vgpumgr.lab.sysfs.nodes import Builder, Node, constant, text_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vgpumgr.lab.driver.driver import Driver
    from vgpumgr.lab.driver.model import HostState

NVML_PATH = "/kernel/debug/nvlab/nvml"  # the mock libnvidia-ml reads it at each call and writes its requests to it
GATE_PATH = (
    "/kernel/debug/nvlab/gate"  # a file named by the VM's UUID: closing it waits while that VM's QEMU is exiting
)
PROC_DRIVER_PATH = proc_driver.TOP  # to be bound over /proc/driver

# Directories that programs expect, or over which the host's set-up mounts the machine's own.
_EMPTY = (
    "/block",
    "/bus/scsi/devices",
    "/bus/usb/devices",
    "/class/block",
    "/class/drm",
    "/class/fc_host",
    "/class/net",
    "/class/scsi_host",
    "/class/vfio-dev",
    "/dev/block",
    "/dev/char",
    "/devices/system/cpu",
    "/devices/system/memory",
    "/devices/system/node",
    "/devices/virtual/net",
    "/firmware",
    "/fs/bpf",
    "/fs/cgroup",
    "/fs/pstore",
    "/kernel/mm/hugepages",
    "/kernel/mm/transparent_hugepage",
    "/kernel/security",
    "/kernel/tracing",
    "/module/vfio",
    "/power",
)


class WriteRecord(TypedDict):
    """One attempted write: its end (`t`, seconds since the epoch), file, data and errno's name (None: success)."""

    t: float
    path: str
    data: str
    errno: str | None


@dataclass(frozen=True, slots=True)
class _View:
    """The nodes as of one revision. `moving` has vGPUs and the directories that list them; it overrides `fixed`."""

    revision: int
    epoch: int
    fixed: Mapping[str, Node]
    moving: Mapping[str, Node]


class Tree:
    """Thread-safe. Every method raises OSError as the kernel would: ENOENT for a vanished path, ENODEV for an open one.

    `nvml_text` gives the contents of NVML_PATH; `nvml_request` carries out a line that is written to it.
    """

    def __init__(
        self,
        driver: Driver,
        nvml_text: Callable[[], str],
        *,
        nvml_request: Callable[[str], None] | None = None,
        on_write: Callable[[WriteRecord], None] | None = None,
    ) -> None:
        self._driver = driver
        self._nvml_text = nvml_text
        self._nvml_request = nvml_request
        self._on_write = on_write
        self._building = threading.Lock()
        self._view = _View(revision=-1, epoch=-1, fixed={}, moving={})

    def node(self, path: str) -> Node:
        """The node at that path. Raises ENOENT."""
        view = self._view
        if view.revision != self._driver.revision:
            view = self._refresh()
        node = view.moving.get(path) or view.fixed.get(path)
        if node is None:
            raise os_error(errno.ENOENT)
        return node

    def readdir(self, path: str) -> list[str]:
        node = self.node(path)
        if not stat.S_ISDIR(node.mode):
            raise os_error(errno.ENOTDIR)
        return node.names

    def readlink(self, path: str) -> str:
        node = self.node(path)
        if not stat.S_ISLNK(node.mode):
            raise os_error(errno.EINVAL)
        return node.target

    def open(self, path: str, flags: int) -> None:
        """The kernel's extra check (kernfs): even root cannot read without a reader or write without a writer."""
        node = self.node(path)
        if stat.S_ISDIR(node.mode):
            raise os_error(errno.EISDIR)
        mode = flags & os.O_ACCMODE
        if (mode != os.O_WRONLY and node.read is None) or (mode != os.O_RDONLY and node.write is None):
            raise os_error(errno.EACCES)

    def read(self, path: str) -> bytes:
        """The whole content, made for this read."""
        node = self._opened(path)
        if node.read is None:
            raise os_error(errno.EISDIR if stat.S_ISDIR(node.mode) else errno.EACCES)
        return node.read()

    def write(self, path: str, data: bytes) -> int:
        """One store: takes all of `data` or raises. May block, as a removal of a held device does."""
        node = self._opened(path)
        if node.write is None:
            raise os_error(errno.EACCES)
        text = data.decode("utf-8", "replace")
        name: str | None = None
        try:
            node.write(text)
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, str(error.errno))
            raise
        finally:
            if self._on_write is not None:
                self._on_write({"t": time.time(), "path": f"/sys{path}", "data": text, "errno": name})
        return len(data)

    def truncate(self, path: str) -> None:
        """`>` in a shell truncates first: sysfs accepts that from anyone who may write, and does nothing."""
        if self.node(path).write is None:
            raise os_error(errno.EACCES)

    # nodes

    def _opened(self, path: str) -> Node:
        """The node that was opened; ENODEV if it is gone since (kernfs_get_active() in fs/kernfs/file.c)."""
        try:
            return self.node(path)
        except FileNotFoundError as error:
            raise os_error(errno.ENODEV) from error

    def _refresh(self) -> _View:
        with self._building, self._driver.reading() as state:
            old = self._view
            if old.revision == self._driver.revision:
                return old
            fixed = old.fixed if old.epoch == self._driver.epoch else self._build_fixed(state)
            moving = Builder(fixed)
            for gpu in state.gpus:
                for vgpu in gpu.vgpus:
                    vgpu_nodes.build_vgpu(moving, self._driver, gpu, vgpu)
            self._view = _View(
                revision=self._driver.revision, epoch=self._driver.epoch, fixed=fixed, moving=moving.nodes
            )
            return self._view

    def _build_fixed(self, state: HostState) -> dict[str, Node]:
        builder = Builder()
        for path in _EMPTY:
            builder.directory(path)
        machine = state.machine_id
        uuid = "-".join((machine[:8], machine[8:12], machine[12:16], machine[16:20], machine[20:]))
        builder.put("/devices/virtual/dmi/id/product_uuid", constant(uuid))
        builder.put("/devices/virtual/dmi/id/uevent", constant("MODALIAS=dmi:vgpumgr-lab:"))
        builder.link("/devices/virtual/dmi/id/subsystem", "/class/dmi")
        builder.link("/class/dmi/id", "/devices/virtual/dmi/id")
        builder.put("/module/nvidia/version", constant(state.driver_version))
        builder.put("/module/nvidia/initstate", constant("live"))
        if ill_host.NO_VGPU_MODULE not in state.faults:
            builder.put(f"/module/{ill_host.VGPU_MODULE}/version", constant(state.driver_version))
        builder.directory(GATE_PATH)
        builder.put(NVML_PATH, text_file(self._nvml_text, self._nvml_request))
        proc_driver.build(builder, state)
        if any(gpu.framework != VENDOR_VFIO for gpu in state.gpus):
            vgpu_nodes.build_buses(builder)
        for number in range(state.switches):
            pci_nodes.build_switch(builder, number)
        for gpu in state.gpus:
            pci_nodes.build(builder, gpu, state.faults)
            vgpu_nodes.build_parents(builder, self._driver, gpu, state.faults)
        return builder.nodes
