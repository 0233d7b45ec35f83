"""How the owners' quotas are divided among the hosts of one command, before any of them is changed.

Each host is planned as if there were no quota. If no owner with a quota gets more, that is all. Otherwise hosts that
were not read yet are read, and those on which something is added are planned again, in the order of their names: each
with what is left after those before it. What is freed on one host counts for the others from the next command on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.core.model.owners import NOTHING, Allowance, Amount
from vgpumgr.core.slot import detach, quotas

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.engine.host_run import HostRun
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.owners import Allowances, Held
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import HostName, OwnerName


class Allotment:
    """What each host of a command may take of the quotas. It is decided once: later plans keep to it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._held: dict[HostName, tuple[Held, ...]] = {}
        self._growing: dict[HostName, HostRun] = {}
        self._allowances: dict[HostName, Allowances] | None = None

    def note(self, run: HostRun) -> None:
        """Take note of a host that was read, and whether its plan gives more to an owner with a quota."""
        if self._allowances is None and run.view.quotas:
            host = run.session.declaration.name
            self._held[host] = quotas.held(run.view)
            if run.growth():
                self._growing[host] = run

    def of(self, host: HostName) -> Allowances | None:
        """What a host may take, by owner: nothing more, if its plan took nothing. None: that is not decided yet."""
        return None if self._allowances is None else self._allowances.get(host, {})

    def decide(self, failed: Iterable[HostName] = ()) -> tuple[HostRun, ...]:
        """Decide, and return the runs that have to be planned again. `failed`: the hosts that could not be read."""
        if self._allowances is not None or not self._context.inventory.quotas:
            return ()
        unread = self._read_others(set(failed)) if self._growing else ()
        self._allowances = {}
        by_owner: dict[OwnerName, list[Held]] = {}
        for one in (one for rows in self._held.values() for one in rows):
            by_owner.setdefault(one.owner, []).append(one)
        granted: dict[OwnerName, Amount] = {}
        for host, run in sorted(self._growing.items()):
            self._allowances[host] = {
                owner: Allowance(
                    others=tuple(one for one in by_owner.get(owner, ()) if one.host != host),
                    granted=granted.get(owner, NOTHING),
                    unread=unread,
                )
                for owner in self._context.inventory.quotas
            }
            run.allow(self._allowances[host])
            for owner, amount in run.growth().items():
                granted[owner] = granted.get(owner, NOTHING).plus(amount)
        return tuple(self._growing.values())

    def _read_others(self, failed: set[HostName]) -> tuple[HostName, ...]:
        """Read the hosts of the inventory that this command has not read. Returns those that cannot be."""

        def read(declaration: HostDeclaration) -> tuple[tuple[HostName, tuple[Held, ...]], VgpumgrError | None]:
            with open_session(self._context, declaration) as session:
                view = session.observe()
            return (declaration.name, quotas.held(view)), detach.ledger_broken(view.snapshot)

        hosts = self._context.inventory.hosts
        others = [one for name, one in hosts.items() if name not in self._held and name not in failed]
        if others:
            self._context.say_reading(others)
        fleet = read_fleet(others, read, self._context)
        self._held.update(dict(fleet.views))
        return tuple(sorted({*failed, *(host for host, _ in fleet.errors)}))
