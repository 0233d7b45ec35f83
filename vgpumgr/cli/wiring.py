"""Makes the context of a use case from the command's settings. Progress and warnings go to stderr."""

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
    from vgpumgr.core.inventory import Inventory


def build_context(settings: Settings) -> Context:
    """Everything a use case needs. No host is contacted yet. Raises InventoryError."""
    if settings.answer is not None:
        return settings.answer.context
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


def load_inventory(settings: Settings) -> Inventory:
    """The inventory, for a command that contacts no host. Raises InventoryError."""
    if settings.answer is not None:
        return settings.answer.context.inventory
    return environment.load_inventory(settings.inventory, settings.group)


@functools.cache
def collect_seldom() -> None:
    """Make the garbage collector ignore existing objects, and run less often than by Python's default.

    Once: what is garbage at that moment stays as long as the process, and `serve` loads the inventory again and again.

    Inventory, views and plans have no cycles, and most stay to the end: with 10,000 hosts each collection takes 0.4 s,
    and more hosts cause more collections. Connections do have cycles, so the collector is not switched off.
    """
    gc.freeze()
    gc.set_threshold(10_000)


def _shows_status(settings: Settings) -> bool:
    """Whether a person is watching, and nothing prints but `output`. With -v the log prints, too."""
    plain = settings.for_people and settings.log_format == "text" and not settings.quiet and not settings.verbose
    return plain and status_line.is_possible()


def _tell_done(settings: Settings, change: Done) -> None:
    """Print a line for a finished change. It is used if neither the status line nor -v shows progress."""
    steps = f"{change.steps.done} of {change.steps.planned} steps"
    output.progress(settings, f"{change.host}: {change.subject} done ({steps})", host=change.host)


def versions() -> dict[str, str]:
    """What `--version` prints."""
    from vgpumgr.link import host

    return {
        "vgpumgr": __version__,
        "protocol": str(host.PROTOCOL),
        "python": sys.version.partition(" ")[0],
    }
