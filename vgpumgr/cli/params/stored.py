"""The arguments of `history` and `usage`: VMs and hosts, looked up in the store and in the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors, names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.inventory.choice import Shown
    from vgpumgr.core.inventory.patterns import Roster


def is_plain(text: str) -> bool:
    """Whether the text can only be one name. The store is asked for such a name without reading the inventory."""
    return set(text).isdisjoint(",:*?[!&~ ")


def known(settings: Settings, vms: Iterable[str], hosts: Iterable[str]) -> tuple[set[str], Roster]:
    """These VMs and hosts, and the inventory's; only these if the inventory is missing or has problems."""
    from vgpumgr.cli.wiring import load_inventory
    from vgpumgr.core.inventory.patterns import Roster

    host_names = [names.HostName(name) for name in hosts]
    try:
        inventory = load_inventory(settings)
    except errors.InventoryError:
        return set(vms), Roster(hosts=dict.fromkeys(host_names))
    groups = inventory.roster
    return {*vms, *(vm for host in inventory.hosts.values() for vm in host.vms)}, Roster(
        hosts=dict.fromkeys([*inventory.hosts, *host_names]),
        members=groups.members if groups else {},
        children=groups.children if groups else {},
    )


def guard_age(option: str, seconds: float | None) -> None:
    """Raises UsageError if an option asks for more time than samples are added up over. `seconds` None: not given."""
    from vgpumgr.core.usage import histogram

    if seconds is not None and seconds > histogram.MAX_DAYS * 86400:
        raise errors.UsageError(f"{option}: at most {histogram.MAX_DAYS}d")


def chosen(texts: Sequence[str], vms: Collection[str], roster: Roster, what: str, *, on: str | None = None) -> Shown:
    """What the arguments select. `what`: the store's name in messages.

    Raises UnknownName and UnknownHost if an argument matches nothing, and BadName.
    """
    from vgpumgr.core.inventory import choice

    matches = choice.choose_stored(texts, roster, on)
    for missed in matches.unmatched((name, None) for name in vms):
        raise unknown(missed.text, {*vms, *roster.hosts}, what)
    return matches


def unknown(text: str, valid: Iterable[str], what: str) -> errors.UnknownName:
    """The error for an unknown name."""
    near = names.nearest(text, valid)
    command = "history" if what == "journal" else "usage"
    return errors.UnknownName(
        f"neither the {what} nor the inventory knows a VM or host {text!r}",
        hint=f"did you mean {near}?" if near else f"`vgpumgr {command}` lists all of them",
    )
