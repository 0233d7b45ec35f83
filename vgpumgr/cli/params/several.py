"""Several VMs on one command line: names, ranges such as vm[01:20], patterns such as web*, or a file of VMs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from vgpumgr import errors
from vgpumgr.cli.params import candidates, choosing
from vgpumgr.cli.params.options import is_given, once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vgpumgr.core.inventory import Finding, VmDeclaration

Command = TypeVar("Command", bound="Callable[..., Any]")

STDIN = "-"
_OPTIONS = (
    click.argument("vms", nargs=-1, metavar="[VM]...", callback=choosing.read_lists, shell_complete=candidates.vms),
    click.option(
        "-f",
        "--file",
        multiple=True,
        callback=once,
        type=click.Path(dir_okay=False, allow_dash=True),
        metavar="FILE",
        help="Take VMs and slots from FILE, written as vgpumgr_vms in an inventory; - is stdin.",
    ),
    click.option(
        "--partial",
        is_flag=True,
        help="Serve the VMs that can be served, and name the others (exit 5). Default: all or none.",
    ),
)


def options(command: Command) -> Command:
    """Add the options. The command gets `vms`, `file` and `partial`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def only_one(vms: Sequence[str], file: str | None) -> str | None:
    """The VM, if just one is given by its name, not by a range, pattern or file; then the output is about one VM.

    Raises UsageError if both VMs and a file are given, or neither.
    """
    if file is not None:
        if vms:
            raise errors.UsageError("-f and names of VMs cannot be combined", hint="the file names the VMs")
        return None
    if not vms:
        raise errors.UsageError(
            "no VM is named", hint="name one, several, a range such as 'vm[01:20]', or a file with -f"
        )
    return vms[0] if len(vms) == 1 and not _may_be_several(vms[0]) else None


def names_of(vms: Sequence[str]) -> tuple[str, ...]:
    """The VMs that the arguments mean, by name. Raises BadName, and UsageError if one is named twice."""
    from collections import Counter

    from vgpumgr import names
    from vgpumgr.core.inventory import choice, ranges

    words = choice.vm_words(vms)
    for word in words:
        if choice.is_wild(word):
            raise errors.UsageError(
                f"{word!r} does not name VMs: a vGPU is attached only to those that are named",
                hint="name them, by a range such as 'vm[01:20]', or in a file with -f",
            )
    every = [name for text in words for name in (ranges.names(text) if ranges.has_range(text) else (text,))]
    twice = [name for name, times in Counter(every).items() if times > 1]
    if twice:
        raise errors.UsageError(f"named twice: {', '.join(twice[:20])}", hint="name each VM once")
    return tuple(sorted(map(names.parse_vm_name, every), key=names.slot_order))


def are_wild(vms: Sequence[str]) -> bool:
    """Whether an argument selects among existing VMs, as a pattern does, instead of naming them."""
    from vgpumgr.core.inventory import choice

    return any(map(choice.is_wild, choice.vm_words(vms)))


def read_file(file: str) -> tuple[tuple[VmDeclaration, ...], tuple[Finding, ...]]:
    """The VMs in the file. Raises UsageError, or InventoryError with every problem."""
    from vgpumgr.inventory_files import vms_file

    return vms_file.load_vms(file)


def guard_alone(others: Mapping[str, object]) -> None:
    """Raises UsageError if -f is combined with one of `others`, which the file itself sets."""
    for key, value in others.items():
        if value and is_given(key):
            option = "--all" if key == "every" else f"--{key.replace('_', '-')}"
            raise errors.UsageError(f"{option} and -f cannot be combined", hint="the file says that for each slot")


def _may_be_several(text: str) -> bool:
    return ("[" in text and ":" in text) or "," in text or "*" in text or "?" in text or text[:1] in {"~", "!", "&"}
