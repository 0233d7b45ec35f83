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
    """One argument that means VMs, without its mark. `exact`: names and UUIDs; `wild`: what else a name may match."""

    text: str
    exact: frozenset[str]
    wild: re.Pattern[str] | None

    def matches(self, name: str | None, uuid: str | None = None) -> bool:
        if name in self.exact or (uuid is not None and uuid.lower() in self.exact):
            return True
        return self.wild is not None and name is not None and self.wild.match(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is shown. `whole`: hosts of which everything is shown. Of other hosts, the VMs that one of `adds` matches.

    `keeps`: every shown VM must match these. `takes`: no shown VM may match any of these.
    `within`: only these hosts are shown; None: any host.
    """

    whole: frozenset[HostName]
    adds: tuple[VmPattern, ...] = ()
    keeps: tuple[VmPattern, ...] = ()
    takes: tuple[VmPattern, ...] = ()
    within: frozenset[HostName] | None = None

    @property
    def vms(self) -> tuple[VmPattern, ...]:
        """All patterns of VMs."""
        return (*self.adds, *self.keeps, *self.takes)

    def shows(self, host: str, vm: str | None, uuid: str | None = None) -> bool:
        """Whether a vGPU of that VM on that host is meant. `vm` None: the vGPU's VM is not known."""
        name = names.HostName(host)
        if self.within is not None and name not in self.within:
            return False
        return (name in self.whole or self.adds_vm(vm, uuid)) and self.keeps_vm(vm, uuid)

    def adds_vm(self, vm: str | None, uuid: str | None = None) -> bool:
        """Whether a pattern of `adds` matches the VM, on whatever host it is."""
        return any(one.matches(vm, uuid) for one in self.adds)

    def keeps_vm(self, vm: str | None, uuid: str | None = None) -> bool:
        """Whether the patterns after `&` and `!` let the VM be shown."""
        return all(one.matches(vm, uuid) for one in self.keeps) and not any(one.matches(vm, uuid) for one in self.takes)

    def unmatched(self, vms: Iterable[tuple[str, str | None]]) -> tuple[VmPattern, ...]:
        """The patterns that match none of these VMs."""
        rest = self.vms
        for name, uuid in vms:
            if not rest:
                break
            rest = tuple(one for one in rest if not one.matches(name, uuid))
        return rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The hosts to read, and what of them is shown."""

    hosts: tuple[HostDeclaration, ...]
    shown: Shown


def _leaves_none(texts: Sequence[str], on: str | None) -> UnknownHost:
    return UnknownHost(say("'{}' leaves no host", joined(" ", [*texts, Option("--on", on or "")])), hint=patterns.HINT)


def choose(inventory: Inventory, texts: Sequence[str], on: str | None = None) -> Choice:
    """What the arguments mean, everything if there are none, limited to the hosts of `on`.

    Raises BadName, and UnknownHost if no host is left.
    """
    hosts_on = inventory.chosen(() if on is None else (on,))
    if not texts:
        return _everything(hosts_on)
    roster = inventory.roster or patterns.Roster(hosts=inventory.hosts)
    of_hosts, of_vms = _divided(texts, roster, inventory.hosts)
    if not (of_hosts or of_vms):
        inventory.chosen(texts)  # raises BadName
    host_adds, host_filters = _marked(of_hosts)
    adds, keeps, takes = (tuple(map(vm_pattern, part)) for part in patterns.in_order(of_vms))
    within = _both(inventory.chosen(host_filters), hosts_on)
    whole = () if adds else within
    if host_adds:
        whole = _both(inventory.chosen([*host_adds, *host_filters]), hosts_on)
    hosts = whole
    if adds:
        hosts = within if host_adds or on is not None else _homes(inventory, adds, within)
    if not hosts:
        raise _leaves_none(texts, on)
    if not of_vms:
        return _everything(hosts)
    return Choice(
        hosts=hosts,
        shown=Shown(whole=frozenset(host.name for host in whole), adds=adds, keeps=keeps, takes=takes),
    )


def choose_stored(texts: Sequence[str], roster: Roster, on: str | None = None) -> Shown:
    """What the arguments mean of what was stored, limited to the hosts of `on`.

    The roster has the known hosts, of the store and the inventory. Raises BadName, and UnknownHost if no host is left
    or a pattern of `on` matches nothing.
    """
    of_hosts, of_vms = _divided(texts, roster, roster.hosts)
    host_adds, host_filters = _marked(of_hosts)
    adds, keeps, takes = (tuple(map(vm_pattern, part)) for part in patterns.in_order(of_vms))
    within = frozenset(patterns.select(host_filters, roster).hosts)
    if on is not None:
        selection = patterns.select(patterns.split([on]), roster)
        for word in selection.unmatched:
            raise UnknownHost(say("no host {} is known", repr(word)), hint=_near(word, roster.hosts, patterns.HINT))
        within &= frozenset(selection.hosts)
    if not within:
        raise UnknownHost(f"{' '.join([*texts, *([on] if on else [])])!r} leaves no host", hint=patterns.HINT)
    host_names = frozenset(patterns.select(host_adds, roster).hosts) if host_adds else frozenset()
    whole = within & host_names if host_adds or adds else within
    return Shown(whole=whole, adds=adds, keeps=keeps, takes=takes, within=within)


def choose_vms(texts: Sequence[str]) -> Shown:
    """The VMs meant where an argument can only be a VM. Raises BadName if all are exclusions."""
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
        matches = patterns.match(bare, roster) if bare else None
        (of_hosts if matches and any(name in ours for name in matches) else of_vms).append(word)
    return of_hosts, of_vms


def _marked(of_hosts: Sequence[str]) -> tuple[list[str], list[str]]:
    adds, keeps, takes = patterns.in_order(of_hosts)
    return adds, [*(f"&{one}" for one in keeps), *(f"!{one}" for one in takes)]


def vm_pattern(text: str) -> VmPattern:
    """One pattern of VMs. Raises BadName for an invalid regular expression, and for no text."""
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
    """Whether a text can only mean VMs that exist already, as opposed to names and ranges."""
    return text[:1] in {"~", "!", "&"} or not _WILD.isdisjoint(text)


def unknown_vms(
    shown: Shown, inventory: Inventory, vms: Sequence[tuple[str, str | None]], *, unread: int
) -> tuple[UnknownVm, ...]:
    """An error for each argument that matches none of `vms` (name, UUID). `unread`: the number of hosts not read."""
    vm_names = {name for name, _ in vms}
    return tuple(_unknown(one, inventory, vm_names, unread=unread) for one in shown.unmatched(vms))


def _unknown(pattern: VmPattern, inventory: Inventory, vm_names: Collection[str], *, unread: int) -> UnknownVm:
    text = say("no host and no VM {}", repr(pattern.text))
    if unread:
        return VmNotSeen(
            say("{} on the hosts that answered", text), hint="make the others reachable, or leave them out: '!HOST'"
        )
    candidates = [*inventory.hosts, *vm_names]
    return UnknownVm(text, hint=_near(pattern.text, candidates, "`virsh list --all` on a host shows its VMs"))


def _near(text: str, candidates: Iterable[str], otherwise: str) -> str:
    near = names.nearest(text, candidates)
    return f"did you mean {near}?" if near else otherwise


def _everything(hosts: tuple[HostDeclaration, ...]) -> Choice:
    return Choice(hosts=hosts, shown=Shown(whole=frozenset(host.name for host in hosts)))


def _both(some: Iterable[HostDeclaration], others: Collection[HostDeclaration]) -> tuple[HostDeclaration, ...]:
    names_of_others = {host.name for host in others}
    return tuple(host for host in some if host.name in names_of_others)


def _homes(
    inventory: Inventory, adds: Sequence[VmPattern], within: tuple[HostDeclaration, ...]
) -> tuple[HostDeclaration, ...]:
    """The hosts that declare the VMs, if all are names that are declared; else every host."""
    homes = {}
    for one in adds:
        home = inventory.host_of_vm(one.text) if one.wild is None else None
        if home is None or home not in within:
            return within
        homes[home.name] = home
    return tuple(homes[name] for name in sorted(homes))


def _words(texts: Sequence[str], roster: Roster) -> Iterator[str]:
    """The single patterns. A text that does not look like several is one pattern: a VM may have such a name."""
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
