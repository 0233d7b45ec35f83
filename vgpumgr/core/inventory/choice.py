"""What a command that reads shows: the vGPUs of hosts, of VMs, or of both, as its arguments say.

An argument that means a host or a group of ours means its hosts; any other one means VMs, by name, UUID, range, shell
wildcards, or, after `~`, a regular expression. What several arguments mean is added up; `&` and `!` hold for all of it.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import names
from vgpumgr.core.inventory import patterns, ranges
from vgpumgr.errors import BadName, UnknownHost, UnknownVm, VmNotSeen
from vgpumgr.wording import Option, joined, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from vgpumgr.core.inventory.model import HostDeclaration, Inventory
    from vgpumgr.core.inventory.patterns import Roster
    from vgpumgr.names import HostName

_SPLITS = frozenset(",*?!&~")
_WILD = frozenset("*?")


@dataclass(frozen=True, slots=True, kw_only=True)
class VmPattern:
    """One argument that means VMs, without its mark. `exact`: names and UUIDs; `wild`: what a name may match instead."""

    text: str
    exact: frozenset[str]
    wild: re.Pattern[str] | None

    def matches(self, name: str | None, uuid: str | None = None) -> bool:
        if name in self.exact or (uuid is not None and uuid.lower() in self.exact):
            return True
        return self.wild is not None and name is not None and self.wild.match(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """`whole`: the hosts of which everything is shown; of the others, only what `adds` matches.

    `keeps` and `takes`: what every VM that is shown must match, and must not. `within`: no other host at all; None: any.
    """

    whole: frozenset[HostName]
    adds: tuple[VmPattern, ...] = ()
    keeps: tuple[VmPattern, ...] = ()
    takes: tuple[VmPattern, ...] = ()
    within: frozenset[HostName] | None = None

    @property
    def vms(self) -> tuple[VmPattern, ...]:
        """All that means VMs."""
        return (*self.adds, *self.keeps, *self.takes)

    def shows(self, host: str, vm: str | None, uuid: str | None = None) -> bool:
        """Whether a vGPU of that VM on that host is meant. None: no VM of it is known."""
        name = names.HostName(host)
        if self.within is not None and name not in self.within:
            return False
        return (name in self.whole or self.adds_vm(vm, uuid)) and self.keeps_vm(vm, uuid)

    def adds_vm(self, vm: str | None, uuid: str | None = None) -> bool:
        """Whether a VM is named, wherever it is."""
        return any(one.matches(vm, uuid) for one in self.adds)

    def keeps_vm(self, vm: str | None, uuid: str | None = None) -> bool:
        """Whether `&` and `!` leave the VM among those that are meant."""
        return all(one.matches(vm, uuid) for one in self.keeps) and not any(one.matches(vm, uuid) for one in self.takes)

    def unmatched(self, vms: Iterable[tuple[str, str | None]]) -> tuple[VmPattern, ...]:
        """The patterns that match none of the VMs there are."""
        left = self.vms
        for name, uuid in vms:
            if not left:
                break
            left = tuple(one for one in left if not one.matches(name, uuid))
        return left


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The hosts to read, and what of them is shown."""

    hosts: tuple[HostDeclaration, ...]
    shown: Shown


def choose(inventory: Inventory, texts: Sequence[str], on: str | None = None) -> Choice:
    """What the arguments mean; without any, everything; and of that what is on the hosts of `on`.

    Raises BadName, and UnknownHost if no host is left.
    """
    there = inventory.chosen(() if on is None else (on,))
    if not texts:
        return _everything(there)
    roster = inventory.roster or patterns.Roster(hosts=inventory.hosts)
    of_hosts, of_vms = _divided(texts, roster, inventory.hosts)
    if not (of_hosts or of_vms):
        inventory.chosen(texts)  # raises BadName
    host_adds, marked = _marked(of_hosts)
    adds, keeps, takes = (tuple(map(vm_pattern, part)) for part in patterns.in_order(of_vms))
    within = _both(inventory.chosen(marked), there)
    whole = _both(inventory.chosen([*host_adds, *marked]), there) if host_adds else () if adds else within
    hosts = whole
    if adds:
        hosts = within if host_adds or on is not None else _homes(inventory, adds, within)
    if not hosts:
        raise UnknownHost(
            say("'{}' leaves no host", joined(" ", [*texts, Option("--on", on or "")])), hint=patterns.HINT
        )
    if not of_vms:
        return _everything(hosts)
    return Choice(
        hosts=hosts,
        shown=Shown(whole=frozenset(host.name for host in whole), adds=adds, keeps=keeps, takes=takes),
    )


def choose_stored(texts: Sequence[str], roster: Roster, on: str | None = None) -> Shown:
    """What the arguments mean of what was stored, and of that what was on the hosts of `on`.

    The roster has the hosts that are known, of the store and the inventory. Raises BadName, and UnknownHost if no host is left,
    or nothing is called like a pattern of `on`.
    """
    of_hosts, of_vms = _divided(texts, roster, roster.hosts)
    host_adds, marked = _marked(of_hosts)
    adds, keeps, takes = (tuple(map(vm_pattern, part)) for part in patterns.in_order(of_vms))
    within = frozenset(patterns.select(marked, roster).hosts)
    if on is not None:
        there = patterns.select(patterns.split([on]), roster)
        for missed in there.unmatched:
            raise UnknownHost(say("no host {} is known", repr(missed)), hint=_near(missed, roster.hosts, patterns.HINT))
        within &= frozenset(there.hosts)
    if not within:
        raise UnknownHost(f"{' '.join([*texts, *([on] if on else [])])!r} leaves no host", hint=patterns.HINT)
    named = frozenset(patterns.select(host_adds, roster).hosts) if host_adds else frozenset()
    whole = within & named if host_adds or adds else within
    return Shown(whole=whole, adds=adds, keeps=keeps, takes=takes, within=within)


