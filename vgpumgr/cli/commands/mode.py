"""The commands mode show and mode set."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.commands import of_board
from vgpumgr.cli.params import asking, choosing, gpus, rows
from vgpumgr.cli.params.options import common_options, root_options
from vgpumgr.cli.rows import change_result, printing
from vgpumgr.cli.rows.gpus import MODE
from vgpumgr.cli.text import mode_text, output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.driver.modes import Mode


@click.group()
@root_options
def mode() -> None:
    """Show or set the mode of GPUs: vGPUs of one size, vGPUs of several sizes, or MIG."""


@mode.command("show")
@choosing.hosts()
@rows.options(MODE)
@common_options
def show_command(settings: Settings, *, hosts: tuple[str, ...]) -> int:
    """The mode of every GPU, and whether it matches the inventory: STATE is ok, drift, or undeclared."""
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import gpu_setting as use_case
    from vgpumgr.documents import hosts as documents

    fleet = use_case.show_modes(build_context(settings), hosts)
    printing.print_rows(settings, MODE, documents.modes(fleet), none="no NVIDIA GPU found")
    return output.end(settings, fleet)


@mode.command("set")
@click.argument("mode", metavar="equal-size|mixed-size|mig", type=click.Choice(("equal-size", "mixed-size", "mig")))
@gpus.options
@click.option(
    "--allow-reset", is_flag=True, help="Reset this GPU if its MIG mode changes only with a reset (Ampere's boards)."
)
@common_options
def set_command(
    settings: Settings, *, mode: Mode, on: str | None, gpu_id: str | None, board: str | None, allow_reset: bool
) -> int:
    """Set a GPU, or all GPUs of a board, to mixed-size mode (vGPUs of several sizes), to MIG mode, or back to
    equal-size mode.

    \b
      vgpumgr mode set mixed-size --on kvm01 --gpu-id 0000:41:00.0
      vgpumgr mode set mixed-size --on 'kvm0*' --board A40
      vgpumgr mode set mig --on kvm01 --gpu-id 0000:41:00.0 --allow-reset

    The driver changes the mode of an empty GPU only, so idle vGPUs of ours are removed for a moment and re-created. The
    command is refused while a VM runs with a vGPU of the GPU, if a vGPU there is not ours, if not all would find room
    again, and, for mixed-size mode, with the scheduler policy fixed-share. The command asks before it changes anything.
    The mode lasts until the host's next boot; reconcile restores it for vGPUs that were made in it, and in any case if
    the inventory declares it (vgpumgr_gpus).

    To change MIG mode, vgpumgr removes the GPU's vGPUs, lets sriov-manage remove and re-create the virtual functions,
    and gives each slot that the new mode can serve a vGPU again (docs/mig.md). Move or detach the others first.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import gpu_setting as use_case
    from vgpumgr.controller.of_board import BoardOptions
    from vgpumgr.core.reconcile.tasks import SetGpuMode
    from vgpumgr.documents import common

    hosts, gpu = gpus.guard(on, gpu_id, board)
    task = SetGpuMode(gpu_id=gpu, mode=mode, reset=allow_reset)
    if board is not None:
        return of_board.run(settings, BoardOptions(on=hosts, board=board, task=task))
    start = time.monotonic()
    consent = asking.consent(settings, "mode set", mode_text.lines, question="Set the mode of {about} on {host}?")
    result = use_case.set_mode(build_context(settings), hosts, task, consent)
    last_lines = mode_text.closing(result, time.monotonic() - start)
    return change_result.print_rows(settings, result, last_lines, MODE, [common.plain(result.row)])
