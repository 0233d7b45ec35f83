"""--gpu-id or --board: one GPU of a host, or all of a board."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.params import candidates, choosing

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.names import GpuUuid, PciAddress

    Command = Callable[..., Any]


def one(text: str) -> Callable[[Command], Command]:
    """--gpu-id. The command gets `gpu_id` as text, for `parsed`."""
    return click.option("--gpu-id", metavar="PCI|UUID", shell_complete=candidates.gpus, help=text)


def parsed(gpu_id: str | None) -> PciAddress | GpuUuid | None:
    """The value of --gpu-id. Raises BadName."""
    from vgpumgr.names import parse_gpu_id

    return None if gpu_id is None else parse_gpu_id(gpu_id)


def options(command: Command) -> Command:
    """Add --gpu-id, --board and --on. The command gets `on`, `gpu_id` and `board`, for `guard` to check."""
    board = click.option("--board", metavar="BOARD", shell_complete=candidates.boards, help="All GPUs of this board.")
    return choosing.on("The GPU's host; with --board one or more hosts.")(one("The GPU.")(board(command)))


def guard(on: str | None, gpu_id: str | None, board: str | None) -> tuple[str, str]:
    """The hosts, and the GPU (empty with `board`). Raises BadName; UsageError unless `on` and one other are given."""
    from vgpumgr.errors import UsageError

    if on is None:
        raise UsageError("missing option '--on'", hint="say on which host: --on kvm01")
    if (gpu_id is None) == (board is None):
        raise UsageError(
            "give either --gpu-id or --board",
            hint="`vgpumgr discover` shows the GPUs; --board A40 means all of a board",
        )
    return on, parsed(gpu_id) or ""
