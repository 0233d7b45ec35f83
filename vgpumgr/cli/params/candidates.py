"""The names that TAB offers. They come from the inventory, the journal, the samples and the catalogue, not from hosts.

Each function has the signature of click's shell_complete. A source that cannot be read offers nothing: an error must
not appear in the middle of the line that is being typed.
"""

from __future__ import annotations

import functools
import os
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import click
    from click.shell_completion import CompletionItem

    from vgpumgr.core.driver.catalogue import CatalogueType
    from vgpumgr.core.inventory import HostDeclaration, Inventory
    from vgpumgr.core.usage.readings import LatestHost

    Source = Callable[[click.Context], Iterable[str]]
    Completer = Callable[[click.Context, click.Parameter, str], Any]


def _offering(source: Source) -> Completer:
    """A completer that offers the names which begin with the typed text and are not on the line yet."""

    @functools.wraps(source)
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        values = context.params.get(parameter.name or "") if parameter.nargs == -1 else None
        try:
            names = dict.fromkeys(source(context))
        except Exception:  # noqa: BLE001 -- the command reports what is wrong, not TAB
            return []
        return [name for name in names if name.startswith(incomplete) and name not in (values or ())]

    return complete


def hosts(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The inventory's hosts and groups; within a pattern, what can follow the last comma, colon, `!` or `&`."""
    return _in_pattern(_hosts_and_groups, context, parameter, incomplete)


def vms_and_hosts(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The VMs, hosts and groups; within a pattern, what can follow the last comma, colon, `!` or `&`."""
    return _in_pattern(_everything, context, parameter, incomplete)


@_offering
def host(context: click.Context) -> Iterable[str]:
    """The inventory's hosts, for an argument that takes only one."""
    return _inventory(context).hosts


@_offering
def groups(context: click.Context) -> Iterable[str]:
    """The inventory's groups, even if it does not say yet which hosts are ours."""
    roster = _inventory(context, group="all").roster
    return sorted(roster.members) if roster else ()


@_offering
def vms(context: click.Context) -> Iterable[str]:
    """The declared VMs (only those on --on's hosts, if it is given), the journal's, and the sampled ones."""
    return _vm_names(context)


@_offering
def slots(context: click.Context) -> Iterable[str]:
    """The slots declared for the VM, and the default one."""
    from vgpumgr.names import DEFAULT_SLOT

    vm = _vm(context)
    declarations = (declaration for host in _hosts_asked(context) for declaration in host.vms.values())
    return DEFAULT_SLOT, *(
        slot for declaration in declarations if vm in (None, declaration.name) for slot in declaration.slots
    )


@_offering
def gpus(context: click.Context) -> Iterable[str]:
    """The GPUs that the inventory names or `collect` has seen, on --on's hosts, else the VM's host, else all hosts."""
    samples = {one.last.host: one for one in _sampled()}
    for host in _hosts_asked(context):
        yield from (gpu.gpu_id for gpu in host.gpus)
        yield from (slot.gpu_id for vm in host.vms.values() for slot in vm.slots.values() if slot.gpu_id is not None)
        if host.name in samples:
            reading = samples[host.name].last.reading
            yield from (gpu.pci for gpu in reading.gpus) if reading is not None else ()


@_offering
def policies(context: click.Context) -> Iterable[str]:
    """The placement policies that are built in, and those that the inventory uses."""
    from vgpumgr.core.policies import known

    return dict.fromkeys((*known.BUILT_IN, *(host.policy.name for host in _hosts_asked(context))))


@_offering
def profiles(context: click.Context) -> Iterable[str]:
    """The known profiles of the site's boards, smallest first: short names, then those with their board; no MIG."""
    from vgpumgr import resources
    from vgpumgr.core.driver import catalogue

    rows = [row for row in catalogue.parse(resources.catalogue_text()).types if row.name.slices is None]
    codes = _boards(context, rows)
    names = [row.name for row in rows if not codes or row.board in codes]
    names.sort(key=lambda name: (name.nominal_mib, name.series, name.suffix, name.board))
    return *(name.short for name in names), *(name.text for name in names)


@_offering
def topics(_context: click.Context) -> Iterable[str]:
    """The pages of the documentation."""
    from vgpumgr import resources

    return resources.pages()


@_offering
def boards(_context: click.Context) -> Iterable[str]:
    """The codes of the catalogue's boards."""
    from vgpumgr import resources
    from vgpumgr.core.driver import catalogue

    return sorted({row.board for row in catalogue.parse(resources.catalogue_text()).types})


@_offering
def mig_boards(_context: click.Context) -> Iterable[str]:
    """The codes of the boards that have MIG."""
    from vgpumgr import resources
    from vgpumgr.core.driver import catalogue, mig_fit

    return mig_fit.boards(catalogue.parse(resources.catalogue_text()))


def mig_profiles(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The MIG profiles of the board on the line, even those already typed: a board takes several of most profiles."""
    from vgpumgr import resources
    from vgpumgr.core.driver import catalogue, known_types, mig
    from vgpumgr.errors import VgpumgrError

    types = catalogue.parse(resources.catalogue_text())
    try:
        instances = mig.board_profiles(types, known_types.board_of(types, context.params.get("board") or ""))
    except VgpumgrError:  # the command reports what is wrong, not TAB
        return []
    return [one.name for one in instances or () if one.name.startswith(incomplete)]


@_offering
def lab_hosts(context: click.Context) -> Iterable[str]:
    """The hosts of the lab that --dir or the environment names."""
    return [host.name for host in context.params["layout"].read().hosts]


@_offering
def lab_specs(_context: click.Context) -> Iterable[str]:
    """The built-in specs."""
    from vgpumgr.lab.builtin_specs import BUILTIN

    return BUILTIN


def folders(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The shell's own completion of directories."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


_PREFIX = re.compile(r"(?:.*[,:])?[!&]?")


def _in_pattern(offer: Completer, context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    names: list[str] = offer(context, parameter, incomplete)  # a name may hold a colon itself
    prefix = _PREFIX.match(incomplete)
    if names or prefix is None or not prefix[0]:
        return names
    head, tail = prefix[0], incomplete[prefix.end() :]
    return [head + name for name in offer(context, parameter, tail) if name not in re.split(r"[,:!&]", head)]


@_offering
def _hosts_and_groups(context: click.Context) -> Iterable[str]:
    return *_inventory(context).hosts, *_groups(context)


@_offering
def _everything(context: click.Context) -> Iterable[str]:
    return *_vm_names(context), *_inventory(context).hosts, *_groups(context)


def _groups(context: click.Context) -> Iterator[str]:
    """The groups with some of our hosts, but not all: only these narrow anything."""
    inventory = _inventory(context)
    roster = inventory.roster
    for name in sorted(roster.members) if roster else ():
        ours = {host for host in roster.of_group(name) if host in inventory.hosts} if roster else set()
        if ours and len(ours) < len(inventory.hosts):
            yield name


def _vm_names(context: click.Context) -> list[str]:
    from vgpumgr.controller import environment
    from vgpumgr.store.sql.names import known

    inventory_hosts = [*_hosts_asked(context)]
    names = {*(vm for host in inventory_hosts for vm in host.vms), *known(environment.store_path()).vms}
    hosts = {host.name for host in inventory_hosts}
    for one in _sampled():
        if one.last.host in hosts and one.last.reading is not None:
            names.update(vgpu.vm for gpu in one.last.reading.gpus for vgpu in gpu.vgpus if vgpu.vm)
    return sorted(names)


def _sampled() -> tuple[LatestHost, ...]:
    """What `collect` saw last of each host; nothing if it never ran, or its file cannot be read."""
    from vgpumgr.controller import environment
    from vgpumgr.store import place

    try:
        path = place.samples_beside(environment.store_path())
        if not path.exists():
            return ()
        from vgpumgr.store.sql.samples import Samples

        return Samples(path).latest()
    except Exception:  # noqa: BLE001 -- the inventory's own names are still worth offering
        return ()


def _boards(context: click.Context, rows: Iterable[CatalogueType]) -> set[str]:
    """The codes of the boards that the inventory declares or `collect` has seen; empty if none is known."""
    from vgpumgr.core.driver.known_types import board_name
    from vgpumgr.core.driver.profiles import ByProfile

    codes = {board_name(row).lower(): row.board for row in rows}
    found: set[str] = set()
    for host in _inventory(context).hosts.values():
        found.update(host.fgpu_per_gpu)
        for slot in (slot for vm in host.vms.values() for slot in vm.slots.values()):
            if isinstance(slot.wish, ByProfile) and slot.wish.profile.board is not None:
                found.add(slot.wish.profile.board)
    for one in _sampled():
        for gpu in one.last.reading.gpus if one.last.reading is not None else ():
            found.add(codes.get((gpu.name or "").lower(), ""))
    return found & {*codes.values()}


def _hosts_asked(context: click.Context) -> Iterator[HostDeclaration]:
    """The hosts of --on, else the host that declares the VM, else every host."""
    inventory = _inventory(context)
    on, vm = context.params.get("on"), _vm(context)
    if on:
        yield from inventory.chosen((on,))
        return
    home = inventory.host_of_vm(vm) if vm else None
    yield from inventory.hosts.values() if home is None else (home,)


def _vm(context: click.Context) -> str | None:
    """The only VM on the line. Click leaves arguments unparsed while the option before the cursor has no value."""
    if "vms" in context.params:
        words = context.params["vms"] or context.args
        return words[0] if len(words) == 1 else None
    if "vm" not in context.params:
        return None
    return context.params["vm"] or next(iter(context.args), None)


def _inventory(context: click.Context, *, group: str | None = None) -> Inventory:
    """The inventory that -i and --group name on the line, else the command's default. Raises InventoryError."""
    from vgpumgr.controller import environment

    values = _option(context, "inventory") or ()
    paths = tuple(map(os.path.expanduser, values))
    return environment.load_inventory(paths, group or _option(context, "group"), asks=False)


def _option(context: click.Context, name: str) -> Any:
    """A common option as given, before or after the command's name."""
    above: click.Context | None = context
    value: Any = None
    while above is not None and not value:
        value, above = above.params.get(name), above.parent
    return value
