"""How VMs open and close vGPUs, as functions over one host's state; Driver calls them under its lock.

A running VM has the vGPU open (`holder_*`), and so has its plugin, a process of nvidia-vgpu-mgr (`plugin`). When the VM
stops, QEMU ends first (it can take about 30 s to close the vGPU), then the plugin.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from vgpumgr.lab.driver.addresses import key_of, vf_pci
from vgpumgr.lab.driver.errors import os_error
from vgpumgr.lab.driver.model import Use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.lab.driver.model import Gpu, HostState, Vgpu


def find(state: HostState, key: str) -> tuple[Gpu, Vgpu] | None:
    """The vGPU of an mdev UUID or a VF's address, including one whose removal waits."""
    for gpu in state.gpus:
        for vgpu in gpu.vgpus:
            if key in (vgpu.uuid, vf_pci(gpu, vgpu.vf) if vgpu.vf is not None else None):
                return gpu, vgpu
    return None


def is_ending(vgpu: Vgpu) -> bool:
    """Whether its last VM has not finished closing it."""
    return vgpu.exiting or (vgpu.plugin and vgpu.holder_uuid is None)


def start(state: HostState, key: str, vm_uuid: str, vm_name: str) -> None:
    """A VM opens the vGPU. ENOENT if there is none, EBUSY if another VM has it or the last one is still closing it."""
    pair = find(state, key)
    if pair is None or pair[1].leaving:
        raise os_error(errno.ENOENT)
    vgpu = pair[1]
    if vgpu.holder_uuid not in (None, vm_uuid) or is_ending(vgpu):
        raise os_error(errno.EBUSY)
    vgpu.holder_uuid, vgpu.holder_name, vgpu.plugin = vm_uuid, vm_name, True


def begin_exit(state: HostState, vm_uuid: str, *, plugin_stays: bool) -> tuple[str, ...]:
    """The VM's QEMU was killed, with or without its plugins, and has yet to close its vGPUs. Returns their keys."""
    return tuple(key_of(gpu, vgpu) for gpu, vgpu in _exit(state, vm_uuid, plugin_stays=plugin_stays))


def close(state: HostState, vm_uuid: str, *, plugin_stays: bool) -> tuple[str, ...]:
    """The VM closes all its vGPUs; its plugins end with it, or stay. Returns the vGPUs' keys."""
    keys = []
    for gpu, vgpu in _exit(state, vm_uuid, plugin_stays=plugin_stays):
        vgpu.holder_uuid = vgpu.holder_name = None
        vgpu.exiting = False
        keys.append(key_of(gpu, vgpu))
    return tuple(keys)


def _exit(state: HostState, vm_uuid: str, *, plugin_stays: bool) -> Iterator[tuple[Gpu, Vgpu]]:
    for gpu in state.gpus:
        for vgpu in gpu.vgpus:
            if vgpu.holder_uuid == vm_uuid:
                vgpu.exiting, vgpu.plugin = True, plugin_stays
                end_work(vgpu)
                yield gpu, vgpu


def end_work(vgpu: Vgpu) -> None:
    """The vGPU's guest stops working, and NVML forgets its use."""
    vgpu.wants, vgpu.framebuffer_used, vgpu.guest = Use(), 0, None
    vgpu.had.clear()
