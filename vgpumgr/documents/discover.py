"""discover-1.json: the hosts' GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver.modes import MIG
from vgpumgr.core.evidence import fabric
from vgpumgr.core.evidence.preflight import version_text
from vgpumgr.core.placing import room
from vgpumgr.core.report import instances
from vgpumgr.documents import common, cordon

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.results import Fleet, HostFacts
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import Finding

SCHEMA = "vgpumgr.discover/1"


def document(fleet: Fleet[HostFacts], findings: Iterable[Finding]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.reached(fleet.errors, any_read=bool(fleet.views), found=findings),
        "hosts": [_host(view) for view in fleet.views],
    }


def _host(view: HostFacts) -> dict[str, object]:
    snapshot, libvirt = view.snapshot, view.libvirt_version
    return {
        "name": snapshot.host,
        "machine_id": snapshot.machine,
        "boot_id": snapshot.boot,
        "versions": {**snapshot.versions, "libvirt": None if libvirt is None else version_text(libvirt)},
        "cordon": cordon.text(snapshot.cordon_at(None)),
        "fabric": _fabric(snapshot),
        "gpus": [_gpu(snapshot, gpu) for gpu in snapshot.gpus],
        "unknown": common.plain(snapshot.unknown),
    }


def _fabric(facts: HostSnapshot) -> dict[str, object] | None:
    """Null where no GPU is on an NVSwitch fabric."""
    gpus = [gpu.pci for gpu in facts.gpus if fabric.is_on_one(facts, gpu)]
    if not gpus:
        return None
    return {
        **common.pick(facts.fabric, "switches", "manager", "mode"),
        "gpus": gpus,
        "text": fabric.state(facts.fabric),
    }


def _instances(facts: HostSnapshot, gpu: Gpu) -> dict[str, object]:
    """The GPU instances; how many they are, and how many of them are ours and empty: null for a GPU that is not in MIG mode, and if unknown."""
    found = instances.rows(facts, gpu)
    counts = gpu.mode == MIG and instances.UNREAD not in found
    return {
        "gpu_instances": len(found) if counts else None,
        "cached": sum(one.state == "cached" for one in found) if counts else None,
        "instances": common.plain(found),
    }


def _gpu(facts: HostSnapshot, gpu: Gpu) -> dict[str, object]:
    return {
        **common.pick(gpu, "pci", "board", "framework", "mode", "numa_node"),
        "vgpus": None if gpu.framework is None else len(gpu.vgpus),
        "allocated_pct": common.percent(room.known_share(facts, gpu)),
        **_instances(facts, gpu),
        **common.pick(gpu, "framebuffer_mib", "uuid", "name", "pci_id"),
        "cordon": None if gpu.uuid is None else cordon.text(facts.cordon_at(gpu.uuid)),
        "types": None
        if gpu.types is None
        else [
            {
                "name": vgpu_type.type_name,
                **common.pick(vgpu_type, "id", "max", "framebuffer_mib"),
                "creatable_now": gpu.creatable_now(vgpu_type.id),
            }
            for vgpu_type in gpu.types.values()
        ],
    }
