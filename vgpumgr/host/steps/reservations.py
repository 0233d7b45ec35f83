"""Places that the ledger's entries take: whether a step can have its place, and whether it has it already."""

from typing import Any, Tuple

from ..ledger.ledger import Entry, Ledger, identity
from ..protocol.ledger import LEAVING, OurVgpu
from .hardware import changed


def place_of(step: OurVgpu) -> str:
    """The vGPU of the step, in words."""
    return "{} on {}".format(step["type_name"], step["parent"])


def same_place(entry: Entry, step: OurVgpu) -> bool:
    """Whether the entry is for the step's VF or mdev."""
    on_vf = step["vf_index"] is not None and (entry["gpu_uuid"], entry["vf_index"]) == (
        step["gpu_uuid"],
        step["vf_index"],
    )
    return on_vf or (step["uuid"] is not None and entry["uuid"] == step["uuid"])


def superseded(entry: Entry, step: OurVgpu) -> bool:
    """Whether the entry is an older generation of the same slot and place: one vGPU must not have two entries."""
    return (entry["vm_uuid"], entry["slot"]) == (step["vm_uuid"], step["slot"]) and same_place(entry, step)


def check_reservations(ledger: Ledger, step: OurVgpu) -> None:
    """Raises Refusal(Changed) if another entry has the place, or if the step's entry is for another place."""
    for entry in ledger.entries:
        if identity(entry) == identity(step):
            _check_entry_for(entry, step)
            if entry["state"] == LEAVING:
                raise changed("no detach under way", "its entry is leaving")
        elif same_place(entry, step) and not superseded(entry, step):
            raise changed(
                "no entry for {}".format(step["parent"]),
                "one for {} slot {}".format(entry["vm_name"], entry["slot"]),
            )


def check_ours(ledger: Ledger, step: OurVgpu) -> Entry:
    """The step's entry. Raises Refusal(Changed) if there is none, or if it is for another place."""
    for entry in ledger.entries:
        if identity(entry) == identity(step):
            _check_entry_for(entry, step)
            return entry
    raise changed("an entry for {} slot {}".format(step["vm_name"], step["slot"]), "no entry")


def _check_entry_for(entry: Entry, step: OurVgpu) -> None:
    """Raises Refusal(Changed) if GPU UUID, VF index, uuid or type name differ.

    Addresses and type ids are not compared: a boot can change the addresses, and another driver the ids.
    """
    mine: Tuple[Any, ...] = (step["gpu_uuid"], step["vf_index"], step["uuid"], step["type_name"])
    if (entry["gpu_uuid"], entry["vf_index"], entry["uuid"], entry["type_name"]) != mine:
        raise changed(place_of(step), "its entry is for {} ({})".format(entry["parent"], entry["type_name"]))
