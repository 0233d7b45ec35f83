"""doctor --self: what is read of this machine. No host is contacted."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
from collections import Counter
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller import environment
from vgpumgr.core.doctor import diagnosis, own
from vgpumgr.core.model.endpoint import NO_FILE
from vgpumgr.link.ssh import config_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from vgpumgr.core.doctor.illness import Illness
    from vgpumgr.core.inventory import Inventory
    from vgpumgr.core.model.endpoint import Endpoint


def examine(load_inventory: Callable[[], Inventory]) -> tuple[Illness, ...]:
    """The illnesses of this machine, the worst first."""
    problem: str | None = None
    endpoints: list[Endpoint] = []
    try:
        hosts = load_inventory().hosts.values()
        endpoints = [host.endpoint for host in hosts if not host.endpoint.is_local]
    except (errors.ConfigError, errors.RequestError) as error:
        problem = error.message
    folder = environment.store_path().parent
    machine = own.OwnMachine(
        modules={module: importlib.util.find_spec(module) is not None for module in own.EXTRAS},
        inventory=problem,
        known_hosts=_unknown(endpoints),
        configured=sum(config_files.find(one.ssh_config).said is not None for one in endpoints),
        ssh=shutil.which("ssh"),
        state=str(folder),
        state_problem=_why_not(folder),
        state_open=folder.is_dir() and bool(folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)),
    )
    return diagnosis.in_order(own.illnesses(machine))


def _unknown(endpoints: Iterable[Endpoint]) -> dict[str, int]:
    """The missing known_hosts files of hosts that have no other one, each with the number of these hosts."""
    return Counter(
        one.known_hosts
        for one in endpoints
        if one.known_hosts not in NO_FILE
        and not any(map(os.path.exists, (one.known_hosts, one.site_known_hosts)))
        and config_files.find(one.ssh_config).said is None  # else only ssh knows which files they are
    )


def _why_not(folder: Path) -> str | None:
    """Why nothing can be written in the folder; None if it can. A missing folder is made with the first entry."""
    there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not there.is_dir():
        return f"{there} is no folder"
    return None if os.access(there, os.W_OK | os.X_OK) else f"no permission to write to {there}"
