"""The commands partition advise and partition apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.commands import of_board
from vgpumgr.cli.params import choosing, rows
from vgpumgr.cli.params.numbers import Whole
from vgpumgr.cli.params.options import common_options, root_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.gpus import PARTITION
from vgpumgr.cli.text import output, partition_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.model.attached import History


@click.group()
@root_options
def partition() -> None:
    """Choose the mode of the GPUs without vGPUs (equal-size, mixed-size, MIG) by what is asked for."""


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    weeks = click.option(
        "--weeks",
        type=Whole(0, 520),
        default=4,
        show_default=True,
        metavar="N",
        help="How much of the journal counts; 0: only declared slots.",
    )
    reset = click.option(
        "--allow-reset", is_flag=True, help="Allow a reset of a GPU whose MIG mode changes only with one."
    )
    return choosing.hosts()(weeks(reset(command)))


@partition.command("advise")
@_options
@rows.options(PARTITION)
@common_options
def advise_command(settings: Settings, *, hosts: tuple[str, ...], weeks: int, allow_reset: bool) -> int:
    """Say which mode each GPU without vGPUs should have, and what that gains. The command changes nothing.

    \b
      vgpumgr partition advise
      vgpumgr partition advise rack1 --weeks 8 -o json

    First the GPUs serve the declared slots without vGPU and the slots that wait, each on its VM's host. What room
    remains serves the mix of profiles that was attached in the last weeks, by the journal: to VMs of that host, or of
    all hosts if there were none. A GPU with a vGPU, a reservation or a cordon is left out; what the inventory declares
    stays.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import partition as use_case
    from vgpumgr.documents import offer as documents

    fleet = use_case.advise(build_context(settings), hosts, _lately(settings, weeks), reset=allow_reset)
    printing.print_rows(settings, PARTITION, documents.partition(fleet, weeks), none="no GPU without vGPUs")
    if settings.for_people:
        for line in partition_text.gains(fleet.views, weeks):
            output.echo(line)
    return output.end(settings, fleet)


@partition.command("apply")
@_options
@common_options
def apply_command(settings: Settings, *, hosts: tuple[str, ...], weeks: int, allow_reset: bool) -> int:
    """Give the GPUs without vGPUs the modes and GPU instances that `advise` names.

    \b
      vgpumgr partition apply kvm01 --check
      vgpumgr partition apply kvm01

    The command asks before it changes anything. The size of a GPU in equal-size mode needs no step: its first vGPU
    fixes it. The findings name the lines of the inventory that keep what is set.
    """
    from vgpumgr.controller import partition as use_case

    history = _lately(settings, weeks)
    return of_board.carry_out(
        settings,
        "Divide {} as advised?",
        lambda context, consent: use_case.apply(context, hosts, history, consent, reset=allow_reset),
        nothing="No GPU needs another mode or other GPU instances; `vgpumgr partition advise` says what is known.",
    )


def _lately(settings: Settings, weeks: int) -> History:
    """What was attached in the last `weeks`. If the journal cannot be read, print a warning; it counts as empty."""
    from vgpumgr import errors
    from vgpumgr.controller import environment, lately
    from vgpumgr.core.model.attached import History

    try:
        return lately.attached(environment.store_path(), environment.now(), weeks)
    except errors.StoreError as error:
        output.print_warning(settings, f"only declared slots count: {error.message}")
        return History()
