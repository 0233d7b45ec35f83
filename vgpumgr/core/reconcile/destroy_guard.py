"""Stop a reconcile before its first write if too many vGPUs would be destroyed, or if declarations look lost.

An inventory that lost a group would destroy too many. A broken checkout that lacks a file looks as if declarations
were lost. Hosts hold few vGPUs and nobody can confirm at night, so a host that would lose everything declared for it
always counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.wording import Command, Option, joined, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.reconcile.host_plan import HostPlan

MAX_SHARE_PCT = 30
COUNTS_FROM = 10  # with fewer vGPUs a share says little


def guard_destroys(plans: Sequence[HostPlan], *, confirmed: int | None) -> None:
    """Refuse a plan that destroys too much. Raises TooManyDestroys.

    Too much is: more than MAX_SHARE_PCT of our vGPUs, on one host or on all hosts read; every declared vGPU of a host;
    or what was declared by a part of the inventory that no longer decides about the host.

    `confirmed`: the largest number that the user expects; only more than that is refused then. So a killed command can
    be repeated with the same number. None: the user named no number.
    """
    total = sum(plan.destroys for plan in plans)
    if confirmed is not None and confirmed < total:
        raise errors.TooManyDestroys(
            say(
                "{} would be destroyed, more than the {} that {} allows",
                _count(total),
                confirmed,
                Option("--confirm-destroys"),
            ),
            details=_lines(plans),
            hint="check `vgpumgr plan` again",
        )
    if confirmed is not None or not total:
        return
    reasons = list(_reasons(plans, total))
    if reasons:
        raise errors.TooManyDestroys(
            say("{} would be destroyed: {}; nothing was changed", _count(total), joined("; ", reasons)),
            details=_lines(plans),
            hint=say(
                "is a file or a group of the inventory lost? If the inventory is right: `{}`",
                Command("vgpumgr", "reconcile", "--confirm-destroys", str(total)),
            ),
        )


def _reasons(plans: Sequence[HostPlan], total: int) -> list[str]:
    reasons: list[str] = []
    over = [plan.host for plan in plans if _is_over(plan.destroys, plan.ours)]
    if over:
        reasons.append(say("more than {} % of those on {}", MAX_SHARE_PCT, joined(", ", over)))
    elif _is_over(total, sum(plan.ours for plan in plans)):
        reasons.append(f"more than {MAX_SHARE_PCT} % of all vGPUs")
    empty_hosts = [plan.host for plan in plans if 0 < plan.allocated <= len(plan.prunes)]
    if empty_hosts:
        reasons.append(say("all that the inventory declared on {}", joined(", ", empty_hosts)))
    reasons += [
        say("{} used to declare VMs on {} and no longer does", ", ".join(plan.vanished), plan.host)
        for plan in plans
        if plan.vanished and plan.prunes
    ]
    return reasons


def _is_over(destroys: int, ours: int) -> bool:
    return ours >= COUNTS_FROM and destroys * 100 > ours * MAX_SHARE_PCT


def _count(number: int) -> str:
    return "1 vGPU" if number == 1 else f"{number} vGPUs"


def _lines(plans: Sequence[HostPlan]) -> list[str]:
    return [say("{}  {} of {}", plan.host, plan.destroys, plan.ours) for plan in plans if plan.destroys]
