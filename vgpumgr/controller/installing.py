"""host install, status, uninstall: the dispatcher on hosts whose logins can run nothing else (docs/logins.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import HostInstallation
from vgpumgr.core.model.installation import State
from vgpumgr.errors import Outcome, Success

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Fleet
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.installation import Installation
    from vgpumgr.link.host import Host


def look(context: Context, hosts: Sequence[str]) -> Fleet[HostInstallation]:
    """What is installed on hosts, all if none is named. Raises UnknownHost."""
    return _each(context, hosts, lambda *_: False, lambda link, *_: link.installed(), check=True)


def install(
    context: Context, hosts: Sequence[str], *, pinned: bool, restore: bool = False, check: bool
) -> Fleet[HostInstallation]:
    """Install this version on hosts where it is missing, damaged, or pinned otherwise. Raises UnknownHost.

    `restore`: also install what restores vGPUs after a boot. That is installed, too, where the inventory says so, or
    where it was installed before.
    """

    def restores(host: HostDeclaration, found: Installation) -> bool:
        return restore or host.restore or host.lazy or found.restore is not None

    return _each(
        context,
        hosts,
        lambda host, found: (
            found.state is not State.INSTALLED
            or found.pinned != pinned
            or (found.restore is None and restores(host, found))
        ),
        lambda link, host, found: link.install(pinned=pinned, restore=restores(host, found)),
        check=check,
    )


def uninstall(context: Context, hosts: Sequence[str], *, check: bool) -> Fleet[HostInstallation]:
    """Remove everything that is installed. Raises UnknownHost."""
    return _each(
        context,
        hosts,
        lambda _, found: found.state is not State.ABSENT or found.restore is not None,
        lambda link, *_: link.uninstall(),
        check=check,
    )


def _each(
    context: Context,
    hosts: Sequence[str],
    needs: Callable[[HostDeclaration, Installation], bool],
    change: Callable[[Host, HostDeclaration, Installation], Installation],
    *,
    check: bool,
) -> Fleet[HostInstallation]:
    """Look at each host, and change those that need it."""

    def do(declaration: HostDeclaration) -> tuple[HostInstallation, None]:
        outcome: Success = Outcome.UNCHANGED
        with open_session(context, declaration) as session:
            found = session.link.installed()
            if needs(declaration, found):
                outcome = Outcome.WOULD_CHANGE if check else Outcome.DONE
                found = found if check else change(session.link, declaration, found)
        return HostInstallation(installation=found, outcome=outcome), None

    declarations = context.inventory.chosen(hosts)
    context.say_reading(declarations)
    return read_fleet(declarations, do, context)
