"""Facts about the host: everything that Snapshot holds, read afresh. Nothing here writes.

A file that cannot be read makes one fact null and adds one row to `unknown`; it never hides the rest.
"""

import sys
import time
from typing import Any, Callable, Collection, Dict, List, NamedTuple, Optional, Sequence

from ..files import Root, Unknowns, read_all
from ..ledger import ledger
from ..ledger.blocked_write import find_holding
from ..protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO, GpuFact, TypeFact
from ..protocol.ledger import BlockedWriteFact, CordonFact, FreedFact, InstanceEntry, LedgerEntry
from ..protocol.session import PROTOCOL
from ..protocol.snapshot import ActiveFact, HandleFact, Snapshot
from ..refusal import Refusal
from . import gpu, mdev, pci
from .boot import boot_id, read_line
from .fabric import read_fabric
from .module import read_modprobe, read_module
from .nvml import GpuQuery, NvmlGpu, NvmlReport, read_nvml
from .vfio import Unreadable, Users, has_vfio, look


class _Seen(NamedTuple):
    """One GPU, before NVML is queried."""

    card: pci.Card
    information: pci.Information
    offer: gpu.Offer


def observe(
    root: Root,
    load_nvml: Callable[[], Any],
    only: Optional[Collection[str]] = None,
    *,
    pause: Callable[[float], None] = time.sleep,
) -> Snapshot:
    """The host's facts, restricted to the GPU UUIDs in `only` if it is given. The caller holds the host's lock.

    NVML is not queried for a GPU without VFs yet: an open handle would keep sriov-manage from creating them. It is
    queried all the same if this program removed the VFs: nobody creates them now, and the next step depends on the
    GPU's MIG mode.
    """
    unknown = Unknowns()
    boot = boot_id(root, unknown)
    own_ledger = _ledger(root, unknown)
    entries = None if own_ledger is None else ledger.facts_of(own_ledger.entries, LedgerEntry)
    rows = own_ledger or ledger.Ledger({}, ())
    cards = pci.find_cards(root, unknown)
    seen = _see(root, cards, unknown, only)
    asked = [each for each in seen if _is_asked(root, each, own_ledger, boot)]
    report = read_nvml(load_nvml, [_wanted(each) for each in asked], unknown, pause)
    if report.failure is not None:
        unknown.add("nvml", report.failure)
    # Only the entries of this boot: another driver may have given their ids to other types.
    current = _of_boot(entries or [], boot)
    gpus = [_gpu_fact(root, each, report, current, unknown.of(each.card.pci)) for each in seen]
    users = _users(root, unknown)
    return {
        "protocol": PROTOCOL,
        "boot": boot,
        "machine": read_line(root, "/etc/machine-id", "machine", unknown),
        "hostname": read_line(root, "/proc/sys/kernel/hostname", "hostname", unknown) or "",
        "versions": _versions(root, report, unknown),
        "gpus": gpus,
        "handles": users.handles if users is not None else None,
        "qemus": users.qemus if users is not None else None,
        "active": _active(report, users.handles if users is not None else [], gpus, unknown),
        "silent": _silent(report, gpus),
        "ledger": entries,
        "freed": ledger.facts_of(rows.freed, FreedFact),
        "cordons": ledger.facts_of(rows.cordons, CordonFact),
        "reservations": ledger.reservation_facts(rows),
        "instances": ledger.facts_of(rows.instances, InstanceEntry),
        "ledger_file": own_ledger is None or own_ledger.on_disk,
        "blocked_writes": _blocked_writes(own_ledger, boot),
        "modprobe": read_modprobe(root, unknown),
        "module": read_module(root, unknown),
        "vfio": has_vfio(root, unknown),
        "fabric": read_fabric(root, cards, None if users is None else users.names, unknown),
        "unknown": unknown.rows,
    }


def _of_boot(entries: Sequence[LedgerEntry], boot: str) -> List[LedgerEntry]:
    return [entry for entry in entries if entry["boot"] == boot]


def _is_asked(root: Root, seen: _Seen, own_ledger: Optional[ledger.Ledger], boot: str) -> bool:
    """Whether NVML is queried about the GPU."""
    if gpu.left_alone(root, seen.card) is None:
        return True
    return own_ledger is not None and own_ledger.took_vfs(seen.information.uuid, boot)


