"""`vgpumgr_reservations`: places that a host keeps for the VMs of an owner, for as long as they are declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.core.inventory import asks, reading
from vgpumgr.core.inventory.model import ReservationDeclaration
from vgpumgr.names import OwnerName

if TYPE_CHECKING:
    from vgpumgr.core.inventory.located import Member, Value
    from vgpumgr.core.inventory.report import Report

VARIABLE: Final = "vgpumgr_reservations"
_EXAMPLE: Final = "{team-a: {profile: 8Q, count: 4}}"
_FOR: Final = "for"
_COUNT: Final = "count"


def read_reservations(value: Value, report: Report) -> tuple[ReservationDeclaration, ...]:
    """The reservations, by name. A reservation without `for` is for the owner of the same name."""
    table = reading.read_table(value, VARIABLE, report, example=_EXAMPLE) or {}
    found = [one for member in table.values() if (one := _read(member, report)) is not None]
    return tuple(sorted(found, key=lambda one: one.name))


def _read(member: Member, report: Report) -> ReservationDeclaration | None:
    what = f"the reservation {member.key.text!r}"
    table = reading.read_table(member.value, what, report, example="{profile: 8Q, count: 4}", none_allowed=False)
    if table is None:
        return None
    reading.check_keys(table, (*asks.OF_A_PLACE, _COUNT, _FOR), what, report)
    entries = dict(table)
    owner, count = entries.pop(_FOR, None), entries.pop(_COUNT, None)
    asked = asks.read_asked(member, entries, what, report)
    number = 1 if count is None else reading.read_whole(count.value, f"count of {what}", report, low=1, high=1000)
    whose = OwnerName(member.key.text) if owner is None else asks.read_owner(owner.value, f"for of {what}", report)
    if asked is None or number is None or whose is None:
        return None
    return ReservationDeclaration(name=member.key.text, owner=whose, count=number, asked=asked)
