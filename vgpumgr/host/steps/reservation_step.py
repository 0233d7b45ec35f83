"""The step set_reservation: keep the place of a vGPU in the ledger, or give it up. The hardware is not touched."""

import time
from typing import Any, Callable, List, Mapping

from ..files import Root
from ..ledger.ledger import Ledger, facts_of, identity, read_ledger, write_ledger
from ..protocol.ledger import OurVgpu
from ..protocol.steps import ReservationStep
from .hardware import changed
from .reservations import check_reservations, same_place


def set_reservation(root: Root, step: ReservationStep, at: Callable[[str], None]) -> None:
    """Carry out the step. The caller holds the host's exclusive lock. Raises Refusal."""
    ledger, key = read_ledger(root), identity(step)
    terms = step["terms"]
    if terms is None:
        after = ledger.with_reservation(key, None)
        if after == ledger:
            return
    else:
        now = time.time()
        _check_free(ledger, step, now)
        place = facts_of([step], OurVgpu)[0]
        kept = {name: terms[name] for name in ("owner", "by", "at", "taker")}
        after = ledger.with_reservation(key, {**place, **kept, "until": int(now) + terms["left_s"]})
    at("ledger: reservation")
    write_ledger(root, after)
    at("ledger: written")


def _check_free(ledger: Ledger, step: ReservationStep, now: float) -> None:
    """Raises Refusal(Changed) if the place belongs to somebody else, or the reservation is for another place."""
    check_reservations(ledger, step)
    for row in ledger.reserved(now):
        if identity(row) == identity(step):
            if _place(row) != _place(step):
                raise changed("no other place in {} {}".format(step["vm_name"], step["slot"]), row["parent"])
        elif same_place(row, step):
            raise changed("no reservation of {}".format(step["parent"]), "{} {}".format(row["vm_name"], row["slot"]))


def _place(place: Mapping[str, Any]) -> List[object]:
    return [place[key] for key in ("gpu_uuid", "vf_index", "type_name", "placement_id", "mig")]
