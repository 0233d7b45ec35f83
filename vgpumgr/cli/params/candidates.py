"""The names that TAB offers, read from the inventory's files, the journal and the catalogue, never from a host.

Each function has the signature of click's shell_complete. A source that cannot be read offers nothing: an error must not
appear in the middle of the line that is being typed.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import click
    from click.shell_completion import CompletionItem

    from vgpumgr.core.inventory import HostDeclaration, Inventory

    Source = Callable[[click.Context], Iterable[str]]
    Completer = Callable[[click.Context, click.Parameter, str], Any]


def _offering(source: Source) -> Completer:
    """A completer that offers the names which begin with the typed text and are not on the line yet."""

    @functools.wraps(source)
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        given = context.params.get(parameter.name or "") if parameter.nargs == -1 else None
        try:
            names = dict.fromkeys(source(context))
        except Exception:  # noqa: BLE001 -- the command reports what is wrong, not TAB
            return []
        return [name for name in names if name.startswith(incomplete) and name not in (given or ())]

    return complete


@_offering
def hosts(context: click.Context) -> Iterable[str]:
    """The inventory's hosts."""
    return _inventory(context).hosts


@_offering
def groups(context: click.Context) -> Iterable[str]:
    """The inventory's groups, also where nothing says yet which of them is ours."""
    roster = _inventory(context, group="all").roster
    return sorted(roster.members) if roster else ()


def host_list(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The same for a comma-separated list: completes the part after the last comma."""
    before, comma, begun = incomplete.rpartition(",")
    found: list[str] = hosts(context, parameter, begun)
    return [f"{before}{comma}{name}" for name in found if name not in before.split(",")]


@_offering
def vms(context: click.Context) -> Iterable[str]:
    """The declared VMs (of --on's host if the line already has it), and those in the journal."""
    return _vm_names(context)


@_offering
def vms_and_hosts(context: click.Context) -> Iterable[str]:
    """The names that `history` accepts."""
    return *_vm_names(context), *_inventory(context).hosts


@_offering
def slots(context: click.Context) -> Iterable[str]:
    """The slots declared for the VM, and the default one."""
    from vgpumgr.names import DEFAULT_SLOT

    vm = _vm(context)
    declared = (declaration for host in _hosts_asked(context) for declaration in host.vms.values())
    return DEFAULT_SLOT, *(
        slot for declaration in declared if vm in (None, declaration.name) for slot in declaration.slots
    )


@_offering
def gpus(context: click.Context) -> Iterable[str]:
    """The GPUs that the inventory names, only those of the VM's host if that is known."""
    for host in _hosts_asked(context):
        yield from (gpu.gpu_id for gpu in host.gpus)
        yield from (slot.gpu_id for vm in host.vms.values() for slot in vm.slots.values() if slot.gpu_id is not None)


@_offering
def profiles(_context: click.Context) -> Iterable[str]:
    """The catalogue's profiles, smallest first: the short names, then those with their board."""
    from vgpumgr import resources
    from vgpumgr.core.driver import catalogue

    names = [row.name for row in catalogue.parse(resources.catalogue_text()).types]
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


def usage_columns(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 -- click's signature
    """The columns that --sort of `usage` takes; after a minus, with it."""
    from vgpumgr.cli.text.usage_text import SORT_COLUMNS

    before, comma, begun = incomplete.rpartition(",")
    minus = "-" if begun.startswith("-") else ""
    return [f"{before}{comma}{minus}{name}" for name in SORT_COLUMNS if name.startswith(begun.removeprefix("-"))]


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


def _vm_names(context: click.Context) -> list[str]:
    from vgpumgr.controller import environment
    from vgpumgr.store.sql.names import known

    return sorted({*(vm for host in _hosts_asked(context) for vm in host.vms), *known(environment.store_path()).vms})


def _hosts_asked(context: click.Context) -> Iterator[HostDeclaration]:
    """The host that --on names or that declares the VM; every host if the line has neither."""
    inventory = _inventory(context)
    on, vm = context.params.get("on"), _vm(context)
    found = inventory.hosts.get(on) if on else inventory.host_of_vm(vm) if vm else None
    yield from inventory.hosts.values() if found is None else (found,)


def _vm(context: click.Context) -> str | None:
    """The VM on the line, if it is one. If the option before the cursor has no value yet, click leaves arguments unparsed."""
    if "vms" in context.params:
        named = context.params["vms"] or context.args
        return named[0] if len(named) == 1 else None
    if "vm" not in context.params:
        return None
    return context.params["vm"] or next(iter(context.args), None)


def _inventory(context: click.Context, *, group: str | None = None) -> Inventory:
    """The inventory named on the line by -i and --group, else the one that the command would find. Raises InventoryError."""
    from vgpumgr.controller import environment

    chosen = _option(context, "inventory")
    named = os.path.expanduser(chosen) if chosen else None  # noqa: PTH111 -- a str is needed, not a Path
    return environment.load_inventory(named, group or _option(context, "group"))


def _option(context: click.Context, name: str) -> str | None:
    """A common option as given, before or after the command's name."""
    above: click.Context | None = context
    found: str | None = None
    while above is not None and found is None:
        found, above = above.params.get(name), above.parent
    return found
