"""From settings to what use cases need; progress and warnings go to stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from vgpumgr import __version__
from vgpumgr.cli.text import output
from vgpumgr.controller import environment
from vgpumgr.controller.environment import store_path

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.context import Context
    from vgpumgr.core.inventory import Inventory
    from vgpumgr.store.journal import Journal

__all__ = ["build_context", "inventory_path", "load_inventory", "open_journal", "store_path", "versions"]


def load_inventory(settings: Settings) -> Inventory:
    """Find and load the inventory. Raises InventoryError with every problem at once."""
    return environment.load_inventory(settings.inventory)


def inventory_path(settings: Settings) -> Path:
    """Where the inventory is. Raises InventoryError if none is found."""
    return environment.inventory_path(settings.inventory)


def build_context(settings: Settings) -> Context:
    """Everything a use case needs. No host is contacted yet. Raises InventoryError."""
    return environment.make_context(
        load_inventory(settings),
        check=settings.check,
        progress=lambda text: output.progress(settings, text),
        warn=lambda text: output.print_warning(settings, text),
        timeout=settings.timeout,
    )


def open_journal(settings: Settings) -> Journal:
    """The journal, which need not exist. Nothing is opened yet."""
    return environment.open_journal(lambda text: output.print_warning(settings, text))


def versions() -> dict[str, str]:
    """What `--version` prints."""
    import importlib.metadata

    from vgpumgr.link import host

    return {
        "vgpumgr": __version__,
        "protocol": str(host.PROTOCOL),
        "libvirt client": _libvirt(),
        "pynvml": importlib.metadata.version("nvidia-ml-py"),
        "python": sys.version.partition(" ")[0],
    }


def _libvirt() -> str:
    from vgpumgr.link import hypervisor

    return hypervisor.client_version()
