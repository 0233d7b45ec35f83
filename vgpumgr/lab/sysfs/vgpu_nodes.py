"""vGPU types and vGPUs in /sys, as mediated devices, or (vendor-vfio) as nvidia/ on each VF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.model.snapshot import MDEV_PF, VENDOR_VFIO
from vgpumgr.lab.driver import admission, answers, ill_host, kstrto
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.sysfs.nodes import constant, text_file
from vgpumgr.lab.sysfs.pci_nodes import device_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from vgpumgr.lab.driver.driver import Driver
    from vgpumgr.lab.driver.model import Gpu, TypeSpec, Vgpu
    from vgpumgr.lab.sysfs.nodes import Builder, Node

_MDEV_DRIVER = "nvidia-vgpu-vfio"
_HEADER = "ID    : vGPU Name\n"
_NOT_APPLICABLE = "Not Applicable\n"
# The branches that added files to nvidia/. 525 has two of them, on mdevs and VFs alike (NVIDIA's open kernel part; a
# capture of an A2 with mdevs). VFs of L40S and H100 hosts have five; with 580.105 six (a capture of an RTX PRO 6000).
_FIRST_PLACES = 550
_FIRST_WARM_UPDATE = 580


def parents(gpu: Gpu) -> Iterator[tuple[int | None, str]]:
    """Index and address of each function on which vGPUs are created."""
    if gpu.framework == MDEV_PF:
        yield None, gpu.pci
    elif gpu.vfs_on:
        for vf in range(gpu.board.vfs):
            yield vf, vf_pci(gpu, vf)


def build_parents(builder: Builder, driver: Driver, gpu: Gpu, faults: Collection[str]) -> None:
    """Add what lasts as long as the PCI functions: types, and on vendor-vfio the files of each VF."""
    serving = [row for row in parents(gpu) if _is_served(gpu, row[1], faults)]
    if gpu.framework == VENDOR_VFIO:
        for vf, _ in serving:
            if vf is not None:
                _vendor_files(builder, driver, gpu, vf, faults)
        return
    shared = [
        {
            "name": constant(kind.name),
            "description": constant(_described(kind, faults)),
            "device_api": constant(answers.of(faults, "device-api", "vfio-pci")),
        }
        for kind in gpu.board.all_types
    ]  # the same for every parent, and in either mode: what the mode forbids has no available instance
    usual = "name description device_api available_instances create devices"
    names = answers.of(faults, "type-files", usual).split()
    for vf, address in serving:
        builder.link(f"/class/mdev_bus/{address}", device_path(address))
        for kind, constants in zip(gpu.board.all_types, shared, strict=True):
            folder = _type_path(address, kind)
            files = {
                **constants,
                "available_instances": _available(driver, gpu, vf, kind),
                "create": _create(driver, address, kind),
            }
            for name in names:
                if name == "devices":
                    builder.directory(f"{folder}/devices")
                else:
                    builder.put(f"{folder}/{name}", files.get(name) or constant(""))


def _is_served(gpu: Gpu, function: str, faults: Collection[str]) -> bool:
    if ill_host.SRIOV_OFF in faults and gpu.board.vfs:
        return False
    return ill_host.serves(faults, gpu.pci) and ill_host.serves(faults, function)


def build_vgpu(builder: Builder, driver: Driver, gpu: Gpu, vgpu: Vgpu) -> None:
    """Add an existing mediated device. (On vendor-vfio a vGPU has no separate node.)"""
    if vgpu.uuid is None:
        return
    uuid = vgpu.uuid
    address = gpu.pci if vgpu.vf is None else vf_pci(gpu, vgpu.vf)
    top = f"{device_path(address)}/{uuid}"
    _group(builder, top, vgpu)
    if vgpu.leaving:
        return
    builder.link(f"{top}/vfio-dev/vfio{vgpu.vfio}/device", top)
    builder.link(f"/class/vfio-dev/vfio{vgpu.vfio}", f"{top}/vfio-dev/vfio{vgpu.vfio}")
    builder.put(f"{top}/remove", text_file(write=lambda text: _remove(driver, uuid, text)))
    builder.put(f"{top}/uevent", text_file(lambda: f"DRIVER={_MDEV_DRIVER}\n", lambda _: None))
    builder.link(f"{top}/mdev_type", _type_path(address, vgpu.type))
    builder.link(f"{top}/driver", f"/bus/mdev/drivers/{_MDEV_DRIVER}")
    builder.link(f"{top}/subsystem", "/bus/mdev")
    builder.put(
        f"{top}/nvidia/vgpu_params",
        text_file(lambda: driver.tell(vgpu, lambda: f"{vgpu.params}\n"), lambda text: driver.set_params(uuid, text)),
    )
    builder.put(f"{top}/nvidia/vm_name", text_file(lambda: driver.tell(vgpu, lambda: f"{vgpu.holder_name or ''}\n")))
    if driver.branch >= _FIRST_PLACES:
        builder.put(
            f"{top}/nvidia/placement_id",
            text_file(
                lambda: _NOT_APPLICABLE if vgpu.placement_id is None else f"{vgpu.placement_id}\n",
                lambda text: driver.set_placement(uuid, kstrto.signed_decimal(text)),
            ),
        )
        builder.put(
            f"{top}/nvidia/gpu_instance_id",
            text_file(lambda: _NOT_APPLICABLE if vgpu.gpu_instance is None else f"{vgpu.gpu_instance}\n"),
        )
    builder.link(f"{_type_path(address, vgpu.type)}/devices/{uuid}", top)
    builder.link(f"/bus/mdev/devices/{uuid}", top)
    builder.link(f"/bus/mdev/drivers/{_MDEV_DRIVER}/{uuid}", top)


def _group(builder: Builder, top: str, vgpu: Vgpu) -> None:
    """An mdev's IOMMU group, the only part of it that remains below its parent while its removal waits.

    device_del() first removes the links of bus, type and driver, and only then the driver waits for the VM in
    vfio_unregister_group_dev(), which removes vfio-dev before the wait on 6.12 (shown here) and after it on 6.1.
    """
    group = f"/kernel/iommu_groups/{vgpu.group}"
    builder.link(f"{top}/iommu_group", group)
    builder.link(f"{group}/devices/{vgpu.uuid}", top)
    builder.put(f"{group}/type", constant("unknown"))  # there is no IOMMU behind it


def build_buses(builder: Builder) -> None:
    """Add the directories that the mdev core creates even without devices."""
    builder.directory("/class/mdev_bus")
    builder.directory("/bus/mdev/devices")
    builder.directory(f"/bus/mdev/drivers/{_MDEV_DRIVER}")


def describe(kind: TypeSpec) -> str:
    heads, width, height, frames = kind.display
    return (
        f"num_heads={heads}, frl_config={frames}, framebuffer={kind.framebuffer_mib}M, "
        f"max_resolution={width}x{height}, max_instance={kind.max_instances}"
    )


def _described(kind: TypeSpec, faults: Collection[str]) -> str:
    """The type's description. If a fault states another answer to `description`, it has only the keys in that."""
    parts = {part.partition("=")[0]: part for part in describe(kind).split(", ")}
    keys = answers.of(faults, "description", " ".join(parts)).split()
    return ", ".join(parts.get(key, f"{key}=0") for key in keys)


