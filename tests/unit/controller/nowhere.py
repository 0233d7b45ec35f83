"""A context in which no host can be reached."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.core.declarations import declares
from vgpumgr.controller.context import Context
from vgpumgr.core.driver import catalogue
from vgpumgr.core.inventory import Inventory
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.host import Host
    from vgpumgr.store.journal import Journal


def _no_host(endpoint: Endpoint, *, writes: bool = False) -> Host:
    raise AssertionError(f"nothing here reaches {endpoint}, {writes}")


def context(*hosts: str, journal: Journal | None = None) -> Context:
    """Its inventory has these hosts, and its clock goes on by a second at each look."""
    seconds = itertools.count()
    declared = {HostName(host): replace(declares(), name=HostName(host)) for host in hosts}
    return Context(
        inventory=Inventory(root="/", hosts=declared, findings=()),
        connect=_no_host,
        catalogue=catalogue.parse(""),
        by="anna@ctl1",
        now=lambda: f"2026-11-21T12:00:{next(seconds):02}Z",
        progress=lambda _: None,
        journal=journal,
    )
