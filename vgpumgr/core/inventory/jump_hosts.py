"""What ssh takes after -J or ProxyJump, as OpenSSH does: `[user@]host[:port]` or `ssh://…`, comma-separated; `none`."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.core.model.endpoint import JumpHost

if TYPE_CHECKING:
    from vgpumgr.core.model.endpoint import Setting

_HOP = re.compile(r"(?:(?P<user>.*)@)?(?:\[(?P<v6>[^\]]*)\]|(?P<host>[^:\[\]]*))(?::(?P<port>.*))?", re.DOTALL)
_USER = re.compile(r"[A-Za-z0-9_.@\\][A-Za-z0-9_.@\\-]{0,255}\$?")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,253}[A-Za-z0-9_.])?")
_V6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?")
_PORT = re.compile(r"[0-9]{1,5}")


class Wrong(ValueError):
    """Not a chain of jump hosts; the text says why."""


class Hop(NamedTuple):
    """One jump host as written. None: not given."""

    address: str
    port: int | None
    user: str | None

    def of(self, user: str) -> JumpHost:
        """The jump host; `user` applies if it names none."""
        unsaid: set[Setting] = {"key_file", "known_hosts", "site_known_hosts", "agent"}
        if self.port is None:
            unsaid.add("port")
        if self.user is None:
            unsaid.add("user")
        return JumpHost(address=self.address, port=self.port or 22, user=self.user or user, unsaid=frozenset(unsaid))


def parse(text: str) -> tuple[Hop, ...]:
    """The chain, the first to be visited first; empty for `none`. Raises Wrong."""
    if text.lower() == "none":
        return ()
    if "%" in re.sub(r"\[[^\]]*\]", "", text):
        raise Wrong("% tokens are not expanded")
    return tuple(map(_hop, text.split(",")))


def of_command(command: str) -> str | None:
    """The jump host of a ProxyCommand that only jumps, `ssh -W %h:%p X`; None for any other command.

    Of ssh's options only -q, -p and -l are allowed: the effect of others would be lost.
    """
    try:
        program, *words = shlex.split(command)
    except ValueError:
        return None
    if program not in ("ssh", "/usr/bin/ssh"):
        return None
    options: dict[str, str] = {}
    host: str | None = None
    rest = iter(word for word in words if word != "-q")
    for word in rest:
        if word in ("-W", "-l", "-p"):
            options[word] = next(rest, "")
        elif word.startswith("-") or host is not None:
            return None
        else:
            host = word
    user, port = options.get("-l"), options.get("-p")
    if host is None or options.get("-W") not in ("%h:%p", "[%h]:%p") or (user and "@" in host):
        return None
    login = f"{user}@{host}" if user else host
    return f"{login}:{port}" if port else login


def _hop(text: str) -> Hop:
    if not text:
        raise Wrong("a jump host is empty")
    rest = text.removeprefix("ssh://").removesuffix("/") if text.startswith("ssh://") else text
    if rest.rpartition("@")[2].count(":") > 1 and "[" not in rest:
        raise Wrong(f"{text!r} has several colons: an IPv6 address is written in brackets")
    match = _HOP.fullmatch(rest)
    if match is None:
        raise Wrong(f"{text!r} is not [user@]host[:port]")
    user, v6, host, port = match.group("user", "v6", "host", "port")
    for part, form, what in ((user, _USER, "a user's name"), (v6, _V6, "an IPv6 address"), (port, _PORT, "a port")):
        if part is not None and not form.fullmatch(part):
            raise Wrong(f"{text!r}: {part!r} is not {what}")
    if v6 is None and not _HOST.fullmatch(host):
        raise Wrong(f"{text!r}: {host!r} is not a host's name or address")
    if port is not None and not 1 <= int(port) <= 65535:
        raise Wrong(f"{text!r}: {port!r} is not a port")
    return Hop(v6 or host, int(port) if port else None, user)