def choose_vms(texts: Sequence[str]) -> Shown:
    """The VMs that are meant where an argument can only be one. Raises BadName if none is added, only taken away."""
    adds, keeps, takes = (tuple(map(vm_pattern, part)) for part in patterns.in_order(vm_words(texts)))
    if not adds:
        raise BadName("no VM is named, only exclusions", hint="name VMs, too: 'web*' '!web03'")
    return Shown(whole=frozenset(), adds=adds, keeps=keeps, takes=takes)


def vm_words(texts: Sequence[str]) -> tuple[str, ...]:
    """The single patterns of texts that can only mean VMs."""
    return tuple(_words(texts, patterns.Roster(hosts=())))


def _divided(texts: Sequence[str], roster: Roster, ours: Collection[HostName]) -> tuple[list[str], list[str]]:
    """The single patterns that mean hosts of ours, and those that mean VMs, with their marks."""
    of_hosts: list[str] = []
    of_vms: list[str] = []
    for word in _words(texts, roster):
        bare = word[1:] if word[0] in "&!" else word
        found = patterns.match(bare, roster) if bare else None
        (of_hosts if found and any(name in ours for name in found) else of_vms).append(word)
    return of_hosts, of_vms


def _marked(of_hosts: Sequence[str]) -> tuple[list[str], list[str]]:
    adds, keeps, takes = patterns.in_order(of_hosts)
    return adds, [*(f"&{one}" for one in keeps), *(f"!{one}" for one in takes)]


def vm_pattern(text: str) -> VmPattern:
    """One pattern of VMs. Raises BadName for a regular expression that is none, and for no text."""
    if not text:
        raise BadName("no VM is named", hint=patterns.HINT)
    uuid = names.as_uuid(text)
    exact = {text} if uuid is None else {text, uuid}
    wild: re.Pattern[str] | None = None
    try:
        if text.startswith("~"):
            wild = re.compile(text[1:])
        elif not _WILD.isdisjoint(text) or "[" in text:
            wild = re.compile(fnmatch.translate(text))
            exact.update(ranges.names(text) if _is_range(text) else ())
    except (re.error, OverflowError, RecursionError) as error:
        raise BadName(f"not a regular expression: {text!r}: {error}", hint=patterns.HINT) from error
    return VmPattern(text=text, exact=frozenset(exact), wild=wild)


def is_wild(text: str) -> bool:
    """Whether a text can only mean VMs that are there already, as opposed to names and ranges."""
    return text[:1] in {"~", "!", "&"} or not _WILD.isdisjoint(text)


def unknown_vms(
    shown: Shown, inventory: Inventory, vms: Sequence[tuple[str, str | None]], *, unread: int
) -> tuple[UnknownVm, ...]:
    """An error for each argument that nothing matches; `vms`: names and UUIDs on the hosts that were read, all but `unread`."""
    seen = {name for name, _ in vms}
    return tuple(_unknown(one, inventory, seen, unread=unread) for one in shown.unmatched(vms))


def _unknown(pattern: VmPattern, inventory: Inventory, seen: Collection[str], *, unread: int) -> UnknownVm:
    said = say("no host and no VM {}", repr(pattern.text))
    if unread:
        return VmNotSeen(
            say("{} on the hosts that answered", said), hint="make the others reachable, or leave them out: '!HOST'"
        )
    known = [*inventory.hosts, *seen]
    return UnknownVm(said, hint=_near(pattern.text, known, "`virsh list --all` on a host shows its VMs"))


def _near(text: str, known: Iterable[str], otherwise: str) -> str:
    near = names.nearest(text, known)
    return f"did you mean {near}?" if near else otherwise


def _everything(hosts: tuple[HostDeclaration, ...]) -> Choice:
    return Choice(hosts=hosts, shown=Shown(whole=frozenset(host.name for host in hosts)))


def _both(some: Iterable[HostDeclaration], others: Collection[HostDeclaration]) -> tuple[HostDeclaration, ...]:
    names_of_others = {host.name for host in others}
    return tuple(host for host in some if host.name in names_of_others)


def _homes(
    inventory: Inventory, adds: Sequence[VmPattern], within: tuple[HostDeclaration, ...]
) -> tuple[HostDeclaration, ...]:
    """The hosts that declare the VMs, if all of them are names that are declared; else every host."""
    homes = {}
    for one in adds:
        home = inventory.host_of_vm(one.text) if one.wild is None else None
        if home is None or home not in within:
            return within
        homes[home.name] = home
    return tuple(homes[name] for name in sorted(homes))


def _words(texts: Sequence[str], roster: Roster) -> Iterator[str]:
    """The single patterns. A text that does not look like several is one, whatever else it has: a VM may be called so."""
    for text in texts:
        parts = patterns.split([text])
        if _SPLITS.isdisjoint(text) and not all(patterns.match(part, roster) for part in parts):
            yield text
        else:
            yield from parts


def _is_range(text: str) -> bool:
    try:
        return ranges.has_range(text)
    except BadName:
        return False
