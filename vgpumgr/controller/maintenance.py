"""cordon and uncordon: keep new vGPUs from a host or a GPU, for as long as somebody works on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.controller.engine.change import Change, carry_out
from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import HostCordons
from vgpumgr.core.gpu.cordon_plan import CordonPlan
from vgpumgr.core.reconcile import tasks
from vgpumgr.core.slot import detach

if TYPE_CHECKING:
    from vgpumgr import errors
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import ChangeResult, Consent, Fleet, Planned
    from vgpumgr.core.inventory import HostDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonOptions:
    """`host` is the inventory's name. `gpu_id` None: all its GPUs. `reason` None: lift the cordon."""

    host: str
    gpu_id: str | None
    reason: str | None


def cordons(context: Context) -> Fleet[HostCordons]:
    """The cordons of all hosts, read in bounded parallel, without libvirt. Raises InventoryError."""

    def read(declaration: HostDeclaration) -> tuple[HostCordons, errors.VgpumgrError | None]:
        with open_session(context, declaration) as session:
            facts = session.link.observe(wait_s=context.timing.lock_wait_s).snapshot
        return HostCordons(host=facts.host, cordons=facts.cordons), detach.ledger_broken(facts)

    declarations = context.inventory.chosen(())
    context.say_reading(declarations)
    return read_fleet(declarations, read, context)


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
