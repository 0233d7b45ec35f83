"""What `host install` left on a host, as values. docs/logins.md says why a login needs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Cordon
    from vgpumgr.names import HostName


DISPATCHER: Final = "/opt/vgpumgr-host/dispatcher"
"""The only command of a confined login; it runs as root (host/dispatcher.py)."""


class Login(StrEnum):
    """How the host program was started: by root's own login, by sudo, or by the dispatcher."""

    ROOT = "root"
    SUDO = "sudo"
    DISPATCHER = "dispatcher"


class State(StrEnum):
    """`outdated`: the dispatcher or a program of this version is missing. `broken`: what is installed is damaged."""

    ABSENT = "absent"
    INSTALLED = "installed"
    OUTDATED = "outdated"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredVgpu:
    """A vGPU of the ledger after a boot. `missing`: why it is not there, None if it is; `note`: how it differs."""

    vm_name: str
    slot: str
    parent: str
    type_name: str
    missing: str | None
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """What the host restores after a boot by itself. `at`: when it did so in this boot; None if it did not.

    `problem`: why nothing was tried, or not all; None if all was.
    """

    at: str | None
    problem: str | None
    vgpus: tuple[RestoredVgpu, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """`user`: the login's name; `programs`: the SHA-256 of each intact host program.

    `pinned`: only these run. `problems`: what was altered, or can be altered by others than root. `cordons`: those of
    the host and its GPUs; None if the ledger cannot be read. `restore`: None if the host restores nothing by itself.
    """

    host: HostName
    login: Login
    user: str
    state: State
    pinned: bool
    programs: tuple[str, ...]
    problems: tuple[str, ...]
    cordons: tuple[Cordon, ...] | None
    restore: Restore | None = None
