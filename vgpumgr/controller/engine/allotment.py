"""How the owners' quotas are divided among the hosts of one command, before any of them is changed.

Each host is planned as if there were no quota. If no owner with a quota gets more, that is all. Otherwise hosts that
were not read yet are read, and those on which something is added are planned again, in the order of their names: each
with what is left after those before it. What is freed on one host counts for the others from the next command on.

The commands of one controller take turns at this, by a lock beside the store, and a command has its turn until its plan
is carried out. While it waits for its turn it locks no host, since the command that has the turn reads all hosts.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.core.model.owners import NOTHING, Allowance, Amount
from vgpumgr.core.slot import detach, quotas
from vgpumgr.errors import AlreadyRunning
from vgpumgr.store.only_one import QUOTAS, only_one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.engine.host_run import HostRun
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.owners import Allowances, Held
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import HostName, OwnerName


Seen = TypeVar("Seen")


class Allotment:
    """What each host of a command may take of the quotas. It is decided for the plan that is shown, and, when the
    command has its turn, again for the plan that is carried out. A context manager, which ends the turn.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._turn = ExitStack()
        self._held: dict[HostName, tuple[Held, ...]] = {}
        self._growing: dict[HostName, HostRun] = {}
        self._allowances: dict[HostName, Allowances] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._turn.close()

    def note(self, run: HostRun) -> None:
        """Take note of a host that was read, and whether its plan gives more to an owner with a quota."""
        if self._allowances is None and run.view.quotas:
            host = run.session.declaration.name
            self._held[host] = quotas.held(run.view)
            self._growing.pop(host, None)
            if run.growth():
                self._growing[host] = run

    def look(self, look: Callable[[], Seen], unlock: Callable[[], None]) -> Seen:
        """Call `look`, which locks hosts and notes them, and take our turn if their plans need it. Returns its result.

        If another command has the turn, the hosts are unlocked, we wait for the turn, and `look` is called again.
        Raises AlreadyRunning if that takes too long.
        """
        self._forget()
        seen = look()
        try:
            self._take_turn(wait_s=0)
        except AlreadyRunning as error:
            unlock()
            self._wait_for_turn(error)
            self._forget()
            seen = look()
        return seen

    def count_again(self) -> None:
        """Wait for our turn, and decide again. To be called before hosts are locked for the changes."""
        if self._growing:
            try:
                self._take_turn(wait_s=0)
            except AlreadyRunning as error:
                self._wait_for_turn(error)
            self._held.clear()
            self._allowances = None
            self.decide()

    def end_turn(self) -> None:
        """Let other commands have the turn: this one carries out nothing now."""
        self._turn.close()

    def _forget(self) -> None:
        self._held.clear()
        self._growing.clear()
        self._allowances = None

    def _wait_for_turn(self, other: AlreadyRunning) -> None:
        wait_s = self._context.timing.lock_wait_s
        self._context.progress(f"{other.message}; waiting up to {wait_s:.0f} s …")
        self._take_turn(wait_s)

    def _take_turn(self, wait_s: float) -> None:
        """Take our turn, if a plan gives more to an owner with a quota. Raises AlreadyRunning or StoreError."""
        self._turn.close()
        if self._growing and self._context.store is not None:
            self._turn.enter_context(only_one(self._context.store, self._context.by, name=QUOTAS, wait_s=wait_s))

    def of(self, host: HostName) -> Allowances | None:
        """What a host may take, by owner; empty if its plan takes nothing. None: that is not decided yet."""
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
        """Read the hosts of the inventory that this command has not read. Returns the hosts that could not be read."""

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
