"""Another driver or kernel at the next boot: what is declared comes back at its place, whatever number the driver gives its type.

A type is its name on its board; the id is only how the driver of today writes it (found: field-hosts c20, c21).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import near
from tests.acceptance.near import document
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.driver.upgrade import Upgrade

if TYPE_CHECKING:
    from tests.acceptance.near import Near, Sites
    from vgpumgr.lab.driver.model import BoardSpec

RENUMBERED = Upgrade(renumber=True)
VMS = tuple(f"vm{number:02}" for number in range(1, 5))
BOARDS = {MDEV_PF: "T4", MDEV_VF: "A40", VENDOR_VFIO: "L40S"}


def places(host: Near) -> dict[str, tuple[str, int | None, str]]:
    """VM → GPU, VF and type of its vGPU, as the driver has them."""
    machine = host.machines["kvm01"]
    there = {
        (place.uuid or (place.gpu, place.vf)): vgpu.type.name.split()[-1] for place, vgpu in machine.hardware().items()
    }
    return {
        row["vm_name"]: (*(at := (row["gpu_uuid"], row["vf_index"])), there[row["uuid"] or at])
        for row in machine.ledger()
    }


def declare(host: Near, **wishes: dict[str, str]) -> None:
    host.declare("kvm01", vgpumgr_vms={vm: {"vgpu0": wish} for vm, wish in wishes.items()})


@pytest.fixture(params=[MDEV_PF, MDEV_VF, VENDOR_VFIO])
def one(request: pytest.FixtureRequest, near_site: Sites) -> Near:
    framework = str(request.param)
    spec = near.NearHost(vms=VMS, board=BOARDS[framework], framework=framework, vfs=3)
    return near_site({"kvm01": spec})


def test_types_that_a_driver_numbers_anew_are_the_same_types(one: Near) -> None:
    """Declared vGPUs come back at their places by one reconcile; a new VM is served; --replace is no change; the claim has today's id."""
    declare(one, vm01={"profile": "4Q"}, vm02={"gpu_memory": "4G"})
    document(one, "reconcile", "--yes")
    before = places(one)
    one.machines["kvm01"].reboot(RENUMBERED)
    planned = document(one, "plan", code=3)
    assert {row["cause"] for row in planned["drift"]} == {"the driver or the kernel was changed since it was made"}
    document(one, "reconcile", "--yes")
    assert places(one) == before
    document(one, "plan")
    assert not document(one, "attach", "vm01", "--profile", "4Q", "--replace")["changed"]
    document(one, "attach", "vm03", "--profile", "4Q")
    document(one, "detach", "vm03", "--yes")


def test_a_card_that_the_driver_takes_for_another_board_serves_what_its_types_can(one: Near) -> None:
    """As when an unlocked driver is set up otherwise: the same ids, another board's names. An amount is served by the new types, and
    by more of them; a name that is gone is refused as that, and its function is free once it is detached."""
    declare(one, vm01={"gpu_memory": "4G"}, vm02={"profile": "4Q"})
    document(one, "reconcile", "--yes")
    machine = one.machines["kvm01"]
    for gpu in machine.gpus():
        gpu.board = _renamed(gpu.board)
    machine.reboot()
    document(one, "reconcile", "--yes")
    document(one, "plan")
    document(one, "attach", "vm03", "--profile", "X9-4Q")
    assert {kind for *_, kind in places(one).values()} == {"X9-4C", "X9-4Q"}
    code = f"{BOARDS[machine.framework]}-4Q"
    declare(one, vm01={"gpu_memory": "4G"}, vm02={"profile": "4Q"}, vm04={"profile": code})
    assert f"has no {code}" in one.run("plan").stderr


def _renamed(board: BoardSpec) -> BoardSpec:
    """The same ids, with the names that another board's types have."""
    kinds = [replace(kind, name=f"NVIDIA X9-{kind.name.rpartition('-')[2]}") for kind in board.types]
    return replace(board, types=tuple(kinds))
