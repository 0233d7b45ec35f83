"""What it means that a VM's host has no GPU with a profile: no capacity there, or a name that nobody has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.fan_out import fan_out
from vgpumgr.controller.session import open_session
from vgpumgr.core.plan import placement

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.inventory import HostDeclaration


def judge_profile(
    context: Context, host: HostDeclaration, profile: Profile, error: errors.ProfileNotHere
) -> errors.VgpumgrError:
    """Whether a profile that the VM's host lacks exists anywhere: no capacity there (5), or an unknown name (2).

    A name with its board is known when NVIDIA has such a type; a short one when any host of the inventory has it.
    """
    if context.catalogue.names_board_type(profile):
        return error
    others = [declaration for declaration in context.inventory.hosts.values() if declaration.name != host.name]

    def has(declaration: HostDeclaration) -> bool:
        with open_session(context, declaration) as session:
            gpus = session.observe().snapshot.gpus
        return any(placement.find_type(gpu, profile) is not None for gpu in gpus)

    outcomes = fan_out(others, has)
    where = [outcome.host for outcome in outcomes if outcome.value]
    if where:
        return errors.NoCapacity(
            error.message,
            details=error.details,
            hint=f"{', '.join(where)} could, but a vGPU is only ever made on its VM's own host",
        )
    unread = [str(outcome.error) for outcome in outcomes if outcome.error is not None]
    if unread:
        return errors.NoCapacity(error.message, details=[*error.details, *unread], hint=error.hint)
    return errors.UnknownProfile(
        f"no GPU of {'this host' if not others else f'these {len(others) + 1} hosts'} has a profile {profile.text!r}",
        details=error.details,
        hint=error.hint,
    )