def _blocked_writes(own_ledger: Optional[ledger.Ledger], boot: str) -> Optional[List[BlockedWriteFact]]:
    if own_ledger is None:
        return None
    return ledger.facts_of(find_holding(own_ledger.blocked_writes, boot), BlockedWriteFact)


def _ledger(root: Root, unknown: Unknowns) -> Optional[ledger.Ledger]:
    try:
        return ledger.read_ledger(root)
    except Refusal as refusal:
        unknown.add("ledger", refusal.message)
        unknown.add("blocked_writes", "it is in the ledger")
        return None


def read_driver_version(root: Root, unknown: Unknowns) -> Optional[str]:
    """The NVIDIA module's version, such as 570.133.10; null (and noted) if it is not loaded."""
    try:
        return read_all(root.path("/sys/module/nvidia/version")).decode("utf-8", "replace").strip()
    except OSError:
        banner = read_line(root, "/proc/driver/nvidia/version", "versions.driver", unknown) or ""
        return parse_driver_banner(banner)


def _versions(root: Root, report: NvmlReport, unknown: Unknowns) -> Dict[str, Optional[str]]:
    return {
        "kernel": read_line(root, "/proc/sys/kernel/osrelease", "versions.kernel", unknown),
        "python": ".".join(map(str, sys.version_info[:3])),
        "driver": read_driver_version(root, unknown),
        "nvml": report.version,
    }


def parse_driver_banner(text: str) -> Optional[str]:
    """The version in `NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.10  Fri …`."""
    for line in text.splitlines():
        if line.startswith("NVRM version:"):
            for word in line.split():
                if word[0].isdigit() and "." in word and word.replace(".", "").isdigit():
                    return word
    return None


def _see(root: Root, cards: Sequence[pci.Card], unknown: Unknowns, only: Optional[Collection[str]]) -> List[_Seen]:
    seen: List[_Seen] = []
    mdevs: Optional[Sequence[mdev.Mdev]] = None
    why_no_mdevs = ""
    try:
        mdevs = mdev.find_mdevs(root)
    except OSError as error:
        why_no_mdevs = "cannot list the mediated devices: {}".format(error)
    for card in cards:
        information = _information(root, card)
        if only is not None and information.uuid not in only:
            continue
        offer = _offer(root, card, mdevs, why_no_mdevs, unknown.of(card.pci))
        seen.append(_Seen(card, information, offer))
    return seen


def _information(root: Root, card: pci.Card) -> pci.Information:
    try:
        return pci.read_information(root, card.pci)
    except OSError:  # the driver does not have this GPU; NVML may, or else the row is written later
        return pci.Information(uuid=None, model=None)


def _offer(
    root: Root,
    card: pci.Card,
    mdevs: Optional[Sequence[mdev.Mdev]],
    why_no_mdevs: str,
    unknown: Unknowns,
) -> gpu.Offer:
    framework, problem = gpu.find_framework(root, card)
    if framework == VENDOR_VFIO:
        return gpu.read_vendor_offer(root, card, unknown)
    if framework in (MDEV_PF, MDEV_VF):
        if mdevs is not None:
            return gpu.read_mdev_offer(root, card, framework, mdevs, unknown)
        # Parents without their vGPUs would look empty: it is better to show none at all.
        problem = why_no_mdevs
    unknown.add("framework", problem or "unknown")
    return gpu.Offer(framework=None, types={}, offers=[], parents=[], problem=problem)


def _wanted(seen: _Seen) -> GpuQuery:
    framework = seen.offer.framework
    type_ids = frozenset(seen.offer.types)
    return GpuQuery(pci=seen.card.pci, types=framework == VENDOR_VFIO, framework=framework, listed=type_ids)


def _on(uuid: Optional[str], entries: Sequence[LedgerEntry]) -> List[LedgerEntry]:
    return [entry for entry in entries if entry["gpu_uuid"] == uuid]


def _types(
    root: Root, offer: gpu.Offer, nvml: NvmlGpu, ours: Sequence[LedgerEntry], unknown: Unknowns
) -> List[TypeFact]:
    """The GPU's types. The GPU's vGPUs get the names of their types and, in MIG mode, their GPU instances."""
    types = gpu.unify_types(offer.types, nvml.types)
    for fact in types:
        fact["mig_profile"], fact["max_per_instance"] = nvml.type_mig.get(fact["id"], (None, None))
    gpu.name_vgpus(offer.parents, {fact["id"]: fact for fact in types}, ours, unknown)
    if nvml.mig is not None and nvml.mig["enabled"]:
        gpu.locate_vgpus(root, offer.parents, unknown)
    return types


