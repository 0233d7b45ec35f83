"""Debian's mdevctl beside vgpumgr on one host: two programs that read the same /sys must say the same of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.acceptance.command import Runs, vgpumgr, vgpus
from vgpumgr.host.protocol.gpu import MDEV_PF, VENDOR_VFIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# One line for each parent: its address and its GPU's, which is its own where it is no virtual function.
_GPU_OF_PARENT = """for parent in $(ls /sys/class/mdev_bus); do
  gpu=/sys/bus/pci/devices/$parent
  [ ! -e $gpu/physfn ] || gpu=$(readlink -f $gpu/physfn)
  echo $parent $(basename $gpu)
done"""


def _pairs(text: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(parent, name, facts) of mdevctl's JSON: a list of {parent: [{name: facts}, …]}."""
    for block in json.loads(text):
        for parent, rows in block.items():
            for row in rows:
                for name, facts in row.items():
                    yield parent, name, facts


def agrees(where: Runs, on_host: Callable[[str], str]) -> int:
    """Compare `list` with `mdevctl list`, and `profiles` with `mdevctl types`; how many vGPUs and types were compared.

    `on_host` runs a command on the host. vGPUs of the vendor's own framework are no mdevs: mdevctl knows nothing of them.
    """
    gpus = {gpu["pci"]: gpu for gpu in vgpumgr(where, "discover", "-o", "json").document["hosts"][0]["gpus"]}
    mediated = {pci: gpu for pci, gpu in gpus.items() if gpu["framework"] != VENDOR_VFIO}

    listed = {(uuid, parent, facts["mdev_type"]) for parent, uuid, facts in _pairs(on_host("mdevctl list --dumpjson"))}
    ours = {(row["uuid"], row["vf"] or row["gpu"], f"nvidia-{row['type_id']}") for row in vgpus(where) if row["uuid"]}
    assert ours == listed

    gpu_of = dict(line.split() for line in on_host(_GPU_OF_PARENT).splitlines())
    offered: dict[tuple[str, str], list[int]] = {}
    for parent, _, facts in _pairs(on_host("mdevctl types --dumpjson")):
        key = gpu_of[parent], facts["name"].split()[-1]
        offered.setdefault(key, []).append(facts["available_instances"])
    profiles = vgpumgr(where, "profiles", "-o", "json").document["profiles"]
    fits = {(row["gpu"], row["type_name"]): row["fits_now"] for row in profiles if row["gpu"] in mediated}
    assert set(fits) == set(offered)
    for (gpu, name), numbers in offered.items():
        if mediated[gpu]["framework"] == MDEV_PF:
            assert [fits[gpu, name]] == numbers, (gpu, name)
        else:
            assert (fits[gpu, name] > 0) == any(numbers), (gpu, name)
            assert fits[gpu, name] <= sum(numbers), (gpu, name)
    return len(ours) + len(fits)
