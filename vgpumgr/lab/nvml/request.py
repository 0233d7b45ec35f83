"""Changes that the mock libnvidia-ml.so.1 and the simulated nvidia-smi request: one line, written to STATE_PATH.

    scheduler pci=0000:41:00.0 policy=2 arr=2 factor=33 frequency=480 slice=0               the v1 call
    scheduler pci=0000:41:00.0 engine=1 policy=2 factor=33 frequency=480                    the _v2 call
    mixed pci=0000:41:00.0 on=1                                                             mixed-size mode on, or off
    mig pci=0000:41:00.0 on=1                                                               MIG mode on, or off
    reset pci=0000:41:00.0                                                                  nvidia-smi --gpu-reset
    vfs pci=0000:41:00.0 on=1                                                               sriov-manage -e, or -d
    create-instance pci=0000:41:00.0 profile=14 start=2                                     no start: driver's choice
    create-compute pci=0000:41:00.0 instance=7 profile=1                                    in the serial's instance
    destroy-instance pci=0000:41:00.0 serial=7                                              and destroy-compute

write(2) returns when it is done; its errno is the answer: EOPNOTSUPP and EINVAL are NVML's *not supported* and *invalid
argument*, EBUSY is *in use*, ENOSPC *insufficient resources*, ENODEV a missing GPU, EAGAIN an unbindLock that cannot be
obtained. Numbers are the caller's, unchecked; one that is missing is 0 in an order of a scheduler.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from vgpumgr.lab.driver.errors import os_error
from vgpumgr.lab.driver.scheduler import Order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.lab.driver.driver import Driver


def carry_out(driver: Driver, text: str) -> None:
    """Carry out the line. Raises OSError: the driver's refusal, or EINVAL for an unknown line."""
    word, *tokens = text.split() or [""]
    fields = dict(token.split("=", 1) for token in tokens if "=" in token)
    pci = fields.pop("pci", None)
    if pci is None:
        raise os_error(errno.EINVAL)
    match word, fields:
        case "scheduler", _:
            driver.set_scheduler(pci, _order(fields))
        case "mixed", {"on": "0" | "1" as switch}:
            driver.set_mixed(pci, mixed=switch == "1")
        case "mig", {"on": "0" | "1" as switch}:
            driver.set_mig(pci, on=switch == "1")
        case "vfs", {"on": "0" | "1" as switch}:
            driver.set_vfs(pci, on=switch == "1")
        case "reset", _:
            driver.reset(pci)
        case "create-instance", {"profile": profile}:
            driver.create_instance(pci, _number(profile), _number(fields["start"]) if "start" in fields else None)
        case "create-compute", {"instance": serial, "profile": profile}:
            driver.create_compute(pci, _number(serial), _number(profile))
        case "destroy-instance", {"serial": serial}:
            driver.destroy_instance(pci, _number(serial))
        case "destroy-compute", {"serial": serial}:
            driver.destroy_compute(pci, _number(serial))
        case _:
            raise os_error(errno.EINVAL)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise os_error(errno.EINVAL) from error


def _order(fields: Mapping[str, str]) -> Order:
    numbers = {name: _number(value) for name, value in fields.items()}
    return Order(
        policy=numbers.get("policy", 0),
        engine=numbers.get("engine"),
        arr=numbers.get("arr", 0),
        factor=numbers.get("factor", 0),
        frequency_hz=numbers.get("frequency", 0),
        time_slice_ns=numbers.get("slice", 0),
    )
