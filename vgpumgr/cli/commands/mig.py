"""mig fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import candidates, rows
from vgpumgr.cli.params.options import common_options, root_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.mig import MIG_FIT
from vgpumgr.cli.text import mig_text, output, sparkline

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings


@click.group()
@root_options
def mig() -> None:
    """GPU instances (MIG): which of them fit on a board together."""


@mig.command("fit")
@click.argument("board", shell_complete=candidates.mig_boards)
@click.argument("profiles", nargs=-1, required=True, metavar="PROFILE...", shell_complete=candidates.mig_profiles)
@rows.options(MIG_FIT)
@common_options
def fit_command(settings: Settings, *, board: str, profiles: tuple[str, ...]) -> int:
    """Whether GPU instances of these profiles fit on an empty board together: where each would be, or what is in the way.

    \b
      vgpumgr mig fit A100 3g.20gb 2g.10gb 1g.5gb
      vgpumgr mig fit "NVIDIA A30" 2g.12gb 2g.12gb

    BOARD is its code or its name in NVIDIA's list (vgpumgr profiles --offline). Name a profile once for each instance. No host is
    contacted: what the host's own driver says of its GPU counts more. Exit code 5 if they do not fit.
    """
    from vgpumgr import resources
    from vgpumgr.core.driver import catalogue, mig_fit
    from vgpumgr.documents import mig_fit as documents

    answer = mig_fit.fit(catalogue.parse(resources.catalogue_text()), board, profiles)
    if settings.for_people and not (settings.columns or settings.sorted_by):
        ascii_only = sparkline.bars_of_stdout() == sparkline.ASCII
        output.write_lines(mig_text.fit_lines(answer, output.width(), ascii_only=ascii_only))
    else:
        printing.print_rows(settings, MIG_FIT, documents.document(answer))
    refusal = mig_fit.refusal(answer)
    return output.print_errors(settings, [] if refusal is None else [refusal])
