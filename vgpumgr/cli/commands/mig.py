"""The commands mig show, mig fit and gc."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import candidates, choosing, gpus, rows
from vgpumgr.cli.params.options import common_options, root_options
from vgpumgr.cli.rows import fleet_result, printing
from vgpumgr.cli.rows.mig import GC, MIG_FIT, MIG_SHOW
from vgpumgr.cli.text import mig_text, output, sparkline

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings


@click.group()
@root_options
def mig() -> None:
    """GPU instances (MIG): what the hosts' GPUs are divided into, and what fits on a board together."""


@mig.command("show")
@choosing.hosts()
@gpus.one("Only this GPU.")
@rows.options(MIG_SHOW)
@common_options
def show_command(settings: Settings, *, hosts: tuple[str, ...], gpu_id: str | None) -> int:
    """The GPUs in MIG mode: their GPU instances, drawn to scale, whose they are, and what still fits.

    \b
      vgpumgr mig show
      vgpumgr mig show kvm01 -o json

    used: vGPUs are in it. cached: vgpumgr made it, and nothing is in it; the next vGPU that fits takes it, a larger one
    evicts it, and vgpumgr gc gives it back. foreign: somebody else made it, and it is never changed. unknown: what the
    GPU has cannot be read.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.core.report import instances
    from vgpumgr.documents import hosts as documents

    only = gpus.parsed(gpu_id)
    fleet = report.look_over(build_context(settings), hosts, lambda view: instances.of_host(view, only))
    if settings.for_people and not (settings.columns or settings.sorted_by):
        if fleet.views:
            sentence = f"no {'such GPU' if only else 'GPU'} is in MIG mode"
            sentence += " on the hosts that could be read" if fleet.errors else ""
            ascii_only = sparkline.bars_of_stdout() == sparkline.ASCII
            output.write_lines(mig_text.show_lines(fleet.views, output.width(), sentence, ascii_only=ascii_only))
    else:
        printing.print_rows(settings, MIG_SHOW, documents.mig_show(fleet))
    return output.end(settings, fleet)


@mig.command("fit")
@click.argument("board", shell_complete=candidates.mig_boards)
@click.argument("profiles", nargs=-1, required=True, metavar="PROFILE...", shell_complete=candidates.mig_profiles)
@rows.options(MIG_FIT)
@common_options
def fit_command(settings: Settings, *, board: str, profiles: tuple[str, ...]) -> int:
    """Whether GPU instances of these profiles fit on an empty board together: where each would be, or what is in the
    way.

    \b
      vgpumgr mig fit A100 3g.20gb 2g.10gb 1g.5gb
      vgpumgr mig fit "NVIDIA A30" 2g.12gb 2g.12gb

    BOARD is its code or its name in NVIDIA's list (vgpumgr profiles --offline). Name a profile once for each instance.
    No host is contacted: what the host's own driver says of its GPU counts more. Exit code 5 if they do not fit.
    """
    from vgpumgr import resources
    from vgpumgr.core.driver import catalogue, mig_fit
    from vgpumgr.documents import offline as documents

    answer = mig_fit.fit(catalogue.parse(resources.catalogue_text()), board, profiles)
    if settings.for_people and not (settings.columns or settings.sorted_by):
        ascii_only = sparkline.bars_of_stdout() == sparkline.ASCII
        output.write_lines(mig_text.fit_lines(answer, output.width(), ascii_only=ascii_only))
    else:
        printing.print_rows(settings, MIG_FIT, documents.mig_fit(answer))
    refusal = mig_fit.refusal(answer)
    return output.print_errors(settings, [] if refusal is None else [refusal])


@click.command()
@click.option("--on", metavar="HOST", shell_complete=candidates.host, help="Only this host.")
@gpus.one("Only this GPU of the host.")
@common_options
def gc(settings: Settings, *, on: str | None, gpu_id: str | None) -> int:
    """Give back the GPU instances that vgpumgr made and that hold no vGPU now, on every host.

    \b
      vgpumgr gc --check
      vgpumgr gc --on kvm01
      vgpumgr gc --on kvm01 --gpu-id 0000:41:00.0

    Attach evicts such cached instances by itself where it needs their slices; gc is for slices that something else
    needs. An instance stays if it holds a vGPU, if a missing vGPU comes back to it, or if vgpumgr did not make it.
    Instances that the inventory declares are made again by the next reconcile. gc removes no vGPU, so it does not ask.
    """
    from vgpumgr import errors
    from vgpumgr.cli.params import asking
    from vgpumgr.cli.text import gc_text
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import instances as use_case

    if gpu_id is not None and on is None:
        raise errors.UsageError("--gpu-id needs --on HOST", hint="it names a GPU of one host")
    options = use_case.GcOptions(on=on, gpu_id=gpus.parsed(gpu_id))
    start = time.monotonic()
    consent = asking.consent_to(settings, gc_text.lines, None)
    result = use_case.give_back(build_context(settings), options, consent)
    last_lines = gc_text.closing(result, time.monotonic() - start)
    what = "hosts or GPUs still have cached GPU instances"
    return fleet_result.print_result(settings, result, GC, last_lines, what=what, findings=(result.findings,))
