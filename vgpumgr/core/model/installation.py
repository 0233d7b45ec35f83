"""What `host install` left on a host, as values. Why a login needs it: docs/logins.md."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Cordon
    from vgpumgr.names import HostName


DISPATCHER: Final = "/opt/vgpumgr-host/dispatcher"
"""What a login that can run nothing else runs, as root (host/dispatcher.py)."""


class Login(StrEnum):
    """How the host program was started: by root's own login, by sudo, or by the dispatcher."""

    ROOT = "root"
    SUDO = "sudo"
    DISPATCHER = "dispatcher"


class State(StrEnum):
    """`outdated`: the dispatcher or a program of this vgpumgr is not there. `broken`: something is wrong with what is there."""

    ABSENT = "absent"
    INSTALLED = "installed"
    OUTDATED = "outdated"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """`user`: the login's name; `programs`: the SHA-256 of each host program there that is intact.

    `pinned`: only these run. `problems`: what was altered, or can be by others than root. `cordons`: what keeps new vGPUs from
    the host or its GPUs, None if the ledger cannot be read.
    """

    host: HostName
    login: Login
    user: str
    state: State
    pinned: bool
    programs: tuple[str, ...]
    problems: tuple[str, ...]
    cordons: tuple[Cordon, ...] | None
