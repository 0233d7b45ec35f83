"""What was read of hosts and their GPUs: the documents discover, cordons, host, mode, mig_show and scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver import scheduler as settings
from vgpumgr.core.evidence import fabric, preflight
from vgpumgr.core.placing import room
from vgpumgr.core.report import instances
from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.results import Fleet, HostCordons, HostFacts, HostInstallation, ModeHost, SchedulerHost
    from vgpumgr.core.gpu.scheduler import Persistent
    from vgpumgr.core.model.installation import Restore
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.report.instances import HostInstances
    from vgpumgr.core.report.modes import ModeRow
    from vgpumgr.core.report.schedulers import SchedulerRow


def discover(fleet: Fleet[HostFacts], findings: Iterable[Finding]) -> dict[str, object]:
    hosts = [_host(view) for view in fleet.views]
    return common.of_fleet("vgpumgr.discover/1", fleet, {"hosts": hosts}, found=findings)


def _host(view: HostFacts) -> dict[str, object]:
    snapshot, libvirt = view.snapshot, view.libvirt_version
    version = None if libvirt is None else preflight.version_text(libvirt)
    return {
        **common.pick(snapshot, name="host", machine_id="machine", boot_id="boot"),
        "versions": {**snapshot.versions, "libvirt": version},
        "cordon": common.cordon(snapshot.cordon_at(None)),
        "fabric": _fabric(snapshot),
        "gpus": [_gpu(snapshot, gpu) for gpu in snapshot.gpus],
        "unknown": common.plain(snapshot.unknown),
    }


def _fabric(facts: HostSnapshot) -> dict[str, object] | None:
    """The host's NVSwitch fabric, its state and the GPUs on it. Null if no GPU is on one."""
    gpus = [gpu.pci for gpu in facts.gpus if fabric.is_on_one(facts, gpu)]
    if not gpus:
        return None
    return {
        **common.pick(facts.fabric, "switches", "manager", "mode"),
        "gpus": gpus,
        "text": fabric.state(facts.fabric),
    }


def _gpu(facts: HostSnapshot, gpu: Gpu) -> dict[str, object]:
    return {
        **common.pick(gpu, "pci", "board", "framework", "mode", "numa_node"),
        "vgpus": None if gpu.framework is None else len(gpu.vgpus),
        "allocated_pct": common.percent(room.known_share(facts, gpu)),
        **_instances(facts, gpu),
        **common.pick(gpu, "framebuffer_mib", "uuid", "name", "pci_id"),
        "cordon": None if gpu.uuid is None else common.cordon(facts.cordon_at(gpu.uuid)),
        "types": None
        if gpu.types is None
        else [
            {
                **common.pick(kind, name="type_name", id="id", max="max", framebuffer_mib="framebuffer_mib"),
                "creatable_now": gpu.creatable_now(kind.id),
            }
            for kind in gpu.types.values()
        ],
    }


def _instances(facts: HostSnapshot, gpu: Gpu) -> dict[str, object]:
    """The GPU instances, and two counts: all, and ours that are empty. Counts are null if unknown or without MIG."""
    rows = instances.rows(facts, gpu)
    counts = gpu.rules.mig_backed and instances.UNREAD not in rows
    return {
        "gpu_instances": len(rows) if counts else None,
        "cached": sum(one.state == "cached" for one in rows) if counts else None,
        "instances": common.plain(rows),
    }


def cordons(fleet: Fleet[HostCordons]) -> dict[str, object]:
    """The document of the hosts, GPUs and functions that are cordoned: they get no new vGPU."""
    rows = [
        {"host": host.host, **common.pick(one, "gpu", "vf"), "cordon": common.cordon(one)}
        for host in fleet.views
        for one in host.cordons
    ]
    return common.of_fleet("vgpumgr.cordons/1", fleet, {"cordons": rows})


def installations(fleet: Fleet[HostInstallation]) -> dict[str, object]:
    """host-1.json: what is installed on each host."""
    outcomes = {error.outcome for _, error in fleet.errors} | {one.outcome for one in fleet.views}
    rows = [_installation(one) for one in fleet.views]
    return common.document("vgpumgr.host/1", {"hosts": rows}, sorted(outcomes), unread=fleet.errors)


def _installation(one: HostInstallation) -> dict[str, object]:
    rows = one.installation.cordons
    return {
        **common.pick(one.installation, "host", "login", "user", "state", "pinned", "problems"),
        "cordons": None if rows is None else [common.pick(each, "gpu", "vf", "reason", "by", "at") for each in rows],
        "restore": _restore(one.installation.restore),
        "outcome": str(one.outcome),
        **common.pick(one.installation, "programs"),
    }


def _restore(restore: Restore | None) -> dict[str, object] | None:
    if restore is None:
        return None
    keys = ("slot", "parent", "type_name", "missing", "note")
    vgpus = [common.pick(vgpu, *keys, vm="vm_name") for vgpu in restore.vgpus]
    return {**common.pick(restore, "at", "problem"), "vgpus": vgpus}


def modes(fleet: Fleet[ModeHost]) -> dict[str, object]:
    hosts = [{"name": host.host, "gpus": [mode(row) for row in host.rows]} for host in fleet.views]
    return common.of_fleet("vgpumgr.mode/1", fleet, {"hosts": hosts})


def mode(row: ModeRow) -> dict[str, object]:
    """The row for one GPU, also in `mode set`. It lacks the host, which the document names once."""
    return {key: value for key, value in common.plain(row).items() if key != "host"}


def mig_show(fleet: Fleet[HostInstances]) -> dict[str, object]:
    """The document of the GPU instances of the GPUs in MIG mode."""
    hosts = [{"name": host.host, "gpus": common.plain(host.gpus)} for host in fleet.views]
    return common.of_fleet("vgpumgr.mig_show/1", fleet, {"hosts": hosts})


def schedulers(fleet: Fleet[SchedulerHost]) -> dict[str, object]:
    """The document that says how vGPUs share the time of each GPU."""
    findings = [finding for host in fleet.views for finding in host.findings]
    hosts = [{"name": host.host, "gpus": [scheduler(row) for row in host.rows]} for host in fleet.views]
    return common.of_fleet("vgpumgr.scheduler/1", fleet, {"hosts": hosts}, found=findings)


def scheduler(row: SchedulerRow) -> dict[str, object]:
    """The row for one GPU, also in `scheduler set`. It lacks the host, which the document names once."""
    wish = row.declared
    document = {
        **common.plain(row),
        "persistent": _persistent(row.persistent),
        "declared": None if wish is None else {**common.plain(wish), "text": settings.describe_wish(wish)},
    }
    return {key: value for key, value in document.items() if key != "host"}


def _persistent(layer: Persistent) -> dict[str, object]:
    current = layer.found
    setting = None if current is None else layer.setting
    return {
        "text": settings.describe(setting) if setting else current.text if current else None,
        **common.pick(setting, "policy", "time_slice_ns", "frequency_hz", "averaging_factor", "arr"),
        **common.pick(current, value="text", file="path", per_device="per_device"),
        "state": common.plain(layer.state),
    }
