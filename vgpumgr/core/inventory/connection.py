"""How a host is reached: Ansible's connection variables as an Endpoint. Settings that we cannot honour are reported."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.core.inventory import jump_hosts, reading, templates
from vgpumgr.core.model.endpoint import (
    NO_AGENT,
    NO_CONFIG,
    NO_FILE,
    SITE_KNOWN_HOSTS,
    USUAL_AGENT,
    USUAL_CONFIG,
    Endpoint,
)
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vgpumgr.core.inventory.located import Location, Member, Table, Value
    from vgpumgr.core.inventory.report import Report
    from vgpumgr.core.model.endpoint import JumpHost, Setting
    from vgpumgr.names import HostName

# Each setting's names, weakest first: if Ansible finds several, the last one wins (its ssh plugin's list of variables).
_HOST = ("ansible_host", "ansible_ssh_host")
_PORT = ("ansible_port", "ansible_ssh_port")
_USER = ("ansible_user", "ansible_ssh_user")
_KEY = ("ansible_private_key_file", "ansible_ssh_private_key_file")
_ARGS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")  # in ssh the first mention wins
_BECOME = ("ansible_become", "ansible_become_user", "ansible_sudo_user", "ansible_become_method")
_SECRETS = (
    "ansible_password", "ansible_ssh_pass", "ansible_ssh_password",
    "ansible_become_pass", "ansible_become_password", "ansible_sudo_pass",
    "ansible_private_key_passphrase", "ansible_ssh_private_key_passphrase",
)  # fmt: skip
_NOT_SUDO_S = ("ansible_become_exe", "ansible_become_flags", "ansible_sudo_exe", "ansible_sudo_flags")
# Others that Ansible's connections take, and what to do instead.
_NOT_OURS = {
    "ansible_ssh_executable": "no program is run to reach a host",
    "ansible_ssh_pkcs11_provider": "give the key to an agent, and name its public half as ansible_ssh_private_key_file",
    **dict.fromkeys(("ansible_private_key", "ansible_ssh_private_key"), "write ansible_ssh_private_key_file"),
    **{f"ansible_paramiko_{name}": f"write ansible_{name}" for name in ("host", "port", "user", "private_key_file")},
    "ansible_paramiko_proxy_command": "write -J jump01 in ansible_ssh_common_args",
}
_KEY_CHECKS = ("ansible_host_key_checking", "ansible_ssh_host_key_checking")
_CONNECTIONS = ("ssh", "smart", "paramiko", "ansible.builtin.ssh", "paramiko_ssh")
_LOCAL = ("local", "ansible.builtin.local")

VARIABLES = frozenset(
    {
        *_HOST,
        *_PORT,
        *_USER,
        *_KEY,
        *_ARGS,
        *_SECRETS,
        *_KEY_CHECKS,
        *_BECOME,
        *_NOT_SUDO_S,
        *_NOT_OURS,
        "ansible_connection",
    }
)

_OPTION = re.compile(r"\s*([A-Za-z]+)\s*(?:=|\s)\s*(.*?)\s*")
_VARIABLE = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*")
_ENVIRONMENT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SUDO = ("sudo", "ansible.builtin.sudo")
_LOGIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.@\\-]{0,255}\$?")  # a domain's user may be DOMAIN\name or name@domain
# Options that decide which machine is reached, and as whom, with the variables to write instead. A variable that is set
# is used. On ssh's command line Ansible 2.19 puts it before ssh_common_args and ssh_extra_args, but after _FIRST.
_FIRST = "ansible_ssh_args"
_INSTEAD = {"port": _PORT, "-p": _PORT, "user": _USER, "-l": _USER}
_ELSEWHERE = {
    "hostname": "write ansible_host",
    "hostkeyalias": "put the host's key under its own name into known_hosts",
    "knownhostscommand": "no command is run for a host's key: put it into known_hosts",
    "proxycommand": "no command is run to reach a host: name the jump hosts, -o ProxyJump=jump01",
}
_HARMLESS = {
    "knownhostscommand": ("none",),
    "proxycommand": ("none",),
    "stricthostkeychecking": ("yes", "true"),
}


class _Unread(NamedTuple):
    """An option of _INSTEAD in the ssh arguments of the variable `name`."""

    where: Location
    name: str
    option: str
    argument: str


class _Arguments(NamedTuple):
    """The settings that ssh arguments contain. None: the arguments do not set this one.

    An empty `jumps` is a setting, too: no jump hosts.
    """

    known_hosts: str | None = None
    site_known_hosts: str | None = None
    agent: str | None = None
    jumps: tuple[jump_hosts.Hop, ...] | None = None
    ssh_config: str | None = None
    unread: tuple[_Unread, ...] = ()

    def jumps_of(self, user: str) -> tuple[JumpHost, ...]:
        """The jump hosts. A jump host without a user of its own gets `user`, the host's."""
        return tuple(hop.of(user) for hop in self.jumps or ())

    def then(self, later: _Arguments) -> _Arguments:
        """These arguments and later ones together.

        ssh takes the first mention of an option, but of several -F the last.
        """
        return _Arguments(
            self.known_hosts or later.known_hosts,
            self.site_known_hosts or later.site_known_hosts,
            self.agent or later.agent,
            later.jumps if self.jumps is None else self.jumps,
            later.ssh_config or self.ssh_config,
            (*self.unread, *later.unread),
        )


