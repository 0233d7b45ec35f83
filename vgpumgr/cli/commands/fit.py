"""The command fit: whether vGPUs fit on GPUs together, without a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import rows
from vgpumgr.cli.params.options import common_options, once
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.profiles import FIT
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings


@click.command()
@click.argument("question", nargs=-1, metavar="[GPUS: VGPUS]...")
@click.option(
    "--requests",
    multiple=True,
    callback=once,
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Take the question from FILE (YAML or JSON); - is stdin.",
)
@rows.options(FIT)
@common_options
def fit(settings: Settings, *, question: tuple[str, ...], requests: str | None) -> int:
    """Whether vGPUs fit on empty GPUs together: in which mode each GPU has to be and where each vGPU lies, or what
    finds no place.

    \b
      vgpumgr fit "A40: 3x8Q 2x12Q"
      vgpumgr fit "2xA40, L40/mixed-size: 3x8Q 2x12Q" "A100: 3x2g.10gb"
      vgpumgr fit --requests rack7.yml -o json

    GPUS are boards, separated by commas, each with a number before it and a mode behind it if need be; without a mode,
    the best one is chosen. Several questions are answered on their own. No host is contacted: what is known is NVIDIA's
    list. The answer is the best there is unless it says otherwise, with how many fit at most; for more than four GPUs
    or profiles, `pip install 'vgpumgr[plan]'` proves it. Exit code 5 if not all fit.
    """
    from vgpumgr import errors, planning, resources
    from vgpumgr.cli.text import fit_text
    from vgpumgr.core.driver import catalogue
    from vgpumgr.core.fitting import asked, packing
    from vgpumgr.documents import offline as documents

    if bool(question) == (requests is not None):
        hint = "for example vgpumgr fit 'A40: 3x8Q 2x12Q'"
        raise errors.UsageError("give either a question or a file with --requests", hint=hint)
    types = catalogue.parse(resources.catalogue_text())
    if requests is None:
        pools = asked.parse(types, question)
    else:
        from vgpumgr.inventory_files import requests_file

        pools = requests_file.load(requests, types)
    many = planning.solver()
    every = [packing.pack(types, pool, many) for pool in pools]
    found = [(packed, packing.remedies(types, packed, many) if packed.missing else ()) for packed in every]
    if settings.for_people and not (settings.columns or settings.sorted_by):
        for packed, _ in found:
            output.write_lines(fit_text.lines(packed))
    else:
        printing.print_rows(settings, FIT, documents.fit(found))
    refusals = [packing.refusal(packed, remedies, many) for packed, remedies in found]
    return output.print_errors(settings, [*filter(None, refusals)], what="questions have vGPUs without a place")
