"""One of many requested slots: a row of Ansible's module vgpu, and the definitions that its diff compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.documents import common, show

if TYPE_CHECKING:
    from vgpumgr.controller.requests import SlotResult
    from vgpumgr.core.model.domain_xml import Domain, Hostdev


def row(slot: SlotResult) -> dict[str, object]:
    """`device`: the VF's PCI address, or the mdev's UUID if there is no VF; `error`: its class."""
    vgpu = slot.row
    return {
        "vm": slot.vm,
        "slot": slot.request.slot,
        "host": slot.host,
        "profile": slot.request.profile.text if slot.request.profile else None,
        "gpu": vgpu.gpu if vgpu else None,
        "device": (vgpu.vf or vgpu.uuid) if vgpu else None,
        "uuid": vgpu.uuid if vgpu else None,
        "type": vgpu.type_name if vgpu else None,
        "outcome": common.plain(slot.outcome),
        "changed": slot.changed,
        "error": type(slot.error).__name__ if slot.error else None,
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
