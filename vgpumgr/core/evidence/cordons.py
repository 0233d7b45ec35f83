"""Describes cordons, and names the commands that lift them.

With a cordon, a person keeps new vGPUs off a host, off one of its GPUs, or off one virtual function of a GPU. It
removes none: the vGPUs that are there stay, and come back after a reboot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.commands import command
from vgpumgr.core.model.view import Finding
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.snapshot import Cordon, HostSnapshot
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import PciAddress


def in_words(cordon: Cordon) -> str:
    """A cordon as text, to follow a GPU's address in a line."""
    what = "cordoned" if cordon.gpu_uuid is not None else "its host is cordoned"
    return say("{}: {} {}", what, cordon.reason, Own(f"({cordon.by}, {cordon.at})"))


def lift(facts: HostSnapshot, cordon: Cordon) -> str:
    """The command that lifts a cordon."""
    place = ("--vf", cordon.vf) if cordon.vf is not None else ("--gpu-id", cordon.gpu) if cordon.gpu is not None else ()
    return command("uncordon", facts.host, options=place)


def kept_free(view: HostView) -> dict[PciAddress, str]:
    """The functions on which nothing new is created, whatever is on them, and why: a cordon, or the inventory."""
    facts = view.snapshot
    why = {
        one.vf: say("cordoned: {}", one.reason)
        for one in facts.cordons
        if one.vf is not None and one.gpu_uuid is not None and facts.gpu_by_uuid(one.gpu_uuid) is not None
    }
    return {**dict.fromkeys(view.excluded_vfs, "in the inventory's exclude_vfs"), **why}


def findings(facts: HostSnapshot) -> tuple[Finding, ...]:
    """A finding for each cordon of a host."""
    return tuple(finding(facts, cordon) for cordon in facts.cordons)


def taken(facts: HostSnapshot) -> Iterator[Finding]:
    """A finding for each GPU that is cordoned or has reserved places, and has vGPUs that are not ours."""
    for gpu in facts.gpus:
        foreign = [vgpu for vgpu in gpu.vgpus if facts.entry_of(gpu, vgpu) is None]
        names = sorted({one.name for one in facts.reservations if one.vgpu.gpu_uuid == gpu.uuid})
        cordon = facts.cordon_on(gpu.uuid)
        if not foreign or (cordon is None and not names):
            continue
        why = f"has places reserved ({', '.join(names)})" if names else f"is cordoned ({cordon and cordon.reason})"
        what = ", ".join(f"{vgpu.type_name or '?'} on {vgpu.parent}" for vgpu in foreign)
        text = say(
            "{}: GPU {} {}, but has vGPUs that are not vgpumgr's: {}. Ask who made them: vgpumgr leaves them alone",
            facts.host,
            gpu.pci,
            why,
            Own(what),
        )
        yield Finding(kind="taken", host=facts.host, text=text)


def finding(facts: HostSnapshot, cordon: Cordon) -> Finding:
    what = "GPU" if cordon.vf is None else "virtual function"
    place = facts.host if cordon.gpu is None else say("{}: {} {}", facts.host, what, cordon.vf or cordon.gpu)
    text = say(
        "{} is cordoned: {} ({}, {}); no new vGPU is placed there until `{}`",
        place,
        cordon.reason,
        cordon.by,
        cordon.at,
        lift(facts, cordon),
    )
    return Finding(kind="cordoned", host=facts.host, text=text)
