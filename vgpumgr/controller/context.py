"""What every use case gets: the inventory, a way to reach hosts, the user, the clock. Nothing comes from globals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.inventory import HostDeclaration, Inventory
    from vgpumgr.core.model.attached import History
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.host import Host
    from vgpumgr.names import HostName
    from vgpumgr.store.journal import Journal


class Slow(NamedTuple):
    """A host whose work takes long. `seconds`: since it began. `stage`: what we wait for (link/stages.py)."""

    host: HostName
    seconds: float
    stage: str | None = None


class Steps(NamedTuple):
    """How many of the steps planned on all hosts are done."""

    done: int
    planned: int


class Done(NamedTuple):
    """A finished task of a host. `subject`: `vm01 vgpu0` or `GPU 0000:41:00.0`. `steps`: those of the whole run."""

    host: HostName
    subject: str
    steps: Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the work on hosts is. `ended`: how many of the `hosts` are done or failed.

    `slow`: those that have run for long, the longest first. `steps`: None while the hosts are only read.
    """

    ended: int
    hosts: int
    slow: tuple[Slow, ...] = ()
    steps: Steps | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """`by` is user@controller; `now` gives RFC 3339 in UTC; `progress` takes one short line.

    `reading` is called often with the progress of reading or changing several hosts, only to show it to a person.
    `done` is called for each change of a run that makes several, from the hosts' threads, one call at a time.
    `history`: what was attached lately; None: it is not known, or nothing is placed (lately.py). `timing`: how long to
    wait for what. `journal` None: changes are not recorded.
    `store` is the controller's own file; the lock that keeps two reconciles apart is beside it. None: there is no lock.
    """

    inventory: Inventory
    connect: Callable[[Endpoint], Host]  # raises HostError with the stage that failed
    catalogue: Catalogue
    by: str
    now: Callable[[], str]
    progress: Callable[[str], None]
    reading: Callable[[Progress], None] = lambda _: None
    done: Callable[[Done], None] = lambda _: None
    history: History | None = None
    timing: Timing = field(default_factory=Timing)
    journal: Journal | None = None
    store: Path | None = None

    def say_reading(self, hosts: Sequence[HostDeclaration], doing: str = "reading") -> None:
        """Tell the user which hosts are read now."""
        self.progress(f"{doing} {hosts[0].name if len(hosts) == 1 else f'{len(hosts)} hosts'} …")