@dataclass(slots=True, kw_only=True)
class Connections:
    """Reads one host after the other; ssh arguments that many hosts share are parsed once."""

    home: str
    environ: Mapping[str, str]
    report: Report
    _arguments: dict[int, _Arguments] = field(default_factory=dict)
    _kept: list[Value] = field(default_factory=list)
    _local: HostName | None = None  # the host that is the controller

    def endpoint(self, host: HostName, variables: Table, literal: templates.Host) -> Endpoint | None:
        """The endpoint, or None after reporting a problem. `literal`: what a template stands for on this host."""
        variables = {name: self._said(member, literal) for name, member in variables.items() if name in VARIABLES}
        self._check_unsupported(variables)
        if self._is_local(host, variables):
            return self._this_machine(host, variables)
        address = self._address(_last(variables, _HOST), host)
        port = self._port(_last(variables, _PORT))
        user = self._user(_last(variables, _USER))
        key_file = self._key_file(_last(variables, _KEY))
        become = self._becomes(user, variables) if user is not None else None
        arguments = self._ssh_arguments(variables)
        if address is None or port is None or user is None or become is None:
            return None
        return Endpoint(
            host=host,
            address=address,
            port=port,
            user=user,
            become=become,
            key_file=key_file,
            known_hosts=arguments.known_hosts or posixpath.join(self.home, ".ssh/known_hosts"),
            site_known_hosts=arguments.site_known_hosts or SITE_KNOWN_HOSTS,
            agent=arguments.agent or USUAL_AGENT,
            jumps=arguments.jumps_of(user),
            may_become=become or bool(self._wants_sudo(variables)),
            ssh_config=arguments.ssh_config or USUAL_CONFIG,
            unsaid=_unsaid(variables, arguments),
        )

    def _ssh_arguments(self, variables: Table) -> _Arguments:
        arguments = _Arguments()
        for name in _ARGS:
            if name in variables:
                arguments = arguments.then(self._from_arguments(name, variables[name].value))
        self._check_unread(arguments.unread, variables)
        return arguments

    def _said(self, member: Member, literal: templates.Host) -> Member:
        """The variable with its template replaced by the text that the template stands for.

        The variable stays as it is if the inventory itself does not give that text.
        """
        value = member.value
        if not isinstance(value.data, str) or value.opaque is not None or "{{" not in value.data:
            return member
        text = templates.literal(value.data, literal)
        if text is None:
            return member
        literal_value = value._replace(data=text, text=text)
        self._kept.append(literal_value)  # its arguments are remembered by its identity
        return member._replace(value=literal_value)

    def _is_local(self, host: HostName, variables: Table) -> bool:
        member = variables.get("ansible_connection")
        if member is None:
            return False
        kind = reading.read_text(member.value, "ansible_connection", self.report, example="ssh")
        if kind is not None and kind not in (*_CONNECTIONS, *_LOCAL):
            self.report.problem(
                member.where,
                f"ansible_connection is {kind!r}: a hypervisor is reached by ssh, or is the controller itself (local)",
                "keep other machines out of the group hypervisors (`vgpumgr docs inventory`)",
            )
        if kind not in _LOCAL:
            return False
        if self._local is not None:
            self.report.problem(
                member.where,
                say(
                    "ansible_connection is {} for {}, and for {}: only one host can be the controller itself",
                    kind,
                    host,
                    self._local,
                ),
                "set it for that host alone",
            )
        self._local = self._local or host
        return True

    def _this_machine(self, host: HostName, variables: Table) -> Endpoint | None:
        """The controller itself: users, addresses, keys and jump hosts do not matter, as in Ansible."""
        become = self._wants_sudo(variables)
        if become is None:
            return None
        known_hosts = posixpath.join(self.home, ".ssh/known_hosts")
        return Endpoint(
            host=host,
            address=host,
            port=22,
            user="root",
            become=become,
            key_file=None,
            known_hosts=known_hosts,
            is_local=True,
        )

    def _address(self, value: Value | None, host: HostName) -> str | None:
        if value is None:
            return host
        text = reading.read_text(value, "the host's address", self.report, example="192.0.2.1")
        if text is not None and (text.startswith("-") or any(character.isspace() for character in text)):
            self.report.problem(value.where, f"not an address: {reading.found(value)}")
            return None
        return text

    def _port(self, value: Value | None) -> int | None:
        return 22 if value is None else reading.read_whole(value, "the port", self.report, low=1, high=65535)

    def _key_file(self, value: Value | None) -> str | None:
        if value is None:
            return None
        text = reading.read_text(value, "the key file", self.report, example="~/.ssh/id_ed25519")
        return None if text is None else self._path(text, value, "the key file")

    def _user(self, value: Value | None) -> str | None:
        if value is None:
            return "root"
        user = reading.read_text(value, "the user", self.report, example="root")
        if user is not None and not _LOGIN.fullmatch(user):
            self.report.problem(value.where, f"not a user's name: {reading.found(value)}")
            return None
        return user

    def _becomes(self, user: str, variables: Table) -> bool | None:
        """Whether sudo makes the user root. None after a problem: the host program needs root."""
        sudo = self._wants_sudo(variables)
        if user != "root" and sudo is False:
            where = (_last_member(variables, _USER) or next(iter(variables.values()))).where
            self.report.problem(
                where,
                f"logs in as {user!r} without ansible_become, and the host program needs root",
                "write ansible_become: true, if sudo lets the user without a password; or ansible_user: root",
            )
            return None
        return None if sudo is None else user != "root"

    def _wants_sudo(self, variables: Table) -> bool | None:
        """What ansible_become says. None after a problem."""
        members = {name: variables[name] for name in _BECOME if name in variables}
        sudo, sound = False, True
        if (member := members.get("ansible_become")) is not None and member.value.data is not None:
            switch = reading.read_switch(member.value, "ansible_become", self.report)
            sudo, sound = bool(switch), switch is not None
        for name, valid, why in (
            ("ansible_become_user", ("root",), "the host program needs root"),
            ("ansible_sudo_user", ("root",), "the host program needs root"),
            ("ansible_become_method", _SUDO, "only sudo is supported"),
        ):
            if sudo and (member := members.get(name)) is not None:
                text = reading.read_text(member.value, name, self.report, example=valid[0])
                if text is not None and text not in valid:
                    self.report.problem(member.where, f"{name} is {text!r}: {why}", f"write {name}: {valid[0]}")
                sound = sound and text in valid
        return sudo if sound else None

    def _path(self, text: str, value: Value, what: str) -> str | None:
        path = posixpath.join(self.home, text[2:]) if text.startswith("~/") else text
        if not path.startswith("/"):
            # ssh would resolve it against the folder in which the command happens to run.
            self.report.problem(value.where, f"{what} {text!r} is not an absolute path", "write /… or ~/…")
            return None
        return path

    def _check_unsupported(self, variables: Table) -> None:
        for name in _SECRETS:
            if name in variables:
                why = (
                    "sudo must ask for none"
                    if name.startswith(("ansible_become", "ansible_sudo"))
                    else "only keys are used"
                )
                self.report.finding(variables[name].where, f"{name} is ignored: no password is ever sent, {why}")
        for name in _NOT_SUDO_S:
            if name in variables:
                self.report.finding(variables[name].where, f"{name} is ignored: `sudo -n` of the login's PATH is run")
        for name, instead in _NOT_OURS.items():
            if name in variables:
                self.report.finding(variables[name].where, f"{name} is ignored: {instead}")
        for name in _KEY_CHECKS:
            if (member := variables.get(name)) is not None and reading.read_switch(
                member.value, name, self.report
            ) is False:
                self.report.problem(
                    member.where, f"{name} turns off host key checking", "add the hosts' keys to known_hosts"
                )

    def _from_arguments(self, name: str, value: Value) -> _Arguments:
        if id(value) not in self._arguments:
            self._arguments[id(value)] = self._read_arguments(name, value)
        return self._arguments[id(value)]

    def _read_arguments(self, name: str, value: Value) -> _Arguments:
        if value.data is None or (isinstance(value.data, str) and not value.data.strip() and value.opaque is None):
            return _Arguments()
        text = reading.read_text(value, name, self.report, example="-o UserKnownHostsFile=~/.ssh/known_hosts")
        if text is None:
            return _Arguments()
        try:
            words = shlex.split(text)
        except ValueError as error:
            self.report.problem(value.where, f"{name} cannot be split into words: {error}", "check its quotes")
            return _Arguments()
        arguments = _Arguments()
        for option, argument in _options(words):
            arguments = self._with_option(arguments, name, option, argument, value)
        return arguments

    def _with_option(self, args: _Arguments, name: str, option: str, quoted: str, value: Value) -> _Arguments:
        """`args` with one more option.

        An option of _INSTEAD is only noted, not yet reported: only some hosts may lack the variable to use instead.
        """
        argument, keyword = quoted.strip('"'), "-F" if option == "-F" else option.lower()
        match keyword:
            case "-F":
                config = NO_CONFIG if argument == NO_CONFIG else self._path(argument, value, "the file after -F")
                return args._replace(ssh_config=config)
            case "userknownhostsfile":
                return args._replace(known_hosts=args.known_hosts or self._known_hosts_file(option, quoted, value))
            case "globalknownhostsfile":
                file = args.site_known_hosts or (argument in NO_FILE and "/dev/null")
                return args._replace(site_known_hosts=file or self._known_hosts_file(option, quoted, value))
            case "identityagent":
                return args._replace(agent=args.agent or self._agent(argument, value))
            case "proxyjump":
                jumps = self._jump_hosts(argument, name, value)
                return args._replace(jumps=jumps if args.jumps is None else args.jumps)
            case _ if keyword in _INSTEAD:
                return args._replace(unread=(*args.unread, _Unread(value.where, name, option, argument)))
            case _:
                self._check_option(name, option, argument, value)
                return args

    def _check_option(self, name: str, option: str, argument: str, value: Value) -> None:
        """Report an option that is not read here, unless it asks for what we do anyway."""
        keyword, setting = option.lower(), argument.lower()
        if keyword in _HARMLESS and setting in _HARMLESS[keyword]:
            return
        if keyword in _ELSEWHERE:
            self.report.problem(value.where, f"{name} has {option}, which is not honoured", _ELSEWHERE[keyword])
        elif keyword == "stricthostkeychecking" and setting in {"no", "off", "false"}:
            self.report.problem(
                value.where,
                f"{name} has StrictHostKeyChecking={argument}, which is refused",
                "add the hosts' keys to known_hosts",
            )
        else:
            self.report.finding(value.where, f"{name}: {option} is ignored")

    def _check_unread(self, unread: tuple[_Unread, ...], variables: Table) -> None:
        for one in unread:
            names = _INSTEAD[one.option.lower()]
            said = _last_member(variables, names)
            if said is None:
                text = f"the ssh arguments have {one.option}, which is not read from there"
                self.report.problem(one.where, text, f"write {names[0]}")
            elif one.name == _FIRST and one.argument != str(said.value.data):
                text = f"{_FIRST} has {one.option} {one.argument}, which Ansible uses in place of {said.key.data}"
                self.report.problem(one.where, text, f"write {names[0]}: {one.argument}, and take the option out")

    def _jump_hosts(self, argument: str, name: str, value: Value) -> tuple[jump_hosts.Hop, ...]:
        try:
            return jump_hosts.parse(argument)
        except jump_hosts.Wrong as wrong:
            self.report.problem(
                value.where, f"{name} has ProxyJump {argument!r}: {wrong}", "write user@jump01:22, several with commas"
            )
            return ()

    def _agent(self, argument: str, value: Value) -> str | None:
        if argument in (NO_AGENT, USUAL_AGENT) or _VARIABLE.fullmatch(argument):
            return argument
        return self._path(argument, value, "IdentityAgent")

    def _known_hosts_file(self, what: str, argument: str, value: Value) -> str | None:
        try:
            files = shlex.split(argument)  # ssh's own quotes, inside the shell's
        except ValueError:
            files = []
        if len(files) == 1 and files[0] in NO_FILE:
            self.report.problem(
                value.where, f"{what} {argument} turns off host key checking", "name a file with the hosts' keys"
            )
            return None
        if len(files) != 1:
            self.report.problem(value.where, f"{what} must be one file, found {argument!r}")
            return None
        unset = [name for name in _ENVIRONMENT.findall(files[0]) if name not in self.environ]
        text = _ENVIRONMENT.sub(lambda match: self.environ.get(match[1], ""), files[0])
        text = text.replace("%%", "\0")
        if unset or "%" in text:
            reason = f"${{{unset[0]}}} is not set" if unset else "% tokens are not expanded"
            self.report.problem(value.where, f"{what} {argument!r}: {reason}", "write the path itself")
            return None
        return self._path(text.replace("\0", "%"), value, what)


