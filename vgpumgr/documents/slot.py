"""Many requested slots: the document of `attach` and `detach` of several VMs, a row of Ansible's module vgpu, and the
definitions that its diff compares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver import asking
from vgpumgr.core.driver.profiles import ByProfile
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.documents import change, common, error, show
from vgpumgr.errors import HeldBack, Outcome

if TYPE_CHECKING:
    from vgpumgr.controller.requests import RequestsResult, SlotResult
    from vgpumgr.core.model.domain_xml import Domain, Hostdev


def row(slot: SlotResult) -> dict[str, object]:
    """`device`: the VF's PCI address, or the mdev's UUID if there is no VF; `error`: its class."""
    vgpu, wish = slot.row, slot.request.wish
    return {
        "vm": slot.vm,
        "slot": slot.request.slot,
        "host": slot.host,
        "profile": wish.profile.text if isinstance(wish, ByProfile) else None,
        "requested": asking.describe(wish, slot.request.conditions) if wish is not None else None,
        "gpu": vgpu.gpu if vgpu else None,
        "device": (vgpu.vf or vgpu.uuid) if vgpu else None,
        "uuid": vgpu.uuid if vgpu else None,
        "type": vgpu.type_name if vgpu else None,
        **(common.pick(vgpu, *common.GRANT) if vgpu else common.granted(None)),
        "outcome": common.plain(slot.outcome),
        "changed": slot.changed,
        "error": type(slot.error).__name__ if slot.error else None,
    }


def together(result: RequestsResult, *, check: bool) -> dict[str, object]:
    """plan-1.json and change-1.json of several VMs; if some cannot be served, and so none is, the plan is empty."""
    fleet = result.fleet
    assert fleet is not None
    hosts = {str(slot.error): slot.host for slot in result.slots}
    ours = [slot.outcome for slot in result.slots if not isinstance(slot.error, HeldBack)]
    unread = dict([*common.fell_away((hosts[str(one)], one) for one in result.problems), *result.unread])
    outcomes = dict.fromkeys(one for one in ours if one != Outcome.UNCHANGED)
    return {
        "schema": change.PLAN if check else change.CHANGE,
        "changed": result.changed,
        **common.frame(outcomes or (Outcome.UNCHANGED,), unread=unread.items()),
        "fingerprint": fleet.fingerprint,
        "findings": [
            *change.of_inventory(fleet.findings),
            *common.findings(dict.fromkeys(found for slot in result.slots for found in slot.findings)),
            *common.findings(result.findings),
        ],
        "plan": [] if result.is_held_back else list(fleet.records),
        "errors": [{"host": hosts[str(one)], **error.document(one)} for one in result.problems],
        "result": {"vms": [_vm(slot) for slot in result.slots]},
    }


def _vm(slot: SlotResult) -> dict[str, object]:
    wish = slot.request.wish
    count = f" --count {slot.request.count}" if slot.request.count > 1 else ""
    return {
        "vm": slot.vm,
        "host": slot.host,
        "slot": slot.request.slot,
        "requested": None if wish is None else asking.describe(wish, slot.request.conditions) + count,
        "outcome": common.plain(slot.outcome),
        "changed": slot.changed,
        "error": None if slot.error is None else error.document(slot.error),
        "vgpus": common.plain(slot.rows),
    }


def definition(domain: Domain | None) -> dict[str, object]:
    """A VM's definition as far as vGPUs are concerned, without empty values, and without who wrote it and when."""
    if domain is None:
        return {"claims": {}, "hostdevs": []}
    return {
        "claims": {
            str(claim["slot"]): {
                key: value for key, value in claim.items() if key not in ("slot", "by", "at") and value is not None
            }
            for claim in show.claims(domain)
        },
        "hostdevs": [_hostdev(device) for device in domain.inactive],
    }


def _hostdev(device: Hostdev) -> dict[str, object]:
    named = {"mdev" if isinstance(device.source, Mdev) else "pci": str(device.source)}
    return {**named, **({} if device.alias is None else {"alias": device.alias})}
