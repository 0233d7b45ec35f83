"""VMs and their vGPUs: the documents of `list`, `show`, `render`, `waiting` and `restarts`.

The VM definitions in the diff of Ansible's module vgpu are made here as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.documents import common
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.results import Fleet, VgpuList, View, VmReport
    from vgpumgr.core.evidence.restart import Waiting
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain, Hostdev
    from vgpumgr.core.reconcile.who_waits import WaitingSlot
    from vgpumgr.core.report.listing import VgpuRow
    from vgpumgr.names import Slot, VmName


def vgpus(found: VgpuList) -> dict[str, object]:
    """list-1.json: the vGPUs of several hosts."""
    return common.of_fleet("vgpumgr.list/1", found.fleet, {"vgpus": common.plain(found.rows)}, found=found.findings)


def show(report: VmReport) -> dict[str, object]:
    host = report.view.snapshot.host
    unread = [*report.unread, *((host, error) for error in report.errors)]
    outcomes = sorted({Outcome.DONE, *(error.outcome for _, error in unread)})
    defined = [{"slot": one.slot, "device": str(one.source)} for one in report.domain.inactive]
    about = {**vm(host, report.domain, report.rows), "hostdevs": defined}
    return common.document("vgpumgr.show/1", {"vm": about}, outcomes, unread=unread, found=report.findings)


def vm(host: str, domain: Domain, rows: Iterable[VgpuRow]) -> dict[str, object]:
    """One VM with its claims and vGPUs, as the document of `show` has it."""
    return {
        **common.pick(domain, "name", "uuid"),
        "host": host,
        "state": domain.condition,
        "claims": _claims(domain),
        "vgpus": common.plain([*rows]),
    }


def _claims(domain: Domain) -> list[dict[str, object]]:
    return [_claim(claim) for claim in (domain.claims.claims if domain.claims else ())]


def _claim(claim: Claim) -> dict[str, object]:
    return {
        **common.pick(claim, "slot", "generation"),
        "from": common.plain(claim.origin),
        **common.pick(claim, "site", "declared", "state", "by", "at"),
        "requested": str(claim.asked),
        **common.pick(claim.grant, *common.GRANT),
        **common.pick(claim.binding, "type_name", "gpu_uuid", "parent", "uuid"),
    }


def definition(domain: Domain | None) -> dict[str, object]:
    """The part of a VM's definition that concerns vGPUs.

    Empty values are left out, and so is who wrote a claim, and when.
    """
    if domain is None:
        return {"claims": {}, "hostdevs": []}
    return {
        "claims": {
            str(claim["slot"]): {
                key: value for key, value in claim.items() if key not in ("slot", "by", "at") and value is not None
            }
            for claim in _claims(domain)
        },
        "hostdevs": [_hostdev(device) for device in domain.inactive],
    }


def _hostdev(device: Hostdev) -> dict[str, object]:
    source = {"mdev" if isinstance(device.source, Mdev) else "pci": str(device.source)}
    return {**source, **({} if device.alias is None else {"alias": device.alias})}


def render(name: VmName, hostdevs: Iterable[tuple[Slot, str]], *, validated_by: str | None = None) -> dict[str, object]:
    """The document with the hostdev XML of a VM's claims.

    `validated_by`: the version of the libvirt that accepts all of it.
    """
    rows = [{"slot": slot, "xml": xml} for slot, xml in hostdevs]
    return common.document("vgpumgr.render/1", {"vm": name, "validated_by": validated_by, "hostdevs": rows})


def waiting(fleet: Fleet[View], rows: Iterable[WaitingSlot]) -> dict[str, object]:
    """The document of the slots that wait for room."""
    return common.of_fleet("vgpumgr.waiting/1", fleet, {"slots": [waiting_slot(row) for row in rows]})


def waiting_slot(row: WaitingSlot) -> dict[str, object]:
    """The row of one slot that waits."""
    refused = row.refused
    return {
        **common.pick(row, "vm", "slot", "host", "asked", "priority", "since", "by", "origin"),
        "fits_now": refused is None,
        "why": None if refused is None else refused.what,
        "details": [] if refused is None else [*refused.details],
        "hint": None if refused is None else refused.hint,
    }


def restarts(fleet: Fleet[View], rows: Iterable[Waiting]) -> dict[str, object]:
    """The document of the VMs whose vGPUs change at their next start, or once they are shut down.

    `device` in it is an mdev's UUID or a VF's address.
    """
    vms = [
        {
            **common.pick(row, "vm", "vm_uuid", "host"),
            "slots": [
                {**common.pick(change, "slot", "does", "type_name", "parent", "waits"), "device": str(change.device)}
                for change in row.slots
            ],
        }
        for row in rows
    ]
    return common.of_fleet("vgpumgr.restarts/1", fleet, {"vms": vms})
