"""What is asked of a host's GPUs: the declared slots that have no vGPU yet, and the mix of what was attached lately."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr import names
from vgpumgr.core.driver import asking, profiles
from vgpumgr.core.reconcile import tasks
from vgpumgr.core.report.capacity import Question
from vgpumgr.core.slot import to_come

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.driver.asking import Way
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.attached import History
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import GpuUuid, PciAddress

Source = Literal["declared", "waiting", "journal"]
DECLARED: Final = "declared"
WAITING: Final = "waiting"
JOURNAL: Final = "journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Question):
    """One vGPU that is asked for. `gpu_id`: the only GPU that it may be on; None: any GPU of the host."""

    gpu_id: PciAddress | GpuUuid | None = None
    source: Source

    def suits(self, way: Way) -> bool:
        """Whether a GPU that is divided in this way may serve it."""
        match self.wish:
            case profiles.ByMigProfile():
                return way == asking.MIG
            case profiles.ByProfile(profile=profile):
                is_backed = profiles.name_of(f"any-{profile.short}").slices is not None
                return (way == asking.MIG) == is_backed
            case _:
                return self.conditions.only in (None, way)


def declared_slots(view: HostView, declared: HostDeclaration) -> list[Asked]:
    """The requests for what the inventory declares and the host lacks, then for what waits since an attach.

    Declared slots come first, sorted by name, then the places of declared reservations that their owners lack.
    """
    there = tasks.placed(view)
    slots = ((vm.name, slot) for vm in declared.vms.values() for slot in vm.slots.values())
    asked = [
        Asked(wish=slot.wish, conditions=slot.conditions, gpu_id=slot.gpu_id, source=DECLARED)
        for vm, slot in sorted(slots, key=lambda one: (one[0], names.slot_order(one[1].slot)))
        if (vm, slot.slot) not in there
    ]
    for one in declared.reservations:
        place = Asked(wish=one.asked.wish, conditions=one.asked.conditions, gpu_id=one.asked.gpu_id, source=DECLARED)
        asked += [place] * to_come.missing(view, declared, one, newcomer=True)
    return asked + [
        Asked(wish=wait.wish, conditions=wait.conditions, source=WAITING)
        for _, wait in tasks.waiting_attaches(view, declared)
    ]


def of_history(history: History, host: str) -> dict[Asked, int]:
    """How often each profile was attached lately on a host; if nothing was attached there, on all hosts."""
    return {
        Asked(wish=wish, conditions=asking.NO_CONDITIONS, source=JOURNAL): count
        for wish, count in history.on(host).items()
    }


def scaled(mix: Mapping[Asked, int], sizes: Mapping[Asked, int], room_mib: int) -> list[Asked]:
    """As many vGPUs as `room_mib` holds, in the mix's proportions. `sizes`: in MiB; a request without one is left out.

    The numbers are rounded down. The remaining room goes to the requests that lost the most by the rounding.
    """
    able = {asked: number for asked, number in mix.items() if sizes.get(asked)}
    total = sum(number * sizes[asked] for asked, number in able.items())
    exact = {asked: Fraction(number * room_mib, total) for asked, number in able.items()}
    counts = {asked: int(number) for asked, number in exact.items()}
    left_mib = room_mib - sum(number * sizes[asked] for asked, number in counts.items())
    for asked in sorted(exact, key=lambda one: counts[one] - exact[one]):
        if sizes[asked] <= left_mib:
            counts[asked] += 1
            left_mib -= sizes[asked]
    return [asked for asked, number in counts.items() for _ in range(number)]
