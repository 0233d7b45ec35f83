"""MIG in a host's facts.

A number can have the shape that `wire` checks, and yet be impossible. Then all MIG facts of that GPU are dropped.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from vgpumgr.core.driver.mig import InstanceProfile
from vgpumgr.core.model.mig import Instance, Mig, MigPlace, OurInstance
from vgpumgr.core.model.vgpu import InstanceEntry
from vgpumgr.host.protocol import ledger, mig
from vgpumgr.host.protocol.mig import MigFact, MigInstanceFact, MigProfileFact
from vgpumgr.link.values.by_name import declare, maybe, rows

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_SLICES = 64  # memory slices of a GPU; the largest of today have 12
_ID_END = 2**32

declare(mig.MigPlace, MigPlace)
_parse_instance = declare(MigInstanceFact, Instance)
_parse_profile = declare(
    MigProfileFact, InstanceProfile, maximum="max", starts=lambda row: tuple(sorted(row["starts"]))
)
_parse_mig = declare(
    MigFact,
    Mig,
    profiles=lambda row: tuple(sorted(map(_parse_profile, row["profiles"]), key=attrgetter("id"))),
    instances=lambda row: maybe(rows(row["instances"], _parse_instance), _in_order),
)
parse_entry = declare(ledger.InstanceEntry, InstanceEntry, instance=declare(mig.OurInstance, OurInstance))


def parse(row: MigFact | None) -> Mig | None:
    """The MIG facts as a value; None if they cannot be true (why_impossible)."""
    return _parse_mig(row) if row is not None and why_impossible(row) is None else None


def _in_order(instances: Iterable[Instance]) -> tuple[Instance, ...]:
    return tuple(sorted(instances, key=attrgetter("start", "id")))


def is_possible(row: ledger.InstanceEntry) -> bool:
    """Whether such a GPU instance can exist. If not, its entry names nothing that could be destroyed."""
    return _lies(row["start"], row["size"]) and _is_id(row["profile_id"])


def why_impossible(row: MigFact) -> str | None:
    """The first thing in the facts that cannot be true, in words; None if all can."""
    for profile in row["profiles"]:
        places = profile["starts"] and all(_lies(start, profile["size"]) for start in profile["starts"])
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