def _gpu_fact(
    root: Root, seen: _Seen, report: NvmlReport, entries: Sequence[LedgerEntry], unknown: Unknowns
) -> GpuFact:
    card = seen.card
    nvml = report.gpus.get(card.pci, NvmlGpu())
    information = seen.information
    if information.uuid is None and nvml.uuid is not None:
        # The driver shows it in /proc only after the GPU was opened, as just now (nv-procfs.c, nv_uuid_cache).
        information = _information(root, card)
    uuid, name = information.uuid, information.model or nvml.name
    why = "/proc/driver/nvidia/gpus/{} does not show it".format(card.pci)
    if uuid is None:
        # NVML's UUID alone is not enough: each step reads it there again before it writes.
        unknown.add("uuid", why + ("" if nvml.uuid is None else ", although NVML does: {}".format(nvml.uuid)))
    if name is None:
        unknown.add("name", why)
    failure = report.failure
    if failure is None and card.pci not in report.gpus:
        failure = gpu.left_alone(root, card)
    offers = seen.offer.framework is not None
    if failure is not None:
        for key in ("mode", "mig", "framebuffer_mib", *(["scheduler"] if offers else [])):
            unknown.add(key, failure)
    types = _types(root, seen.offer, nvml, _on(uuid, entries), unknown) if offers else None
    return {
        "pci": card.pci,
        "uuid": uuid,
        "name": name,
        "pci_id": card.pci_id,
        "framework": seen.offer.framework,
        "problem": seen.offer.problem,
        "mode": nvml.mode,
        "numa_node": gpu.numa_node(root, card, unknown),
        "local_cpus": read_line(root, "{}/{}/local_cpulist".format(pci.DEVICES, card.pci), "local_cpus", unknown),
        "framebuffer_mib": nvml.framebuffer_mib,
        "types": types,
        "offers": seen.offer.offers,
        "parents": seen.offer.parents,
        "places": nvml.places,
        "mig": nvml.mig,
        "scheduler": nvml.scheduler,
        "fault": report.fault or nvml.fault,
        "fabric": nvml.fabric,
    }


def _users(root: Root, unknown: Unknowns) -> Optional[Users]:
    try:
        return look(root)
    except Unreadable as error:
        unknown.add("handles", str(error))
        return None


def _active(
    report: NvmlReport, handles: Sequence[HandleFact], gpus: Sequence[GpuFact], unknown: Unknowns
) -> Optional[List[ActiveFact]]:
    """All GPUs' running vGPUs, as far as NVML reports them; null if it reports nothing at all."""
    if report.failure is not None:
        unknown.add("active", report.failure)
        return None
    rows = [row for fact in gpus for row in report.gpus.get(fact["pci"], NvmlGpu()).active or []]
    names = {handle["vm_uuid"]: handle["vm_name"] for handle in handles if handle["vm_uuid"]}
    for row in rows:
        row["vm_name"] = names.get(row["vm_uuid"] or "")
        row["vf"] = _vf_of(row, handles, gpus)
    return rows


def _silent(report: NvmlReport, gpus: Sequence[GpuFact]) -> Dict[str, str]:
    """The GPUs that offer vGPUs but for which NVML does not report what runs there, and why."""
    pairs = ((fact, report.gpus.get(fact["pci"])) for fact in gpus if fact["framework"] is not None)
    return {fact["pci"]: nvml.silent for fact, nvml in pairs if nvml is not None and nvml.silent is not None}


def _vf_of(row: ActiveFact, handles: Sequence[HandleFact], gpus: Sequence[GpuFact]) -> Optional[str]:
    """The VF of a running vGPU: the only one on the GPU whose /dev/vfio path the VM has open; else null.

    NVML names only the VM.
    """
    paths = {handle["path"] for handle in handles if row["vm_uuid"] and handle["vm_uuid"] == row["vm_uuid"]}
    vfs = [
        parent["pci"]
        for fact in gpus
        if fact["pci"] == row["gpu"] and fact["framework"] != MDEV_PF
        for parent in fact["parents"]
        for vgpu in parent["vgpus"]
        if paths.intersection(vgpu["vfio"])
    ]
    return vfs[0] if len(vfs) == 1 else None
