"""Results as plain data (JSON's types and no others), for who cannot take our values: the CLI's documents and the Ansible collection."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from vgpumgr.core.driver import profiles
from vgpumgr.core.plan import changes

if TYPE_CHECKING:
    from vgpumgr.controller.results import ReconcileResult, UnitResult
    from vgpumgr.controller.wanted import SlotResult
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain, Hostdev
    from vgpumgr.core.model.observed import Finding
    from vgpumgr.errors import VgpumgrError


def of_error(error: VgpumgrError) -> dict[str, object]:
    """What a script may want to know of an error."""
    return {
        "error": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "details": list(error.details),
    }


def error_text(error: VgpumgrError) -> str:
    """All that an error says, as a person reads it: what and where, a line for each detail, and last what to do."""
    lines = [error.message, *(f"  {line}" for line in error.details)]
    return "\n".join([*lines, f"hint: {error.hint}"] if error.hint else lines)


def of_finding(finding: Finding) -> dict[str, object]:
    return asdict(finding)


def of_claim(claim: Claim) -> dict[str, object]:
    """One claim of a VM, as `show` has it."""
    return {
        "slot": claim.slot,
        "generation": claim.generation,
        "from": claim.origin,
        "site": claim.site,
        "declared": claim.declared,
        "state": claim.state,
        "by": claim.by,
        "at": claim.at,
        "asked": profiles.describe(claim.wish),
        "type_name": claim.binding.type_name,
        "gpu": claim.binding.gpu_uuid,
        "parent": claim.binding.parent,
        "uuid": claim.binding.uuid,
    }


def of_definition(domain: Domain | None) -> dict[str, object]:
    """What a VM's definition says of vGPUs: what a diff compares. Who wrote it and when is left out."""
    if domain is None:
        return {"claims": {}, "hostdevs": []}
    claims = domain.claims.claims if domain.claims else ()
    told = {claim.slot: of_claim(claim) for claim in claims}
    return {
        "claims": {
            slot: {key: value for key, value in row.items() if key not in ("slot", "by", "at") and value is not None}
            for slot, row in told.items()
        },
        "hostdevs": [_hostdev(device) for device in domain.inactive],
    }


def _hostdev(device: Hostdev) -> dict[str, object]:
    named = {"mdev": device.uuid, "pci": device.pci, "alias": device.alias}
    return {key: value for key, value in named.items() if value is not None}


def of_slot(slot: SlotResult) -> dict[str, object]:
    """One row of a WantedResult. `device`: the VF's PCI address, or the mdev's UUID where there is no VF; `error`: its class."""
    row = slot.row
    return {
        "vm": slot.vm,
        "slot": slot.wanted.slot,
        "host": slot.host,
        "profile": slot.wanted.profile.text if slot.wanted.profile else None,
        "gpu": row.gpu if row else None,
        "device": (row.vf or row.uuid) if row else None,
        "uuid": row.uuid if row else None,
        "type": row.type_name if row else None,
        "outcome": slot.outcome,
        "changed": slot.changed,
        "error": type(slot.error).__name__ if slot.error else None,
    }


def of_reconcile(result: ReconcileResult) -> dict[str, object]:
    """The document of plan and reconcile, less its schema's name."""
    plans = result.fleet.plans
    return {
        "changed": result.fleet.changed and (result.check or result.guard is None),
        "outcomes": list(result.outcomes),
        "fingerprint": result.fleet.fingerprint,
        "findings": [
            *(
                {"kind": "inventory", "host": None, "vm": None, "slot": None, "text": str(finding)}
                for finding in result.fleet.findings
            ),
            *(of_finding(finding) for plan in plans for finding in plan.findings),
            *(of_finding(finding) for finding in result.findings),
        ],
        "drift": [asdict(row) for plan in plans for row in plan.drift],
        "plan": [{"host": plan.host, **changes.as_json(step)} for plan in plans for step in plan.steps],
        "errors": [
            {"host": host, **of_error(error)}
            for host, error in (*result.errors, *(((None, result.guard),) if result.guard else ()))
        ],
        "result": {
            "hosts": [
                {
                    "name": host.host,
                    "seconds": round(host.seconds, 3),
                    "units": [of_unit(host.host, unit) for unit in host.units],
                }
                for host in result.hosts
            ]
        },
    }


def of_unit(host: str, result: UnitResult) -> dict[str, object]:
    """One job of a reconcile."""
    job = result.unit.job
    return {
        "host": host,
        "vm": job.vm,
        "slot": job.slot,
        "gpu": job.gpu,
        "why": job.why,
        "outcome": result.outcome,
        "error": None if result.error is None else of_error(result.error),
    }
