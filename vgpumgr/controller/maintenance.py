"""cordon and uncordon: keep new vGPUs from a host or a part of it, for as long as somebody works on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.controller.engine.change import change_host
from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import HostCordons
from vgpumgr.core.gpu.cordon_plan import CordonPlan
from vgpumgr.core.slot import detach

if TYPE_CHECKING:
    from vgpumgr import errors
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import ChangeResult, Consent, Fleet, Planned
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.reconcile.tasks import SetCordon


def cordons(context: Context) -> Fleet[HostCordons]:
    """The cordons of all hosts, read without libvirt. Raises InventoryError."""

    def read(declaration: HostDeclaration) -> tuple[HostCordons, errors.VgpumgrError | None]:
        with open_session(context, declaration) as session:
            facts = session.link.observe(wait_s=context.timing.lock_wait_s).snapshot
        return HostCordons(host=facts.host, cordons=facts.cordons), detach.ledger_broken(facts)

    declarations = context.inventory.chosen(())
    context.say_reading(declarations)
    return read_fleet(declarations, read, context)


def cordon(
    context: Context, host: str, task: SetCordon, consent: Consent[Planned[CordonPlan]]
) -> ChangeResult[CordonPlan]:
    """Set or lift a cordon of the host of that name. Raises RequestError, HostError or ApplyError."""
    return change_host(context, host, task, consent, CordonPlan, asks=False, name=task.vf or task.gpu_id or host)
