"""Another driver or kernel at a host's next boot: what an upgrade changes beneath vGPUs in a ledger."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.errors import UsageError
from vgpumgr.lab.driver import boards
from vgpumgr.lab.driver.boards import DRIVERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.lab.driver.model import BoardSpec, HostState, TypeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What changes at a boot. `version`: the driver's; `framework`: that of SR-IOV boards; None: as before.

    `renumber`: types exchange their ids.
    """

    version: str | None = None
    framework: str | None = None
    renumber: bool = False


SAME = Upgrade()


def read_upgrade(told: Mapping[str, str], state: HostState) -> Upgrade:
    """What `lab reboot` requests: `driver` (a branch), `framework`, `renumber`. UsageError if it is impossible."""
    branch, framework = told.get("driver"), told.get("framework")
    if branch is not None and branch not in DRIVERS:
        raise UsageError(f"no driver {branch!r}", hint=f"give --driver {' or '.join(DRIVERS)}")
    if framework not in (None, MDEV_VF, VENDOR_VFIO):
        raise UsageError(f"no framework {framework!r}", hint=f"give --framework {MDEV_VF} or {VENDOR_VFIO}")
    for gpu in state.gpus:
        if branch is not None and (why := boards.why_no_driver(gpu.board, int(branch))) is not None:
            raise UsageError(why, hint="give another --driver")
    version = DRIVERS[branch] if branch is not None else None
    return Upgrade(version=version, framework=framework, renumber="renumber" in told)


def install(state: HostState, upgrade: Upgrade) -> None:
    """Upgrade the host, which has no vGPUs at the moment."""
    state.driver_version = upgrade.version or state.driver_version
    for gpu in state.gpus:
        if upgrade.framework is not None and gpu.framework != MDEV_PF:
            gpu.framework = upgrade.framework
        if upgrade.renumber:
            gpu.board = _renumbered(gpu.board)


def _renumbered(board: BoardSpec) -> BoardSpec:
    """The board with the ids of its types exchanged in a circle: none keeps its own, and each is now another's."""
    ids = [kind.id for kind in board.all_types]
    new_ids = dict(zip(ids, [*ids[1:], *ids[:1]], strict=True))

    def anew(kinds: tuple[TypeSpec, ...]) -> tuple[TypeSpec, ...]:
        return tuple(sorted((replace(kind, id=new_ids[kind.id]) for kind in kinds), key=lambda kind: kind.id))

    return replace(board, types=anew(board.types), mig_types=anew(board.mig_types))