def _unsaid(variables: Table, arguments: _Arguments) -> frozenset[Setting]:
    """The settings that the inventory leaves to the user's ssh_config."""
    is_set: dict[Setting, bool] = {
        "port": _last(variables, _PORT) is not None,
        "user": _last(variables, _USER) is not None,
        "key_file": _last(variables, _KEY) is not None,
        "known_hosts": arguments.known_hosts is not None,
        "site_known_hosts": arguments.site_known_hosts is not None,
        "agent": arguments.agent is not None,
        "jumps": arguments.jumps is not None,
    }
    return frozenset(name for name, is_said in is_set.items() if not is_said)


def _last(variables: Table, names: tuple[str, ...]) -> Value | None:
    member = _last_member(variables, names)
    return None if member is None else member.value


def _last_member(variables: Table, names: tuple[str, ...]) -> Member | None:
    return next((variables[name] for name in reversed(names) if name in variables), None)


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """The arguments of ssh as (option, argument). -J is ProxyJump, as is a ProxyCommand that only jumps; -W
    counts as ProxyCommand; other letters keep their dash.
    """
    letters_with_argument = "BbcDEeFIiJLlmOoPpQRSWw"
    rest = iter(words)
    for word in rest:
        letters = re.match(rf"-([^{letters_with_argument}]*)(.?)(.*)", word, re.DOTALL)  # -qJ jump01
        if letters is None or word == "-":
            yield word, ""
            continue
        yield from ((f"-{letter}", "") for letter in letters[1])
        if not letters[2]:
            continue
        argument = letters[3] or next(rest, "")
        if letters[2] == "o":
            match = _OPTION.fullmatch(argument)
            through = jump_hosts.of_command(match[2]) if match and match[1].lower() == "proxycommand" else None
            if through is not None:
                yield "ProxyJump", through
            else:
                yield (match[1], match[2]) if match else (f"-o {argument}", "")
        else:
            yield {"J": "ProxyJump", "W": "ProxyCommand"}.get(letters[2], f"-{letters[2]}"), argument
