"""MIG in a host's facts: what passed the wire's check as a number may still lie outside any GPU, and then nothing of it is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver.mig import InstanceProfile
from vgpumgr.core.model.mig import Instance, Mig, MigPlace, OurInstance
from vgpumgr.core.model.vgpu import InstanceEntry
from vgpumgr.names import GpuUuid, PciAddress

if TYPE_CHECKING:
    from vgpumgr.host import protocol

_MOST_SLICES = 64  # memory slices of a GPU; the largest of today have 12
_ID_END = 2**32


def parse(row: protocol.MigFact) -> Mig | None:
    """None if that cannot be (why_impossible)."""
    if why_impossible(row) is not None:
        return None
    instances = row["instances"]
    return Mig(
        enabled=row["enabled"],
        pending=row["pending"],
        profiles=tuple(sorted(map(_profile, row["profiles"]), key=lambda profile: profile.id)),
        instances=None
        if instances is None
        else tuple(sorted(map(_instance, instances), key=lambda one: (one.start, one.id))),
    )


def _profile(row: protocol.MigProfileFact) -> InstanceProfile:
    return InstanceProfile(
        id=row["id"],
        name=row["name"],
        slices=row["slices"],
        size=row["size"],
        starts=tuple(sorted(row["starts"])),
        memory_mib=row["memory_mib"],
        maximum=row["max"],
    )


def _instance(row: protocol.MigInstanceFact) -> Instance:
    return Instance(
        id=row["id"], profile_id=row["profile_id"], start=row["start"], size=row["size"], compute=row["compute"]
    )


def parse_place(row: protocol.MigPlace) -> MigPlace:
    return MigPlace(profile=row["profile"], profile_id=row["profile_id"], start=row["start"])


def parse_entry(row: protocol.InstanceEntry) -> InstanceEntry:
    """An entry of the ledger."""
    instance = OurInstance(
        gpu_uuid=GpuUuid(row["gpu_uuid"]),
        gpu=PciAddress(row["gpu"]),
        profile=row["profile"],
        profile_id=row["profile_id"],
        start=row["start"],
        size=row["size"],
    )
    return InstanceEntry(instance=instance, boot=row["boot"], state=row["state"])


def is_possible(row: protocol.InstanceEntry) -> bool:
    """Whether there can be such an instance. One that is no instance is nothing that could be destroyed."""
    return _lies(row["start"], row["size"]) and _is_id(row["profile_id"])


def why_impossible(row: protocol.MigFact) -> str | None:
    """What in it cannot be, if anything; None if all can."""
    for profile in row["profiles"]:
        places = all(_lies(start, profile["size"]) for start in profile["starts"])
        if not (places and _is_id(profile["id"]) and 0 < profile["slices"] <= _MOST_SLICES and profile["max"] > 0):
            return f"the host reports an impossible profile {profile['name']!r:.40}"
    for instance in row["instances"] or ():
        if not (
            _lies(instance["start"], instance["size"]) and _is_id(instance["id"]) and _is_id(instance["profile_id"])
        ):
            return f"the host reports an impossible GPU instance at {instance['start']}, of {instance['size']} slices"
    return None


def _lies(start: int, size: int) -> bool:
    return 0 <= start < start + size <= _MOST_SLICES


def _is_id(number: int) -> bool:
    return 0 <= number < _ID_END
