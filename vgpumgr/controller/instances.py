"""gc: give back the GPU instances of a host that hold no vGPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.controller.engine.change import Change, carry_out
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.core.plan.cached import FreePlan
from vgpumgr.core.reconcile import tasks

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import ChangeResult, Consent, Planned


@dataclass(frozen=True, slots=True, kw_only=True)
class GcOptions:
    """`on` is the host's inventory name. `gpu_id` None: all its GPUs."""

    on: str
    gpu_id: str | None


def give_back(context: Context, options: GcOptions, consent: Consent[Planned[FreePlan]]) -> ChangeResult[FreePlan]:
    """Remove the cached instances of ours. Raises RequestError, HostError or ApplyError."""
    declaration = context.inventory.host(options.on)
    with open_session(context, declaration) as session:
        return carry_out(
            Change(
                session=session,
                consent=consent,
                task=tasks.FreeInstances(gpu_id=options.gpu_id),
                makes=FreePlan,
                asks=False,
                name=options.gpu_id or declaration.name,
            )
        )
