"""What the controller's machine lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vgpumgr.core.doctor.illness import Illness, Severity
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXTRAS: Final[dict[str, tuple[str, str]]] = {
    "ortools": ("plan", "`fit` for many GPUs proves nothing"),
    "libvirt": ("lab", "`render --validate` and `lab` do not work"),
    "mfusepy": ("lab", "`lab` does not work"),
}
"""Modules of optional packages: the extra that has each, and what needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMachine:
    """`modules`: which of EXTRAS are there. `inventory`: why it cannot be loaded, None if it can.

    `known_hosts`: how many hosts name each file that does not exist, and no other that does. `configured`: hosts whose
    ssh_config is read, by `ssh -G`; `ssh`: where that program is. `state`: the folder of the journal; `state_problem`:
    why nothing can be kept there; `state_open`: whether others can write there.
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
        yield _own(
            "inventory",
            "critical",
            what=own.inventory,
            evidence="the inventory",
            harm="no command works",
            mend=say("`{}` lists all problems", Command("vgpumgr", "inventory", "check")),
        )
    for path, hosts in own.known_hosts.items():
        yield _own(
            "known-hosts",
            "critical",
            what=say(
                "{} does not exist, and {} host{} to be known by it", path, hosts, " is" if hosts == 1 else "s are"
            ),
            evidence=path,
            harm="their logins are refused, since no host key is known",
            mend=say("`{}` collects keys; compare them before you trust them", Command("ssh-keyscan", "HOST")),
        )
    if own.configured and own.ssh is None:
        yield _own(
            "no-ssh",
            "critical",
            what=say("there is no program ssh, which reads the ssh_config of {} hosts", own.configured),
            evidence="PATH",
            harm="these hosts cannot be reached",
            mend=say("`{}`, or the like", Command("apt", "install", "openssh-client")),
        )
    yield from _state(own)
    for module, (extra, harm) in EXTRAS.items():
        if not own.modules[module]:
            yield _own(
                "no-module",
                "notice",
                what=say("{} is not installed", module),
                evidence="this Python",
                harm=harm,
                mend=say("`{}`", Command("pip", "install", f"vgpumgr[{extra}]")),
            )


def _state(own: OwnMachine) -> Iterator[Illness]:
    if own.state_problem is not None:
        yield _own(
            "state-folder",
            "critical",
            what=say("nothing can be kept in {}: {}", own.state, own.state_problem),
            evidence=own.state,
            harm="no history is kept, and nothing keeps two runs of reconcile apart",
            mend="let this user write there, or set VGPUMGR_STORE",
        )
    elif own.state_open:
        yield _own(
            "state-folder",
            "warning",
            what=say("other users can write to {}", own.state),
            evidence=own.state,
            harm="they can change the history and the samples",
            mend=say("`{}`", Command("chmod", "go-w", own.state)),
        )


def _own(kind: str, severity: Severity, *, what: str, evidence: str, harm: str, mend: str) -> Illness:
    return Illness(
        kind=kind,
        severity=severity,
        certainty="certain",
        host=None,
        what=what,
        evidence=evidence,
        harm=harm,
        mend=mend,
    )
