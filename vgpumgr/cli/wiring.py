"""From settings to what use cases need; progress and warnings go to stderr."""

from __future__ import annotations

import functools
import gc
import sys
from typing import TYPE_CHECKING

from vgpumgr import __version__
from vgpumgr.cli.text import output, status_line
from vgpumgr.controller import environment

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.context import Context, Done


def build_context(settings: Settings) -> Context:
    """Everything a use case needs. No host is contacted yet. Raises InventoryError."""
    inventory = environment.load_inventory(settings.inventory, settings.group)
    collect_seldom()
    if inventory.answered is not None:
        output.progress(settings, f"inventory: {inventory.answered}")
    return environment.make_context(
        inventory,
        check=settings.check,
        progress=lambda text: output.progress(settings, text),
        warn=lambda text: output.print_warning(settings, text),
        reading=output.STATUS.show if _shows_status(settings) else lambda _: None,
        done=(lambda _: None)
        if _shows_status(settings) or settings.verbose
        else functools.partial(_tell_done, settings),
        timeout=settings.timeout,
    )


def collect_seldom() -> None:
    """Spare the garbage collector what is there, and let it look at new objects less often than Python's default.

    Inventory, views and plans are values without cycles, and most of them stay to the end: of 10,000 hosts each walk through
    them takes 0.4 s, and the more hosts were planned, the more there were. Connections do have cycles.
    """
    gc.freeze()
    gc.set_threshold(10_000)


def _shows_status(settings: Settings) -> bool:
    """Whether a person watches, and nothing but `output` prints: not what -v logs."""
    plain = settings.for_people and settings.log_format == "text" and not settings.quiet and not settings.verbose
    return plain and status_line.is_possible()


def _tell_done(settings: Settings, done: Done) -> None:
    """Where no line at the bottom tells how far it is, as in a log, and -v does not tell more: a line for each change."""
    steps = f"{done.steps.done} of {done.steps.planned} steps"
    output.progress(settings, f"{done.host}: {done.subject} done ({steps})", host=done.host)


def versions() -> dict[str, str]:
    """What `--version` prints."""
    from vgpumgr.link import host

    return {
        "vgpumgr": __version__,
        "protocol": str(host.PROTOCOL),
        "python": sys.version.partition(" ")[0],
    }
