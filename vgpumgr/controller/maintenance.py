"""cordon and uncordon: keep new vGPUs from a host or a GPU, for as long as somebody works on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.controller.engine.change import Change, carry_out
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.core.plan.cordons import CordonPlan
from vgpumgr.core.reconcile import tasks

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import ChangeResult, Consent, Planned


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonOptions:
    """`host` is the inventory's name. `gpu_id` None: all its GPUs. `reason` None: lift the cordon."""

    host: str
    gpu_id: str | None
    reason: str | None


def cordon(context: Context, options: CordonOptions, consent: Consent[Planned[CordonPlan]]) -> ChangeResult[CordonPlan]:
    """Set or lift a cordon. Raises RequestError, HostError or ApplyError."""
    declaration = context.inventory.host(options.host)
    with open_session(context, declaration) as session:
        return carry_out(
            Change(
                session=session,
                consent=consent,
                task=tasks.SetCordon(gpu_id=options.gpu_id, reason=options.reason),
                makes=CordonPlan,
                asks=False,
                name=options.gpu_id or declaration.name,
            )
        )
