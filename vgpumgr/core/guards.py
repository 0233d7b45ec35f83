"""What stops a reconcile before its first write: too many vGPUs that would go. A lost group in an inventory looks like that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.reconciling import HostPlan

MAX_SHARE_PCT = 30
COUNTS_FROM = 10  # with fewer vGPUs a share says little: there, as everywhere, what is taken away is asked about


def guard_destroys(plans: Sequence[HostPlan], *, confirmed: int | None) -> None:
    """Refuse more destroys than MAX_SHARE_PCT of the vGPUs that are ours, of one host or of all that were read.

    `confirmed` is how many a person expects; that very number lets them pass, another one does not. Raises TooManyDestroys.
    """
    total = sum(plan.destroys for plan in plans)
    if confirmed is not None and confirmed != total:
        raise errors.TooManyDestroys(
            f"{total} vGPUs would be destroyed, not the {confirmed} that --confirm-destroys names",
            details=_lines(plans),
            hint="look at `vgpumgr plan` once more",
        )
    if confirmed is not None:
        return
    over = [plan.host for plan in plans if _is_over(plan.destroys, plan.ours)]
    if over or _is_over(total, sum(plan.ours for plan in plans)):
        raise errors.TooManyDestroys(
            f"{total} vGPUs would be destroyed, more than {MAX_SHARE_PCT} % of "
            + (f"what {', '.join(over)} has" if over else "all there are")
            + "; nothing was changed",
            details=_lines(plans),
            hint=f"if the inventory is right: `vgpumgr reconcile --confirm-destroys {total}`",
        )


def _is_over(destroys: int, ours: int) -> bool:
    return ours >= COUNTS_FROM and destroys * 100 > ours * MAX_SHARE_PCT


def _lines(plans: Sequence[HostPlan]) -> list[str]:
    return [f"{plan.host}  {plan.destroys} of {plan.ours}" for plan in plans if plan.destroys]
