"""Commands that a message tells a person to type: quoted, so that they can be pasted whatever a VM is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.wording import Command, Option, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.wording import Message


def virsh(verb: str, vm: str, *more: str) -> Command:
    """A virsh command such as `virsh managedsave-remove vm01`, every word quoted for a shell where necessary.

    A VM whose name begins with a dash is given as `--domain=…`.
    """
    return Command("virsh", verb, f"--domain={vm}" if vm.startswith("-") else vm, *more)


def in_words(options: Sequence[str]) -> Message:
    """The words of a command line for use in a message, each option with its value."""
    found: list[Option] = []
    for word in options:
        if word.startswith("--"):
            found.append(Option(word))
        else:
            found[-1] = Option(found[-1].name, word)
    return joined(" ", found)


def command(
    verb: str, vm: str, *, slot: str | None = None, on: str | None = None, options: Sequence[str] = ()
) -> Command:
    """A command such as `vgpumgr attach vm01 --profile 4Q --on kvm01`, every word quoted for a shell where necessary.

    A VM whose name begins with a dash comes last, behind `--`.
    """
    flags = [*options]
    if slot is not None:
        flags += ["--slot", slot]
    if on is not None:
        flags += ["--on", on]
    words = [verb, *flags, "--", vm] if vm.startswith("-") else [verb, vm, *flags]
    return Command("vgpumgr", *words)
