"""How to reach one host, according to the inventory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.names import HostName

_SSH_PORT = 22


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpHost:
    """A machine on the way to a host. The host's own key file and known_hosts hold for it, too."""

    address: str
    port: int
    user: str

    @property
    def name(self) -> str:
        """jump01, jump01:2222, [2001:db8::1]: as messages name it."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return address if self.port == _SSH_PORT else f"{address}:{self.port}"

    def __str__(self) -> str:
        """As `ssh -J` takes it."""
        return f"{self.user}@{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Everything the link needs. `key_file` None means that no key was named; `known_hosts` is a file's path.

    `become`: the user is not root, and the host program runs by `sudo`. `jumps`: the way there, the nearest to us first.
    `is_local`: it is the controller's own machine, and only `become` counts: whether sudo may make the controller's user root.
    """

    host: HostName
    address: str
    port: int
    user: str
    become: bool = False
    key_file: str | None
    known_hosts: str
    jumps: tuple[JumpHost, ...] = ()
    is_local: bool = False
