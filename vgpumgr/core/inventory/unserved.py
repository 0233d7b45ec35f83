"""Declarations that no host can serve, as far as known without asking one. What NVIDIA's list lacks is a finding, as
the list may be older than a driver. A layout that the slices of its board cannot hold is a problem.

Only `inventory check` asks: other commands learn it from the hosts, and need not read the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver import mig_fit
from vgpumgr.core.driver.profiles import ByFgpu, ByProfile
from vgpumgr.core.inventory.report import Finding, Problem
from vgpumgr.errors import UnknownProfile
from vgpumgr.names import nearest
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.inventory.model import BoardDeclaration, HostDeclaration, Inventory


def findings(inventory: Inventory, catalogue: Catalogue) -> tuple[Finding, ...]:
    """A finding for each slot that asks for an unlisted type, or for fGPUs where no unit is declared.

    There is one even if several hosts share the slot's declaration through a group.
    """
    reasons: dict[Profile, str | None] = {}
    all_findings = (finding for host in inventory.hosts.values() for finding in _of_host(host, catalogue, reasons))
    return tuple(dict.fromkeys(all_findings))


def problems(inventory: Inventory, catalogue: Catalogue) -> tuple[Problem, ...]:
    """A problem for each declared layout that no GPU of its board can have."""
    boards = {board for host in inventory.hosts.values() for board in host.boards if board.instances}
    layouts = (_impossible(board, catalogue) for board in boards)
    return tuple(sorted((one for one in layouts if one is not None), key=str))


def _impossible(board: BoardDeclaration, catalogue: Catalogue) -> Problem | None:
    try:
        answer = mig_fit.fit(catalogue, board.board, board.instances or ())
    except UnknownProfile:
        return None  # a board or a profile that the list lacks
    refusal = mig_fit.refusal(answer)
    if refusal is None:
        return None
    hint = f"`vgpumgr mig fit {answer.board} {' '.join(board.instances or ())}` shows it"
    return Problem(
        where=board.where, text=f"instances of board {board.board}: {refusal.what} beside the others", hint=hint
    )


def _of_host(host: HostDeclaration, catalogue: Catalogue, reasons: dict[Profile, str | None]) -> Iterator[Finding]:
    for vm in host.vms.values():
        for slot in vm.slots.values():
            what = say("slot {} of VM {}", repr(slot.slot), repr(vm.name))
            match slot.wish:
                case ByProfile(profile=profile):
                    if profile not in reasons:
                        reasons[profile] = _unlisted(profile, catalogue)
                    why = reasons[profile]
                    if why is not None:
                        yield Finding(where=slot.where, text=say("{}: {}", what, why))
                case ByFgpu() if not host.fgpu_per_gpu:
                    text = say("{} asks for fgpu, and vgpumgr_fgpu_per_gpu is not set for {}", what, host.name)
                    yield Finding(where=slot.where, text=text)
                case _:
                    pass


def _unlisted(profile: Profile, catalogue: Catalogue) -> str | None:
    """What is wrong with a profile; None if NVIDIA lists it."""
    if catalogue.names_type(profile):
        return None
    names = {row.name.short if profile.board is None else row.name.text for row in catalogue.types}
    like = nearest(profile.text, names, typos=False)
    return f"NVIDIA's list of vGPU types has no {profile.text} for any board" + (
        f"; did you mean {like}?" if like else ""
    )
