"""What the controller's machine lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vgpumgr.core.doctor.case import of_kind
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vgpumgr.core.doctor.illness import Illness

EXTRAS: Final[dict[str, tuple[str, str]]] = {
    "ortools": ("plan", "`fit` for many GPUs proves nothing"),
    "libvirt": ("lab", "`render --validate` and `lab` do not work"),
    "mfusepy": ("lab", "`lab` does not work"),
}
"""Modules of optional packages: the extra that has each, and what needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMachine:
    """`modules`: which of EXTRAS are there. `inventory`: why it cannot be loaded, None if it can.

    `known_hosts`: each known_hosts file that does not exist, and how many hosts have no other. `configured`: how many
    hosts need `ssh -G`, because their ssh_config is read; `ssh`: where that program is. `state`: the journal's folder;
    `state_problem`: why nothing can be written there; `state_open`: whether other users can write there.
    """

    modules: Mapping[str, bool]
    inventory: str | None
    known_hosts: Mapping[str, int]
    configured: int
    ssh: str | None
    state: str
    state_problem: str | None
    state_open: bool


def illnesses(own: OwnMachine) -> Iterator[Illness]:
    """What is wrong with this machine."""
    if own.inventory is not None:
        check = say("`{}` lists all problems", Command("vgpumgr", "inventory", "check"))
        yield of_kind("inventory", own.inventory, "the inventory", check)
    for path, hosts in own.known_hosts.items():
        are = "host is" if hosts == 1 else "hosts are"
        what = say("{} does not exist, and {} {} to be known by it", path, hosts, are)
        scan = Command("ssh-keyscan", "HOST")
        yield of_kind("known-hosts", what, path, say("`{}` collects keys; compare them before you trust them", scan))
    if own.configured and own.ssh is None:
        what = say("there is no program ssh, which reads the ssh_config of {} hosts", own.configured)
        yield of_kind("no-ssh", what, "PATH", say("`{}`, or the like", Command("apt", "install", "openssh-client")))
    if own.state_problem is not None:
        what = say("nothing can be kept in {}: {}", own.state, own.state_problem)
        yield of_kind("state-folder", what, own.state, "let this user write there, or set VGPUMGR_STORE")
    elif own.state_open:
        close = say("`{}`", Command("chmod", "go-w", own.state))
        yield of_kind("state-open", say("other users can write to {}", own.state), own.state, close)
    for module, (extra, needs) in EXTRAS.items():
        if not own.modules[module]:
            what = say("{} is not installed: {}", module, needs)
            install = Command("pip", "install", f"vgpumgr[{extra}]")
            yield of_kind("no-module", what, "this Python", say("`{}`", install))
