"""inventory-1.json: the declarations. Anything not declared is null."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.asking import FgpuMemory
from vgpumgr.documents import common

if TYPE_CHECKING:
    from vgpumgr.core.driver.asking import FgpuUnit
    from vgpumgr.core.inventory import (
        GpuDeclaration,
        HostDeclaration,
        Inventory,
        OfGpus,
        SlotDeclaration,
        VmDeclaration,
    )

_WAYS = ("profile", "mig_profile", "gpu_memory_mib", "gpu", "fgpu", "series")


def document(found: Inventory) -> dict[str, object]:
    return common.document(
        "vgpumgr.inventory/1",
        {
            "root": found.root,
            "whose": common.pick(found.whose, "by", "group", "named_by", "left_out"),
            "quotas": [
                {"owner": owner, **common.pick(quota, "memory_mib", "vgpus", "where")}
                for owner, quota in found.quotas.items()
            ],
            "hosts": [_host(host) for host in found.hosts.values()],
            "findings": [
                {"where": str(finding.where) if finding.where else None, "text": finding.text}
                for finding in found.findings
            ],
        },
    )


def _host(host: HostDeclaration) -> dict[str, object]:
    return {
        "name": host.name,
        "connection": "local" if host.endpoint.is_local else "ssh",
        **common.pick(host.endpoint, "address", "port", "user", "become", "key_file", "known_hosts"),
        "site": host.site,
        "policy": host.policy.name,
        "owner": host.owner,
        "owner_path": host.owner_path.text if host.owner_path else None,
        "even_if_it_will_not_start": host.even_if_it_will_not_start,
        "restore": host.restore,
        "lazy": host.lazy,
        "gpu_count": len(host.gpus),
        "vm_count": len(host.vms),
        "where": str(host.where),
        "jumps": [common.pick(jump, "address", "port", "user") for jump in host.endpoint.jumps],
        "fgpu_per_gpu": {board: _unit(unit) for board, unit in host.fgpu_per_gpu.items()},
        "gpus": [_gpu(gpu) for gpu in host.gpus],
        "boards": [{"board": board.board, **_settings(board), "where": str(board.where)} for board in host.boards],
        "vms": [_vm(vm) for vm in host.vms.values()],
        "reservations": [
            {**common.pick(one, "name", "owner", "count"), "asked": one.asked.asked, "where": str(one.asked.where)}
            for one in host.reservations
        ],
    }


def _gpu(gpu: GpuDeclaration) -> dict[str, object]:
    return {"gpu_id": gpu.gpu_id, **_settings(gpu), "exclude_vfs": list(gpu.exclude_vfs), "where": str(gpu.where)}


def _settings(declared: OfGpus) -> dict[str, object]:
    scheduler = declared.scheduler.wish if declared.scheduler else None
    return {
        "mode": common.plain(declared.mode),
        "scheduler": {
            **common.pick(scheduler, "policy"),
            "time_slice_ms": scheduler.time_slice_ns // 1_000_000 if scheduler.time_slice_ns else None,
            **common.pick(scheduler, "frequency_hz", "averaging_factor"),
        }
        if scheduler
        else None,
        "instances": common.plain(declared.instances),
    }


def _unit(unit: FgpuUnit) -> object:
    return {"memory_mib": unit.mib} if isinstance(unit, FgpuMemory) else unit


def _vm(vm: VmDeclaration) -> dict[str, object]:
    return {
        "name": vm.name,
        "owner": vm.owner,
        "slots": [_slot(slot) for slot in vm.slots.values()],
        "where": str(vm.where),
    }


def _slot(slot: SlotDeclaration) -> dict[str, object]:
    return {
        "slot": slot.slot,
        **dict.fromkeys(_WAYS),
        **{key: value for key, value in profiles.attributes(slot.wish).items() if key in _WAYS},
        **common.pick(
            slot, "policy", "gpu_id", "prefer", "only", "compute", "max_waste_pct", "usable", "param", "priority"
        ),
        "where": str(slot.where),
    }
