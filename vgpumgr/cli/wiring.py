"""From settings to the context that use cases want: inventory found and loaded, link opened on demand, who asks, the clock."""

from __future__ import annotations

import datetime
import getpass
import importlib.metadata
import os
import socket
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr import __version__, resources
from vgpumgr.cli import log_lines, output
from vgpumgr.controller import inventory_files
from vgpumgr.controller.context import Context
from vgpumgr.core import catalogue
from vgpumgr.host import protocol
from vgpumgr.store import place
from vgpumgr.store.journal import Journal

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.endpoint import Endpoint
    from vgpumgr.core.inventory import Inventory
    from vgpumgr.link.connection import HostLink

LOCK_WAIT_S = 60.0


def load_inventory(settings: Settings) -> Inventory:
    """Find and load the inventory. Raises InventoryError with every problem at once."""
    return inventory_files.load(inventory_path(settings), home=Path.home(), environ=os.environ)


def inventory_path(settings: Settings) -> Path:
    """Where the inventory is. Raises InventoryError where none is found."""
    return inventory_files.find_inventory(settings.inventory, os.environ, _cwd(), Path.home())


def _cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was deleted under us; a named inventory does not need it
        return Path()


def build_context(settings: Settings) -> Context:
    """Everything a use case needs. Raises InventoryError; reaches no host yet."""
    log_lines.start(settings)
    return Context(
        inventory=load_inventory(settings),
        connect=lambda endpoint: _connect(endpoint, settings.timeout),
        catalogue=catalogue.parse(resources.catalogue_text()),
        by=_who(),
        now=_now,
        progress=lambda text: output.progress(settings, text),
        lock_wait_s=LOCK_WAIT_S if settings.timeout is None else settings.timeout,
        journal=None if settings.check else open_journal(settings),
    )


def store_path() -> Path:
    """Where the journal is, and beside it the lock of the nightly run."""
    return place.store_path(os.environ, root=os.geteuid() == 0, home=Path.home())


def open_journal(settings: Settings) -> Journal:
    """The journal, which need not exist; nothing is opened yet."""
    return Journal(store_path(), warn=lambda text: output.print_warning(settings, text))


def _connect(endpoint: Endpoint, timeout: float | None) -> HostLink:
    from vgpumgr.link.connection import connect
    from vgpumgr.link.deadlines import Deadlines

    usual = Deadlines()
    if timeout is None:
        return connect(endpoint, deadlines=usual)
    return connect(
        endpoint, deadlines=Deadlines(**{name: min(limit, timeout) for name, limit in asdict(usual).items()})
    )


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname().partition('.')[0]}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def versions() -> dict[str, str]:
    """What `--version` prints."""
    return {
        "vgpumgr": __version__,
        "protocol": str(protocol.PROTOCOL),
        "libvirt client": _libvirt(),
        "pynvml": importlib.metadata.version("nvidia-ml-py"),
        "python": sys.version.partition(" ")[0],
    }


def _libvirt() -> str:
    from vgpumgr.link import hypervisor

    return hypervisor.client_version()
