"""explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import candidates, choosing, wishes
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings

_COLUMNS = ("host", "gpu", "board", "order", "type_name", "waste", "guest_sees", "allocated", "why")
_WIDE = ("host", "gpu", "board", "mode", "scheduler", "order", "type_name", "requested", "waste", "guest_sees", "allocated", "why")  # fmt: skip
_PLAIN = (
    "host", "pci", "board", "mode", "scheduler", "allocated_pct", "rank", "type_name",
    "asked_mib", "framebuffer_mib", "guest_mib", "waste_pct", "why",
)  # fmt: skip
_COMPARED = (
    "mechanism", "memory_wall", "compute_guarantee", "fault_isolation", "live_migration", "licence_series", "fits_now"
)  # fmt: skip


@click.command()
@wishes.options
@choosing.on("Only these hosts' GPUs (default: all hosts).")
@click.option("--gpu-id", metavar="PCI|UUID", shell_complete=candidates.gpus, help="Only this GPU.")
@click.option("--compare", is_flag=True, help="Also compare the ways to divide a GPU, with what fits now.")
@common_options
def explain(
    settings: Settings, *, on: str | None, gpu_id: str | None, compare: bool, **asked: str | bool | None
) -> int:
    """Which type on which GPU would serve a wish, and why: every GPU in the order in which attach would take it. Read-only.

    \b
      vgpumgr explain --gpu-memory 5G
      vgpumgr explain --profile 4Q --on kvm01 --compare

    A vGPU is only ever made on its VM's own host: there, attach takes the GPU that is first. GPUs without ORDER cannot serve the
    wish; WHY says what is in the way.
    """
    from vgpumgr import names
    from vgpumgr.cli.text import explain_text
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.core.driver import asking
    from vgpumgr.core.report import explained
    from vgpumgr.documents import explain as documents

    wish, conditions = wishes.read("explain", asked)
    wanted = explained.Asked(
        wish=wish, conditions=conditions, gpu_id=None if gpu_id is None else names.parse_gpu_id(gpu_id)
    )
    fleet = report.look_over(
        build_context(settings), () if on is None else (on,), lambda view: explained.of_host(view, wanted)
    )
    compared = explained.compare(fleet.views) if compare else None
    document = documents.document(fleet, asking.describe(wish, conditions), compared)
    answers = [gpu for host in fleet.views for gpu in host.gpus]
    ways = [explain_text.compared(one) for one in compared or ()]
    if not settings.for_people and compared is not None:
        output.print_rows(settings, document, ways, columns=_COMPARED, name="mechanism")
    elif not settings.for_people:
        plain = [{"host": gpu.host, **documents.gpu(gpu)} for gpu in answers]
        output.print_rows(settings, document, plain, columns=_PLAIN, name="pci")
    elif fleet.views:
        if answers:
            output.print_table(
                [explain_text.row(gpu) for gpu in answers], _WIDE if settings.output == "wide" else _COLUMNS
            )
        else:
            output.echo("no such GPU on these hosts" if gpu_id else "no NVIDIA GPU on these hosts")
        if ways:
            output.echo()
            output.print_table(ways, _COMPARED)
    return output.print_errors(settings, [error for _, error in fleet.errors])
