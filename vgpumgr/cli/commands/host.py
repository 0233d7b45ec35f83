"""The commands host install, status, check, sudoers and uninstall. purge and certify have files of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.commands.certify import certify_command
from vgpumgr.cli.commands.purge import purge_command
from vgpumgr.cli.params import candidates, choosing, rows
from vgpumgr.cli.params.options import common_options, root_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.hosts import INSTALL, STATUS
from vgpumgr.cli.text import output
from vgpumgr.errors import worst_exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.cli.rows.column import View
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import Fleet, HostInstallation
    from vgpumgr.core.model.installation import Installation
    from vgpumgr.errors import VgpumgrError

_NAMED = choosing.hosts(required=True)
_ANY = choosing.hosts()


@click.group()
@root_options
def host() -> None:
    """Install vgpumgr's files on hosts, for logins that can run nothing else (`vgpumgr docs logins`), remove all of
    vgpumgr from them, and ask their driver what vgpumgr believes of it.
    """


host.add_command(purge_command)
host.add_command(certify_command)


@host.command("install")
@_NAMED
@click.option(
    "--pinned",
    is_flag=True,
    help="Let the login run only the version that is installed now; without it, a controller of another version installs its own.",
)
@click.option(
    "--restore",
    is_flag=True,
    help="Also install a systemd unit that restores the host's vGPUs after a boot, before libvirt starts VMs.",
)
@common_options
def install_command(settings: Settings, *, hosts: tuple[str, ...], pinned: bool, restore: bool) -> int:
    """Install the dispatcher and the host program in /opt/vgpumgr-host, owned by root.

    \b
      vgpumgr host install kvm01
      vgpumgr host install kvm01 --restore
      vgpumgr host sudoers kvm01 --user vgpumgr --key ~/.ssh/vgpumgr.pub

    It needs a login with full rights: root, or a user with sudo. Only logins that may run nothing else need the
    dispatcher; all others run vgpumgr's host program from memory. `vgpumgr docs restore` says what --restore does.
    `vgpumgr_restore: true` in the inventory has the same effect.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import installing

    fleet = installing.install(build_context(settings), hosts, pinned=pinned, restore=restore, check=settings.check)
    return _print(settings, fleet)


@host.command("uninstall")
@_NAMED
@common_options
def uninstall_command(settings: Settings, *, hosts: tuple[str, ...]) -> int:
    """Remove all that `host install` left on hosts. The lines in sudoers and authorized_keys are yours to remove."""
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import installing

    return _print(settings, installing.uninstall(build_context(settings), hosts, check=settings.check))


@host.command("status")
@_ANY
@rows.options(STATUS)
@common_options
def status_command(settings: Settings, *, hosts: tuple[str, ...]) -> int:
    """How vgpumgr logs in to hosts, and what is installed there.

    STATE is absent, installed, outdated (of another vgpumgr or nvidia-ml-py than this controller's), or broken
    (altered, or open to others than root).
    """
    return _print(settings, _look(settings, hosts), view=STATUS)


@host.command("check")
@_ANY
@rows.options(STATUS)
@common_options
def check_command(settings: Settings, *, hosts: tuple[str, ...]) -> int:
    """Check what is installed; exit 5 if anything is amiss.

    A host where this version is not installed, or is broken, counts as an error.
    """
    from vgpumgr.core.model.installation import State
    from vgpumgr.errors import NotInstalled

    fleet = _look(settings, hosts)
    problems = [one.installation for one in fleet.views if one.installation.state is not State.INSTALLED]
    faults = [NotInstalled(f"{one.host}: {one.state}", hint=_hint(one), details=one.problems) for one in problems]
    return _print(settings, fleet, view=STATUS, faults=faults)


def _hint(found: Installation) -> str:
    from vgpumgr.core.model.installation import State

    install = f"`vgpumgr host install {found.host}` with a login that has full rights"
    if found.state is State.ABSENT:
        return f"only logins that can run nothing else need it: {install}; `vgpumgr doctor {found.host}` says what is wrong on the host itself"
    return install


@host.command("sudoers")
@click.argument("name", metavar="HOST", shell_complete=candidates.host)
@click.option("--user", metavar="NAME", help="The login's user (default: the one that the inventory has for the host).")
@click.option(
    "--key", metavar="FILE", type=click.Path(), help="The login's public key, for its line in authorized_keys."
)
@common_options
def sudoers_command(settings: Settings, *, name: str, user: str | None, key: str | None) -> int:
    """Print the line for sudoers and, as a comment, the one for authorized_keys. No host is contacted.

    \b
      vgpumgr host sudoers kvm01 --user vgpumgr --key ~/.ssh/vgpumgr.pub
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.core.model import login_lines

    endpoint = build_context(settings).inventory.host(name).endpoint
    for line in login_lines.render(user or endpoint.user, None if key is None else _read_key(key)):
        output.echo(line)
    return 0


def _read_key(file: str) -> str:
    """The text of a public key. Raises UsageError."""
    from vgpumgr import files
    from vgpumgr.errors import UsageError

    try:
        return files.read_bytes(files.expanded(file)).decode("ascii")
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not a public key", hint="--key names the file that ends in .pub") from None
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}", hint="--key names a public key, such as ~/.ssh/id_ed25519.pub"
        ) from error


def _look(settings: Settings, hosts: tuple[str, ...]) -> Fleet[HostInstallation]:
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import installing

    return installing.look(build_context(settings), hosts)


def _print(
    settings: Settings,
    fleet: Fleet[HostInstallation],
    *,
    view: View = INSTALL,
    faults: Sequence[VgpumgrError] = (),
) -> int:
    from vgpumgr.documents import hosts as documents
    from vgpumgr.errors import Outcome

    printing.print_rows(settings, view, documents.installations(fleet))
    would = any(one.outcome is Outcome.WOULD_CHANGE for one in fleet.views)
    errors = [*(error for _, error in fleet.errors), *faults]
    return worst_exit([3 if would else 0, output.print_errors(settings, errors)])
