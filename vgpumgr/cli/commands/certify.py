"""The command host certify: what a host's driver answers, beside what vgpumgr believes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import asking, candidates, gpus, plan_files, rows
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.certify import CERTIFY
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.certify import Trial

_DIFFERS = 5


@click.command("certify")
@click.argument("name", metavar="HOST", shell_complete=candidates.host)
@gpus.one("Only this GPU.")
@click.option(
    "--allow-destructive",
    "tries",
    is_flag=True,
    help="Also make and remove vGPUs on the GPUs that are empty: no vGPU, no GPU instance, nothing in the ledger.",
)
@click.option("--report", metavar="FILE", type=click.Path(), help="Write the report, as JSON, to FILE.")
@rows.options(CERTIFY)
@common_options
def certify_command(settings: Settings, *, name: str, gpu_id: str | None, tries: bool, report: str | None) -> int:
    """Ask HOST's driver what vgpumgr believes of it. Exit 5 if any answer differs, 1 if a vGPU could not be removed.

    \b
      vgpumgr host certify kvm01
      vgpumgr host certify kvm01 --report kvm01.json
      vgpumgr host certify kvm01 --allow-destructive --gpu-id 0000:41:00.0

    The command only reads, unless --allow-destructive is given; then it asks before it changes anything. The report has
    what the driver shows, but no names, serial numbers and UUIDs of yours; `vgpumgr lab up --like FILE` imitates it.
    `vgpumgr docs hardware-checklist` has the list of beliefs.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import certify as use_case
    from vgpumgr.documents import certify as documents
    from vgpumgr.errors import Outcome, worst_exit

    consent = asking.consent_to(settings, _lines, _question, given=settings.yes)
    result = use_case.certify(build_context(settings), name, consent, gpu_id=gpus.parsed(gpu_id), tries=tries)
    document = documents.report(result)
    output.print_findings(settings, result.findings)
    printing.print_rows(settings, CERTIFY, document)
    if report is not None:
        plan_files.write(report, document, option="--report")
    verdicts = [one.verdict for one in result.answers]
    if settings.for_people:
        numbers = (verdicts.count("holds"), verdicts.count("differs"), verdicts.count("unanswered"))
        output.echo("{} hold, {} differ, {} are not answered".format(*numbers))
    would = 3 if result.outcome is Outcome.WOULD_CHANGE else 0
    failed = output.print_errors(settings, [] if result.failure is None else [result.failure])
    return worst_exit([would, _DIFFERS if "differs" in verdicts else 0, failed])


def _lines(trial: Trial) -> list[str]:
    tried = [f"  ~ {gpu.pci}: vGPUs are made and removed, and wrong ones asked for" for gpu in trial.gpus]
    return [f"{trial.host}, empty GPUs", *tried, *(f"    {pci} is left alone: {why}" for pci, why in trial.left)]


def _question(trial: Trial) -> tuple[str, str]:
    where = f"{', '.join(gpu.pci for gpu in trial.gpus)} of {trial.host}"
    return f"Make and remove vGPUs on {where}?", f"certify makes and removes vGPUs on {where}"
