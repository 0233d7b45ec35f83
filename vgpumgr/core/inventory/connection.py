"""How a host is reached: Ansible's connection variables read into an Endpoint. Settings that we cannot honour are reported."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr.core.inventory import reading
from vgpumgr.core.model.endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vgpumgr.core.inventory.located import Table, Value
    from vgpumgr.core.inventory.report import Report
    from vgpumgr.names import HostName

# Each setting's names, weakest first: if Ansible finds several, the last one wins (its ssh plugin's list of variables).
_HOST = ("ansible_host", "ansible_ssh_host")
_PORT = ("ansible_port", "ansible_ssh_port")
_USER = ("ansible_user", "ansible_ssh_user")
_KEY = ("ansible_private_key_file", "ansible_ssh_private_key_file")
_ARGS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")  # in ssh the first mention wins
_SECRETS = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")
_KEY_CHECKS = ("ansible_host_key_checking", "ansible_ssh_host_key_checking")
_CONNECTIONS = ("ssh", "smart", "paramiko", "ansible.builtin.ssh", "paramiko_ssh")

VARIABLES = frozenset(
    {*_HOST, *_PORT, *_USER, *_KEY, *_ARGS, *_SECRETS, *_KEY_CHECKS, "ansible_connection", "ansible_become"}
)

_OPTION = re.compile(r"\s*([A-Za-z]+)\s*(?:=|\s)\s*(.*?)\s*")
_ENVIRONMENT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_OFF = ("", "~", "null", "false", "no", "off", "0")
_JUMP_HINT = "jump hosts are not supported yet: run vgpumgr on a machine that reaches the host directly"


@dataclass(slots=True, kw_only=True)
class Connections:
    """Reads one host after the other; ssh arguments that many hosts share are parsed once."""

    home: str
    environ: Mapping[str, str]
    report: Report
    _known_hosts: dict[int, str | None] = field(default_factory=dict)

    def endpoint(self, host: HostName, variables: Table) -> Endpoint | None:
        """The endpoint, or None after a problem was reported."""
        self._check_unsupported(variables)
        address: str | None = host
        port: int | None = 22
        user: str | None = "root"
        key_file: str | None = None
        if (value := _last(variables, _HOST)) is not None:
            address = self._address(value)
        if (value := _last(variables, _PORT)) is not None:
            port = reading.read_whole(value, "the port", self.report, low=1, high=65535)
        if (value := _last(variables, _USER)) is not None:
            user = self._user(value)
        if (value := _last(variables, _KEY)) is not None:
            text = reading.read_text(value, "the key file", self.report, example="~/.ssh/id_ed25519")
            key_file = self._path(text, value, "the key file") if text is not None else None
        known_hosts = next(
            (
                file
                for name in _ARGS
                if name in variables and (file := self._from_arguments(name, variables[name].value)) is not None
            ),
            posixpath.join(self.home, ".ssh/known_hosts"),
        )
        if address is None or port is None or user is None:
            return None
        return Endpoint(host=host, address=address, port=port, user=user, key_file=key_file, known_hosts=known_hosts)

    def _address(self, value: Value) -> str | None:
        text = reading.read_text(value, "the host's address", self.report, example="192.0.2.1")
        if text is not None and (text.startswith("-") or any(character.isspace() for character in text)):
            self.report.problem(value.where, f"not an address: {reading.found(value)}")
            return None
        return text

    def _user(self, value: Value) -> str | None:
        user = reading.read_text(value, "the user", self.report, example="root")
        if user is not None and user != "root":
            self.report.problem(
                value.where,
                f"logs in as {user!r}: only root logins are supported so far",
                "write ansible_user: root, or leave it out",
            )
            return None
        return user

    def _path(self, text: str, value: Value, what: str) -> str | None:
        path = posixpath.join(self.home, text[2:]) if text.startswith("~/") else text
        if not path.startswith("/"):
            # ssh would resolve it against the folder in which the command happens to run.
            self.report.problem(value.where, f"{what} {text!r} is not an absolute path", "write /… or ~/…")
            return None
        return path

    def _check_unsupported(self, variables: Table) -> None:
        if (member := variables.get("ansible_connection")) is not None:
            kind = reading.read_text(member.value, "ansible_connection", self.report, example="ssh")
            if kind is not None and kind not in _CONNECTIONS:
                self.report.problem(
                    member.where,
                    f"ansible_connection is {kind!r}: a hypervisor is reached only by ssh",
                    "keep other machines out of the group hypervisors (docs/inventory.md)",
                )
        if (member := variables.get("ansible_become")) is not None and member.value.text.lower() not in _OFF:
            self.report.finding(member.where, "ansible_become is ignored: the login is already root's")
        for name in _SECRETS:
            if name in variables:
                self.report.finding(variables[name].where, f"{name} is ignored: vgpumgr logs in only with keys")
        for name in _KEY_CHECKS:
            if (member := variables.get(name)) is not None and reading.read_switch(
                member.value, name, self.report
            ) is False:
                self.report.problem(
                    member.where, f"{name} turns off host key checking", "add the hosts' keys to known_hosts"
                )

    def _from_arguments(self, name: str, value: Value) -> str | None:
        """The known_hosts file named in a variable of ssh arguments, or None."""
        if id(value) not in self._known_hosts:
            self._known_hosts[id(value)] = self._read_arguments(name, value)
        return self._known_hosts[id(value)]

    def _read_arguments(self, name: str, value: Value) -> str | None:
        if value.data is None or (isinstance(value.data, str) and not value.data.strip() and value.opaque is None):
            return None
        text = reading.read_text(value, name, self.report, example="-o UserKnownHostsFile=~/.ssh/known_hosts")
        if text is None:
            return None
        try:
            words = shlex.split(text)
        except ValueError as error:
            self.report.problem(value.where, f"{name} cannot be split into words: {error}", "check its quotes")
            return None
        known_hosts: str | None = None
        for option, quoted in _options(words):
            argument = quoted.strip('"')
            match option.lower():
                case "userknownhostsfile":
                    known_hosts = known_hosts or self._known_hosts_file(quoted, value)
                case "proxycommand" | "proxyjump":
                    if argument.lower() != "none":
                        self.report.problem(value.where, f"{name} has {option}, which is not honoured", _JUMP_HINT)
                case "stricthostkeychecking" if argument.lower() in {"no", "off", "false"}:
                    self.report.problem(
                        value.where,
                        f"{name} has StrictHostKeyChecking={argument}, which is refused",
                        "add the hosts' keys to known_hosts",
                    )
                case "stricthostkeychecking" if argument.lower() in {"yes", "true"}:
                    pass
                case _:
                    self.report.finding(value.where, f"{name}: {option} is ignored")
        return known_hosts

    def _known_hosts_file(self, argument: str, value: Value) -> str | None:
        what = "UserKnownHostsFile"
        try:
            files = shlex.split(argument)  # ssh's own quotes, inside the shell's
        except ValueError:
            files = []
        if files in (["/dev/null"], ["none"]):
            self.report.problem(
                value.where, f"{what} {argument} turns off host key checking", "name a file with the hosts' keys"
            )
            return None
        if len(files) != 1:
            self.report.problem(value.where, f"{what} must be one file, found {argument!r}")
            return None
        missing = [name for name in _ENVIRONMENT.findall(files[0]) if name not in self.environ]
        text = _ENVIRONMENT.sub(lambda found: self.environ.get(found[1], ""), files[0])
        text = text.replace("%%", "\0")
        if missing or "%" in text:
            thing = f"${{{missing[0]}}} is not set" if missing else "% tokens are not expanded"
            self.report.problem(value.where, f"{what} {argument!r}: {thing}", "write the path itself")
            return None
        return self._path(text.replace("\0", "%"), value, what)


def _last(variables: Table, names: tuple[str, ...]) -> Value | None:
    return next((variables[name].value for name in reversed(names) if name in variables), None)


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """The arguments of ssh as (option, argument). -J is ProxyJump, -W a proxy too; other letters keep their dash."""
    letters_with_argument = "BbcDEeFIiJLlmOopQRSWw"
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or len(word) < 2 or word[1] not in letters_with_argument:
            yield word, ""
            continue
        argument = word[2:] or next(rest, "")
        if word[1] == "o":
            found = _OPTION.fullmatch(argument)
            yield (found[1], found[2]) if found else (f"-o {argument}", "")
        else:
            yield {"J": "ProxyJump", "W": "ProxyCommand"}.get(word[1], word[:2]), argument
