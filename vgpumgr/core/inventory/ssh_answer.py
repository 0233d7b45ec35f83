"""Read the output of `ssh -G HOST`, as far as it matters here, and put it into an endpoint. Pure.

The inventory's settings win. What ssh would obey and we do not is refused by name, never dropped: it may be all that
keeps a connection from going to the wrong machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from vgpumgr.core.inventory import jump_hosts
from vgpumgr.core.model.endpoint import NO_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vgpumgr.core.model.endpoint import Endpoint, JumpHost, Setting

Value = TypeVar("Value")

UNSAID = "/vgpumgr/unsaid"  # stands for what no file says, where ssh would print a default of its own
_TOKEN = re.compile(r"%(.)")
# Options, the value that changes nothing, and what to do instead.
_NOT_HONOURED = (
    ("ProxyCommand", "none", "no command is run to reach a host: name the jump hosts, ProxyJump jump01"),
    ("HostKeyAlias", "", "put the host's key under its own name into known_hosts"),
    (
        "KnownHostsCommand",
        "none",
        "no command is run for a host's key: put it into known_hosts, and say KnownHostsCommand none for this host in ~/.ssh/config",
    ),
)


class NotHonoured(ValueError):
    """Something that ssh would do and we do not; the text says what, `hint` what to do."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The settings that are taken from ssh's output, and no others. None or empty: no file sets this one."""

    address: str
    port: int
    user: str
    key_files: tuple[str, ...] = ()
    certificate: str | None = None
    known_hosts: str | None = None
    site_known_hosts: str | None = None
    agent: str | None = None
    jumps: tuple[jump_hosts.Hop, ...] = ()
    host_keys: tuple[str, ...] = ()


def _guard_honoured(one: Callable[[str, str], str]) -> None:
    for option, harmless, hint in _NOT_HONOURED:
        if (value := one(option.lower(), harmless)) != harmless:
            raise NotHonoured(f"{option} {value}", hint)


def parse(output: str, tokens: Mapping[str, str], expand_home: Callable[[str], str]) -> Answer:
    """Read the output. `tokens`: the values of %d, %l and %u. Raises NotHonoured, and ValueError for other output."""
    lines: dict[str, list[str]] = {}
    for line in output.splitlines():
        keyword, _, value = line.partition(" ")
        lines.setdefault(keyword, []).append(value)

    def one(keyword: str, default: str = "") -> str:
        return lines.get(keyword, [default])[0]

    _guard_honoured(one)
    address, user, port = one("hostname"), one("user"), int(one("port"))
    if not address or not user:
        raise ValueError("neither hostname nor user")
    values = {**tokens, "h": address, "p": str(port), "r": user, "%": "%"}

    def expand(path: str) -> str:
        unknown = [token for token in _TOKEN.findall(path) if token not in values]
        if unknown or "${" in path:
            raise NotHonoured(
                f"the path {path}: %{unknown[0]}" if unknown else f"the path {path}", "write the path itself"
            )
        return expand_home(_TOKEN.sub(lambda match: values[match[1]], path))

    def hosts_file(option: str) -> str | None:
        path = one(option.lower(), UNSAID)
        if " " in path:
            raise NotHonoured(f"{option} {path}", "name one file, without blanks in its path")
        return None if path == UNSAID else path

    known_hosts = hosts_file("UserKnownHostsFile")
    if known_hosts in NO_FILE:
        raise NotHonoured(
            f"UserKnownHostsFile {known_hosts}", "host keys are always checked: name a file with the hosts' keys"
        )
    site_hosts, agent, algorithms = hosts_file("GlobalKnownHostsFile"), one("identityagent"), one("hostkeyalgorithms")
    return Answer(
        address=address,
        port=port,
        user=user,
        key_files=tuple(expand(path) for path in lines.get("identityfile", ()) if path not in (UNSAID, "none")),
        certificate=next((expand(path) for path in lines.get("certificatefile", ()) if path != "none"), None),
        known_hosts=known_hosts,
        site_known_hosts="/dev/null" if site_hosts in NO_FILE else site_hosts and expand_home(site_hosts),
        agent=expand(agent) if agent.startswith(("/", "~", "%", "${")) else agent or None,
        jumps=_parse_jumps(one("proxyjump", "none")),
        host_keys=tuple(algorithms.split(",")) if algorithms else (),
    )


def _parse_jumps(text: str) -> tuple[jump_hosts.Hop, ...]:
    try:
        return jump_hosts.parse(text)
    except jump_hosts.Wrong as wrong:
        raise NotHonoured(f"ProxyJump {text}: {wrong}", "write user@jump01:22, several with commas") from wrong


def apply(endpoint: Endpoint, answer: Answer, *, is_there: Callable[[str], bool]) -> Endpoint:
    """The endpoint, with ssh's answer for what the inventory leaves open. Each jump host has an answer of its own."""

    def value(setting: Setting, answered: Value | None, said: Value) -> Value:
        return answered or said if setting in endpoint.unsaid else said

    user = value("user", answer.user, endpoint.user)
    if user != "root" and not (endpoint.become or endpoint.may_become):
        raise NotHonoured(
            f"User {user}, who is not root,",
            "ansible_become: true, if sudo lets the user without a password; or ansible_user: root",
        )
    jumps = tuple(hop.of(user) for hop in answer.jumps) if "jumps" in endpoint.unsaid else endpoint.jumps
    return replace(
        endpoint,
        address=answer.address,
        port=value("port", answer.port, endpoint.port),
        user=user,
        become=user != "root",
        key_file=value("key_file", _key_file(answer, is_there), endpoint.key_file),
        certificate=answer.certificate,
        known_hosts=value("known_hosts", answer.known_hosts, endpoint.known_hosts),
        site_known_hosts=value("site_known_hosts", answer.site_known_hosts, endpoint.site_known_hosts),
        agent=value("agent", answer.agent, endpoint.agent),
        host_keys=answer.host_keys,
        jumps=tuple(replace(jump, user=user) if "user" in jump.unsaid else jump for jump in jumps),
        unsaid=frozenset(),
    )


def apply_to_jump(jump: JumpHost, answer: Answer, *, is_there: Callable[[str], bool]) -> JumpHost:
    """The jump host, with ssh's answer for what the inventory leaves open.

    A key, agent, user or known_hosts file that no ssh_config sets either is that of the host behind the jump host.
    """
    return replace(
        jump,
        address=answer.address,
        port=answer.port if "port" in jump.unsaid else jump.port,
        user=answer.user if "user" in jump.unsaid else jump.user,
        key_file=_key_file(answer, is_there),
        certificate=answer.certificate,
        known_hosts=answer.known_hosts,
        site_known_hosts=answer.site_known_hosts,
        agent=answer.agent,
        host_keys=answer.host_keys,
        unsaid=frozenset(),
    )


def _key_file(answer: Answer, is_there: Callable[[str], bool]) -> str | None:
    """The first key file that exists: only one key is ever offered.

    If none exists, it is the first of all, for the error message.
    """
    return next(filter(is_there, answer.key_files), answer.key_files[0] if answer.key_files else None)
