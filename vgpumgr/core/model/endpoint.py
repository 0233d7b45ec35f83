"""How to reach one host, according to the inventory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from vgpumgr.names import HostName

_SSH_PORT = 22
USUAL_CONFIG: Final = ""  # ~/.ssh/config and /etc/ssh/ssh_config
NO_CONFIG: Final = "none"  # ssh's own word, as after -F
SITE_KNOWN_HOSTS: Final = "/etc/ssh/ssh_known_hosts"
NO_FILE: Final = ("none", "/dev/null")  # either, where ssh takes the path of a known_hosts file
USUAL_AGENT: Final = "SSH_AUTH_SOCK"  # the variable that names the agent's socket: ssh's own word, too
NO_AGENT: Final = "none"
Setting = Literal["port", "user", "key_file", "known_hosts", "site_known_hosts", "agent", "jumps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpHost:
    """A machine on the way to a host. Unless it has its own, it uses the host's key file, agent and known_hosts.

    `unsaid`: the settings that are only assumed, and that an ssh_config may override. `host_keys`: as in Endpoint.
    """

    address: str
    port: int
    user: str
    key_file: str | None = None
    certificate: str | None = None
    known_hosts: str | None = None
    site_known_hosts: str | None = None
    agent: str | None = None
    host_keys: tuple[str, ...] = ()
    unsaid: frozenset[Setting] = frozenset()

    @property
    def name(self) -> str:
        """Its name in messages: jump01, jump01:2222, [2001:db8::1]."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return address if self.port == _SSH_PORT else f"{address}:{self.port}"

    def __str__(self) -> str:
        """The jump host as `ssh -J` takes it."""
        return f"{self.user}@{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """All that it takes to reach a host. `known_hosts` and `site_known_hosts` are paths of host key files; both count.

    `become`: the user is not root, so sudo runs the host program. `may_become`: an ssh_config may name such a user.
    `key_file` None: no key was named. `certificate`: the user's, for that key. `jumps`: the nearest to us first.
    `agent`: the ssh-agent's socket, `$NAME` of a variable that holds it, USUAL_AGENT or NO_AGENT.
    `host_keys`: the kinds of host key that an ssh_config allows; empty: all that we support.
    `ssh_config`: the user's own file, USUAL_CONFIG or NO_CONFIG. `unsaid`: the assumed settings that it may override.
    `is_local`: it is the controller's own machine. Only `become` counts then: whether sudo may make its user root.
    """

    host: HostName
    address: str
    port: int
    user: str
    become: bool = False
    key_file: str | None
    known_hosts: str
    site_known_hosts: str = SITE_KNOWN_HOSTS
    agent: str = USUAL_AGENT
    jumps: tuple[JumpHost, ...] = ()
    certificate: str | None = None
    host_keys: tuple[str, ...] = ()
    may_become: bool = False
    ssh_config: str = NO_CONFIG
    unsaid: frozenset[Setting] = frozenset()
    is_local: bool = False
