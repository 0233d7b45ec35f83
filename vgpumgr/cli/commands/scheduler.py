"""The commands scheduler show and scheduler set."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.commands import of_board
from vgpumgr.cli.params import asking, choosing, gpus, rows
from vgpumgr.cli.params.options import common_options, root_options
from vgpumgr.cli.rows import change_result, printing
from vgpumgr.cli.rows.gpus import SCHEDULER
from vgpumgr.cli.text import output, scheduler_text

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.driver.scheduler import Policy

_POLICIES = ("best-effort", "equal-share", "fixed-share")


@click.group()
@root_options
def scheduler() -> None:
    """Show or set how GPUs share their time among vGPUs: at run time, and from the next boot on."""


@scheduler.command("show")
@choosing.hosts()
@rows.options(SCHEDULER)
@common_options
def show_command(settings: Settings, *, hosts: tuple[str, ...]) -> int:
    """Policy, time slice and frequency of every GPU, the setting for the next boot, and whether both match the
    inventory.

    The driver reports slice and frequency only while a VM runs with a vGPU; until then the values that were set are
    shown, with a question mark. STATE is ok, drift, pending_reboot, unverified, or undeclared.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import gpu_setting as use_case
    from vgpumgr.documents import hosts as documents

    fleet = use_case.show_schedulers(build_context(settings), hosts)
    printing.print_rows(settings, SCHEDULER, documents.schedulers(fleet), none="no NVIDIA GPU found")
    return output.end(settings, fleet, [finding for host in fleet.views for finding in host.findings])


@scheduler.command("set")
@gpus.options
@click.option("--policy", required=True, type=click.Choice(_POLICIES), help="The scheduling policy.")
@click.option(
    "--time-slice",
    metavar="MS",
    help="Length of each turn, for example 2ms; the nearest frequency is used if the driver takes only that.",
)
@click.option(
    "--frequency", type=int, metavar="HZ", help="Turns per second, for example 480; the driver evens out their lengths."
)
@click.option(
    "--averaging-factor", type=int, metavar="N", help="Number of turns over which the driver evens out their lengths."
)
@common_options
def set_command(
    settings: Settings,
    *,
    on: str | None,
    gpu_id: str | None,
    board: str | None,
    policy: Policy,
    time_slice: str | None,
    frequency: int | None,
    averaging_factor: int | None,
) -> int:
    """Set how a GPU, or each of a board, shares its time: now, and in /etc/modprobe.d for every later boot.

    \b
      vgpumgr scheduler set --on kvm01 --gpu-id 0000:41:00.0 --policy fixed-share --time-slice 2ms
      vgpumgr scheduler set --on 'kvm0*' --board A40 --policy equal-share --frequency 480 --check

    The driver sets it on an empty GPU only, so idle vGPUs of ours are removed for a moment and re-created unchanged.
    The command is refused while a VM runs with a vGPU of the GPU, and if a vGPU there is not ours. It asks before it
    changes anything.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import gpu_setting as use_case
    from vgpumgr.controller.of_board import BoardOptions
    from vgpumgr.core.driver import scheduler as core
    from vgpumgr.core.reconcile.tasks import SetGpuScheduler
    from vgpumgr.documents import hosts as documents

    wish = core.SchedulerWish(
        policy=policy,
        time_slice_ns=None if time_slice is None else core.parse_time_slice(time_slice),
        frequency_hz=frequency,
        averaging_factor=averaging_factor,
    )
    core.check_together(wish)
    hosts, gpu = gpus.guard(on, gpu_id, board)
    task = SetGpuScheduler(gpu_id=gpu, wish=wish)
    if board is not None:
        return of_board.run(settings, BoardOptions(on=hosts, board=board, task=task))
    start = time.monotonic()
    consent = asking.consent(
        settings,
        "scheduler set",
        partial(scheduler_text.lines, diff=settings.diff),
        question="Set the scheduler of {about} on {host}?",
    )
    result = use_case.set_scheduler(build_context(settings), hosts, task, consent)
    last_lines = scheduler_text.closing(result, time.monotonic() - start)
    row = {"host": result.row.host, **documents.scheduler(result.row)}
    return change_result.print_rows(settings, result, last_lines, SCHEDULER, [row])