# mediated devices


def _type_path(address: str, kind: TypeSpec) -> str:
    return f"{device_path(address)}/mdev_supported_types/nvidia-{kind.id}"


def _available(driver: Driver, gpu: Gpu, vf: int | None, kind: TypeSpec) -> Node:
    def read() -> str:
        with driver.reading() as state:
            hidden = kind.id in answers.hidden(state.faults)
            return f"{0 if hidden else admission.available(gpu, vf, kind)}\n"

    return text_file(read)


def _create(driver: Driver, address: str, kind: TypeSpec) -> Node:
    return text_file(write=lambda text: driver.create_mdev(address, kind.id, text))


def _remove(driver: Driver, uuid: str, text: str) -> None:
    """remove_store(): any number that is not 0 removes; 0 does nothing."""
    if kstrto.unsigned(text, 64):
        driver.remove_mdev(uuid)


# nvidia/ on a VF


def _vendor_files(builder: Builder, driver: Driver, gpu: Gpu, vf: int, faults: Collection[str]) -> None:
    address = vf_pci(gpu, vf)

    def present() -> Vgpu | None:
        return admission.on_vf(gpu, vf)

    def creatable() -> str:
        with driver.reading():
            shows_all = gpu.vgpus and present() is None and answers.all_of(faults, "siblings")
            kinds = gpu.board.types if shows_all else admission.creatable_on(gpu, vf)
            row = "{name}  {id}\n" if answers.all_of(faults, "list-rows") else "{id:<5} : {name}\n"
            hidden = answers.hidden(faults)
            rows = [row.format(id=kind.id, name=kind.name) for kind in kinds if kind.id not in hidden]
            header = answers.of(faults, "list-header", _HEADER.rstrip())
            return ("" if header == "none" else f"{header}\n") + "".join(rows)

    def current() -> str:
        with driver.reading():
            vgpu = present()
            return f"{vgpu.type.id if vgpu else 0}\n"

    def placement() -> str:
        with driver.reading():
            vgpu = present()
            if vgpu is None or vgpu.placement_id is None:
                return answers.tell(faults, "idle-placement", "ENXIO")
            return f"{vgpu.placement_id}\n"

    def choose(text: str) -> None:
        driver.set_placement(address, kstrto.signed_decimal(text))

    def params() -> str:
        with driver.reading():
            vgpu = present()
        return (
            answers.tell(faults, "idle-params", "") if vgpu is None else driver.tell(vgpu, lambda: f"{vgpu.params}\n")
        )

    def instance() -> str:
        with driver.reading():
            vgpu = present()
            if vgpu is None or vgpu.gpu_instance is None:
                return answers.tell(faults, "idle-instance", "ENXIO")
            return f"{vgpu.gpu_instance}\n"

    top = device_path(address)
    vfio = f"vfio{gpu.first_vfio + vf}"
    files = {
        "creatable_vgpu_types": text_file(creatable),
        "current_vgpu_type": text_file(current, lambda text: driver.set_vf_type(address, kstrto.signed_decimal(text))),
    }
    if driver.branch >= _FIRST_PLACES:
        files["placement_id"] = text_file(placement, choose)
        files["gpu_instance_id"] = text_file(instance)
        files["vgpu_params"] = text_file(params, lambda text: driver.set_params(address, text))
    if driver.branch >= _FIRST_WARM_UPDATE:
        files["warm_update"] = text_file(lambda: answers.tell(faults, "idle-warm-update", "0"), lambda _: None)
    for name in answers.of(faults, "driver-files", " ".join(files)).split():
        builder.put(f"{top}/nvidia/{name}", files.get(name) or constant(""))
    if answers.all_of(faults, "vfio-dev"):
        return
    builder.put(f"{top}/vfio-dev/{vfio}/dev", constant(f"511:{gpu.first_vfio + vf}"))
    builder.link(f"{top}/vfio-dev/{vfio}/device", top)
    builder.link(f"/class/vfio-dev/{vfio}", f"{top}/vfio-dev/{vfio}")
