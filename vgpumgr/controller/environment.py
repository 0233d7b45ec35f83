"""What a use case needs from its machine and process: environment, home, user, clock, store.

The program and the Ansible collection both start here, so that they have the same defaults and the same journal:

    inventory = environment.load_inventory("inventory")
    context = environment.make_context(inventory, check=False, progress=print, warn=print)
    fleet = report.observe_fleet(context)
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import getpass
import os
import resource
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr import errors, files
from vgpumgr.controller.context import Context
from vgpumgr.store import place
from vgpumgr.store.journal import Journal
from vgpumgr.timing import Timing
from vgpumgr.wording import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.controller.context import Done, Progress
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.inventory import Inventory
    from vgpumgr.core.inventory.whose import GroupChoice
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.host import Host

GROUP_VARIABLE = "VGPUMGR_GROUP"
PACE_VARIABLE = "VGPUMGR_LAB_PACE"  # for labs only: `vgpumgr lab up --pace` prints it
_LEAST_PACE = 0.01
_FILES = 65536  # enough for 10,000 hosts; a higher limit only costs programs that close every possible descriptor


def make_context(
    inventory: Inventory,
    *,
    check: bool,
    progress: Callable[[str], None],
    warn: Callable[[str], None],
    reading: Callable[[Progress], None] = lambda _: None,
    done: Callable[[Done], None] = lambda _: None,
    timeout: float | None = None,
) -> Context:
    """Everything a use case needs. No host is contacted yet. With `check`, nothing is recorded in the journal.

    `warn` is called if the journal cannot be written. `timeout` (seconds) replaces the limit of each stage and of the
    wait for a busy host, even by a longer one; None: each has its own limit.
    """
    from vgpumgr import resources
    from vgpumgr.core.driver import catalogue

    raise_file_limit()
    types = catalogue.parse(resources.catalogue_text())
    timing = Timing().at(_lab_pace()).within(timeout)
    return Context(
        inventory=inventory,
        connect=functools.partial(_connect, catalogue=types, timing=timing),
        catalogue=types,
        by=_who(),
        now=now,
        progress=progress,
        reading=reading,
        done=done,
        timing=timing,
        journal=None if check else open_journal(warn),
        store=store_path(),
    )


def raise_file_limit() -> None:
    """Raise the limit of open files as far as allowed: an open host takes five, and libvirt aborts if none is left."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def load_inventory(named: Sequence[str] = (), group: str | None = None, *, asks: bool = True) -> Inventory:
    """Load the inventories of these paths, of which a later one wins; without paths, the one in the usual places.

    `group`: whose hosts are hypervisors; None: as the environment or the files say. `asks`: Ansible may be asked, which
    can take a minute. Raises InventoryError with all problems at once, and UnknownName for a group that does not exist.
    """
    from vgpumgr.inventory_files import (
        reader,  # imports YAML and more, which a command that only needs the store does without
    )

    return reader.load(
        inventory_paths(named),
        home=files.home(),
        environ=os.environ,
        group=group_choice(group),
        keep=store_path().parent,
        asks=asks,
    )


def group_choice(named: str | None) -> GroupChoice | None:
    """The hypervisors' group as named by the option or the environment; None if neither names it."""
    from vgpumgr.core.inventory.whose import GroupChoice

    if named:
        return GroupChoice(name=named, by=Option("--group"))
    said = os.environ.get(GROUP_VARIABLE)
    return GroupChoice(name=said, by=GROUP_VARIABLE) if said else None


def inventory_paths(named: Sequence[str]) -> tuple[Path, ...]:
    """The inventory's paths; without `named` the usual places are searched. Raises InventoryError if none is found."""
    from vgpumgr.inventory_files import reader

    return tuple(reader.find_inventory(one, os.environ, _cwd(), files.home()) for one in named or (None,))


def store_path() -> Path:
    """Where the journal is; the lock of the nightly run is next to it."""
    return place.store_path(os.environ, root=os.geteuid() == 0, home=files.home())


def open_journal(warn: Callable[[str], None]) -> Journal:
    """The journal, which need not exist. Nothing is opened yet."""
    return Journal(store_path(), warn=warn)


def _cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # the current directory was deleted; a named inventory does not need it
        return Path()


def _connect(endpoint: Endpoint, *, catalogue: Catalogue, timing: Timing) -> Host:
    from vgpumgr.link.connection import connect

    return connect(endpoint, timing=timing, catalogue=catalogue)


def _lab_pace() -> float:
    """The pace of the lab that the environment names. It makes the controller poll more often; the hosts ignore it."""
    said = os.environ.get(PACE_VARIABLE, "1")
    try:
        pace = float(said)
    except ValueError:
        pace = 0.0
    if not _LEAST_PACE <= pace <= 1:
        raise errors.UsageError(
            f"{PACE_VARIABLE}={said}: not a lab's pace ({_LEAST_PACE} to 1)", hint=f"unset {PACE_VARIABLE}"
        )
    return pace


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname().partition('.')[0]}"


def now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
