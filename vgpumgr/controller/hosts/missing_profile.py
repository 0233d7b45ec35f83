"""What it means if a VM's host has no GPU with a profile: no capacity there, or an unknown name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.hosts.fan_out import fan_out
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.core.placing import resolve
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.fan_out import Outcome
    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.names import HostName


class MissingProfiles:
    """Tells a lack of room from an unknown profile. Each profile is looked for once, however many VMs request it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._elsewhere: dict[tuple[HostName, Profile], tuple[Outcome[bool], ...]] = {}

    def judge(
        self, host: HostDeclaration, profile: Profile, error: errors.ProfileNotHere
    ) -> errors.NoCapacity | errors.UnknownProfile:
        """The error for a profile that the VM's host lacks: NoCapacity if it exists elsewhere, else UnknownProfile.

        A name with a board exists if NVIDIA has such a type; a short one, if any host of the inventory has it.
        """
        if self._context.catalogue.names_board_type(profile):
            return error
        outcomes = self._look(host, profile)
        where = [outcome.host for outcome in outcomes if outcome.value]
        if where:
            return errors.NoCapacity(
                error.message,
                details=error.details,
                hint=say("{} could, but a vGPU is only ever made on its VM's own host", joined(", ", where)),
            )
        unread = [outcome.error.message for outcome in outcomes if outcome.error is not None]
        if unread:
            return errors.NoCapacity(error.message, details=[*error.details, *unread], hint=error.hint)
        if not outcomes:
            what = say("no GPU of {} has a profile {}", host.name, repr(profile.text))
            return errors.UnknownProfile(what, details=error.details, hint=error.hint)
        return errors.UnknownProfile(
            say("no GPU of these {} hosts has a profile {}", len(outcomes) + 1, repr(profile.text)),
            details=[say("{}:", host.name), *(say("  {}", line) for line in error.details)],
            hint=say("{}; `{}` those of all hosts", error.hint, Command("vgpumgr", "profiles")),
        )

    def _look(self, host: HostDeclaration, profile: Profile) -> tuple[Outcome[bool], ...]:
        """For each other host, whether it has the profile."""

        def has(declaration: HostDeclaration) -> bool:
            with open_session(self._context, declaration) as session:
                gpus = session.observe().snapshot.gpus
            return any(resolve.find_type(gpu, profile) is not None for gpu in gpus)

        key = host.name, profile
        if key not in self._elsewhere:
            others = [other for other in self._context.inventory.hosts.values() if other.name != host.name]
            self._elsewhere[key] = tuple(fan_out(others, has, timing=self._context.timing))
        return self._elsewhere[key]
