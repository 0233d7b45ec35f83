"""Describes cordons, and names the commands that lift them.

With a cordon, a person keeps new vGPUs off a host or off one of its GPUs. It removes none: the vGPUs that are there
stay, and come back after a reboot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.commands import command
from vgpumgr.core.model.view import Finding
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Cordon, HostSnapshot


def in_words(cordon: Cordon) -> str:
    """A cordon as text, to follow a GPU's address in a line."""
    what = "cordoned" if cordon.gpu_uuid is not None else "its host is cordoned"
    return say("{}: {} {}", what, cordon.reason, Own(f"({cordon.by}, {cordon.at})"))


def lift(facts: HostSnapshot, cordon: Cordon) -> str:
    """The command that lifts a cordon."""
    gpu = () if cordon.gpu is None else ("--gpu-id", cordon.gpu)
    return command("uncordon", facts.host, options=gpu)


def findings(facts: HostSnapshot) -> tuple[Finding, ...]:
    """A finding for each cordon of a host."""
    return tuple(finding(facts, cordon) for cordon in facts.cordons)


def finding(facts: HostSnapshot, cordon: Cordon) -> Finding:
    place = facts.host if cordon.gpu is None else say("{}: GPU {}", facts.host, cordon.gpu)
    text = say(
        "{} is cordoned: {} ({}, {}); no new vGPU is placed there until `{}`",
        place,
        cordon.reason,
        cordon.by,
        cordon.at,
        lift(facts, cordon),
    )
    return Finding(kind="cordoned", host=facts.host, text=text)
