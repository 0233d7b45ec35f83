"""From settings to what use cases need; progress and warnings go to stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from vgpumgr import __version__
from vgpumgr.cli.text import output, status_line
from vgpumgr.controller import environment

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.context import Context


def build_context(settings: Settings) -> Context:
    """Everything a use case needs. No host is contacted yet. Raises InventoryError."""
    return environment.make_context(
        environment.load_inventory(settings.inventory),
        check=settings.check,
        progress=lambda text: output.progress(settings, text),
        warn=lambda text: output.print_warning(settings, text),
        reading=output.STATUS.show if _shows_status(settings) else lambda _: None,
        timeout=settings.timeout,
    )


def _shows_status(settings: Settings) -> bool:
    """Whether a person watches, and nothing but `output` prints: not what -v logs."""
    plain = settings.for_people and settings.log_format == "text" and not settings.quiet and not settings.verbose
    return plain and status_line.is_possible()


def versions() -> dict[str, str]:
    """What `--version` prints."""
    from vgpumgr.link import host, hypervisor

    return {
        "vgpumgr": __version__,
        "protocol": str(host.PROTOCOL),
        "libvirt client": hypervisor.client_version(),
        "python": sys.version.partition(" ")[0],
    }
