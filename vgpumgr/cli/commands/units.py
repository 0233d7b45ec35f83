"""The command units: what 1 fGPU, 0.1 GPU and 4G are on each board."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import choosing, rows
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.profiles import UNITS
from vgpumgr.cli.text import output, units_text

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings


@click.command()
@choosing.hosts()
@click.option(
    "--offline", is_flag=True, help="Only the boards for which the inventory has a unit. No host is contacted."
)
@rows.options(UNITS)
@common_options
def units(settings: Settings, *, hosts: tuple[str, ...], offline: bool) -> int:
    """What 1 fGPU, 0.1 GPU and 4G of memory are on each board, and the type that an empty GPU gives for it.

    \b
      vgpumgr units
      vgpumgr units --offline

    UNIT is the site's own (vgpumgr_fgpu_per_gpu). Changing it changes no vGPU: those that were asked for in another
    unit are listed with both.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.controller.results import Fleet
    from vgpumgr.core.report import units as readings
    from vgpumgr.documents import offer as documents

    context = build_context(settings)
    overview = readings.on_paper(context.inventory.chosen(hosts), context.catalogue)
    fleet: Fleet[readings.Units] = Fleet(views=(), errors=())
    if not offline:
        fleet = report.look_over(context, hosts, readings.of_host)
        overview = readings.together(fleet.views, overview)
    if not overview.boards and settings.for_people:
        if offline or fleet.views:
            output.echo("no board" if not offline else "the inventory has no unit: vgpumgr_fgpu_per_gpu is not set")
    else:
        printing.print_rows(settings, UNITS, documents.units(fleet, overview))
        if settings.for_people and all(board.unit is None for board in overview.boards):
            output.progress(settings, "no site unit is set; set vgpumgr_fgpu_per_gpu (see `vgpumgr docs asking`)")
    if settings.for_people:
        for one in overview.earlier:
            output.echo(units_text.both_readings(one))
    return output.end(settings, fleet)
