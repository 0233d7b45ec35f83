"""The command forget: delete what this controller stores about a gone VM or host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import asking, candidates
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.text import output
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings


@click.command()
@click.argument("name", metavar="VM|HOST", shell_complete=candidates.vms_and_hosts)
@common_options
def forget(settings: Settings, *, name: str) -> int:
    """Remove what this controller knows of a VM or host that is gone: its history, and what it used.

    \b
      vgpumgr forget vm01 --check
      vgpumgr forget kvm07

    The command asks before it removes anything. It refuses (exit 5) a VM that still has a vGPU or is declared, and a
    host in the inventory: use `detach` or `vgpumgr host purge` first.
    """
    from vgpumgr.cli.rows import printing
    from vgpumgr.cli.rows.things import FORGOTTEN
    from vgpumgr.cli.text import forget_text
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import environment
    from vgpumgr.controller import forget as use_case
    from vgpumgr.documents import offline as documents

    consent = asking.consent_to(settings, forget_text.lines, forget_text.question, given=settings.yes)
    result = use_case.forget(build_context(settings), environment.store_path(), name, consent)
    if settings.for_people:
        output.echo(forget_text.closing(result))
    else:
        printing.print_rows(settings, FORGOTTEN, documents.forget(result))
    return 3 if result.outcome is Outcome.WOULD_CHANGE else 0
