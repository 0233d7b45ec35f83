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
    """A machine on the way to a host. The host's own key file, agent and known_hosts hold for it too, unless it has its own.

    `unsaid`: the settings that are only assumed, and of which an ssh_config may say something else. `host_keys`: as in Endpoint.
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
        """jump01, jump01:2222, [2001:db8::1]: as messages name it."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return address if self.port == _SSH_PORT else f"{address}:{self.port}"

    def __str__(self) -> str:
        """As `ssh -J` takes it."""
        return f"{self.user}@{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Everything the link needs. `key_file` None means that no key was named; `known_hosts` is a file's path.
    `site_known_hosts`: that of the second file of host keys, which holds as well. `agent`: the socket of the ssh-agent, `$NAME` for a variable that has it, USUAL_AGENT or NO_AGENT.

    `become`: the user is not root, and the host program runs by `sudo`. `may_become`: it may, if an ssh_config names such a user. `jumps`: the way there, the nearest to us first.
    `certificate`: the user's, for that key. `host_keys`: the kinds of host key that an ssh_config allows; empty: all of ours.
    `ssh_config`: the user's own file, USUAL_CONFIG or NO_CONFIG, and `unsaid` what it may say: what the inventory only assumes.
    `is_local`: it is the controller's own machine, and only `become` counts: whether sudo may make the controller's user root.
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
