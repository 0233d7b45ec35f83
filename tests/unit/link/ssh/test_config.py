"""The user's own ssh_config, as the real ssh reads it: when it is asked, what it says, and each way in which that goes wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import pytest

from tests.unit.link.conftest import is_over, wait_for
from vgpumgr import files
from vgpumgr.core.model.endpoint import NO_CONFIG, USUAL_CONFIG, Endpoint, JumpHost, Setting
from vgpumgr.errors import HostDeadline, SshConfigRefused, Unreachable
from vgpumgr.link.connection import connect
from vgpumgr.link.ssh import config, config_files
from vgpumgr.names import HostName
from vgpumgr.timing import Deadlines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL: frozenset[Setting] = frozenset(get_args(Setting))
ENDPOINT = Endpoint(
    host=HostName("kvm01"),
    address="kvm01",
    port=22,
    user="root",
    key_file=None,
    known_hosts="/known_hosts",
    may_become=True,
    unsaid=ALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A user's home, and /etc/ssh, of the test's own."""

    folder: Path

    @property
    def endpoint(self) -> Endpoint:
        return replace(ENDPOINT, ssh_config=USUAL_CONFIG)

    def write(self, text: str, name: str = ".ssh/config") -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)
        return file

    def resolve(self, text: str | None = None, endpoint: Endpoint | None = None) -> Endpoint:
        if text is not None:
            self.write(text)
        return config.resolve(endpoint or self.endpoint, Deadlines())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setattr(config_files, "home", lambda: str(tmp_path))
    monkeypatch.setattr(config_files, "SYSTEM", str(tmp_path / "etc/ssh_config"))
    caches = (config._run, config_files._look)
    for one in caches:
        one.cache_clear()
    yield Home(folder=tmp_path)
    for one in caches:
        one.cache_clear()


def asked() -> int:
    """How often ssh was run."""
    return config._run.cache_info().misses


def test_a_site_without_settings_that_count_asks_nobody(home: Home) -> None:
    home.write("Host *\n  SendEnv LANG\n  HashKnownHosts yes\n# HostName x\n  HostKeyAlgorithms ssh-ed25519\n")
    home.write("Include etc.d/*.conf\n", "etc/ssh_config")
    assert home.resolve() == home.endpoint
    assert asked() == 0


def test_nothing_is_read_where_the_inventory_says_so(home: Home) -> None:
    home.write("HostName 10.0.0.9\n")
    assert config.resolve(replace(home.endpoint, ssh_config=NO_CONFIG), Deadlines()).address == "kvm01"
    assert asked() == 0


def test_an_alias_is_followed_as_ssh_does(home: Home) -> None:
    home.write("Host kvm0?\n  HostName 10.0.0.5\n  IdentityFile ~/.ssh/site_%h\n", ".ssh/conf.d/site.conf")
    found = home.resolve(
        f"Include {home.folder}/.ssh/conf.d/*.conf\nHost kvm01\n  Port 2222\n  User ops\nHost *\n  Port 7\n"
    )
    assert (found.address, found.port, found.user, found.become) == ("10.0.0.5", 2222, "ops", True)
    assert found.key_file == str(home.folder / ".ssh/site_10.0.0.5")
    assert found.known_hosts == "/known_hosts"  # ssh's own default is not taken for a setting
    assert (found.unsaid, found.ssh_config) == (frozenset(), NO_CONFIG)


def test_the_user_stays_root_where_no_file_names_one(home: Home) -> None:
    assert home.resolve("Host other\n  User anna\n").user == "root"


def test_the_systems_file_counts_after_the_users(home: Home) -> None:
    home.write("Host kvm01\n  Port 2\n  HostName 10.0.0.2\n", "etc/ssh_config")
    found = home.resolve("Host kvm01\n  Port 1\n")
    assert (found.address, found.port) == ("10.0.0.2", 1)


def test_another_file_stands_alone(home: Home) -> None:
    other = home.write("Host kvm01\n  Port 9\n", "other")
    home.write("Port 1\nHostName 10.0.0.1\n")
    found = home.resolve(endpoint=replace(ENDPOINT, ssh_config=str(other)))
    assert (found.address, found.port) == ("kvm01", 9)


def test_jump_hosts_have_settings_of_their_own(home: Home) -> None:
    found = home.resolve(
        "Host kvm01\n  ProxyJump gate,ann@inner:7\n"
        "Host gate\n  HostName 192.0.2.1\n  User door\n  IdentityFile /k/gate\n  ProxyJump outer\n"
        "Host outer\n  Port 8\n  UserKnownHostsFile /k/known\n"
        "Host inner\n  ProxyJump not-this\n  User not-this\n"
    )
    assert [(jump.address, jump.port, jump.user) for jump in found.jumps] == [
        ("outer", 8, "door"),
        ("192.0.2.1", 22, "door"),
        ("inner", 7, "ann"),
    ]
    assert [jump.key_file for jump in found.jumps] == [None, "/k/gate", None]
    assert [jump.known_hosts for jump in found.jumps] == ["/k/known", None, None]


def test_the_sites_host_keys_and_the_agent_are_those_that_ssh_would_take(home: Home) -> None:
    assert home.resolve("Port 3\n").site_known_hosts == "/etc/ssh/ssh_known_hosts"  # by ssh's own account two files
    found = home.resolve(
        'Host kvm01\n  IdentityAgent "~/an agent"\n  ProxyJump gate\n  KnownHostsCommand none\n'
        "Host gate\n  IdentityAgent none\n  GlobalKnownHostsFile /k/gate\n"
        "Host kvm* gate\n  GlobalKnownHostsFile ~/site\nHost kvm*\n  KnownHostsCommand /bin/keys %H\n  IdentityAgent $WORK\n"
    )
    assert found.agent.endswith("/an agent")
    assert found.site_known_hosts == str(home.folder / "site")
    assert [(jump.agent, jump.site_known_hosts) for jump in found.jumps] == [("none", "/k/gate")]
    assert home.resolve("IdentityAgent $WORK\n").agent == "$WORK"


def test_a_way_that_is_known_needs_none_of_the_files(home: Home) -> None:
    """As with ssh -J: neither ProxyCommand nor ProxyJump of a machine that is reached by a chain counts."""
    home.write("Host gate\n  ProxyJump outer\nHost kvm01 inner\n  ProxyCommand nc %h %p\n")
    chain = tuple(JumpHost(address=name, port=22, user="root") for name in ("gate", "inner"))
    found = home.resolve(endpoint=replace(home.endpoint, jumps=chain, unsaid=ALL - {"jumps"}))
    assert [jump.address for jump in found.jumps] == ["outer", "gate", "inner"]
    with pytest.raises(SshConfigRefused, match="ProxyCommand"):  # -J none leaves that to ssh
        home.resolve(endpoint=replace(home.endpoint, unsaid=ALL - {"jumps"}))
    home.write("ProxyJump gate\n")
    assert home.resolve(endpoint=replace(home.endpoint, unsaid=ALL - {"jumps"})).jumps == ()


def test_it_is_asked_once_for_each_machine_until_a_file_changes(home: Home) -> None:
    home.write("Host kvm01 kvm02\n  ProxyJump gate\n  Port 3\n")
    for name in ("kvm01", "kvm02", "kvm01"):
        assert home.resolve(endpoint=replace(home.endpoint, address=name)).port == 3
    assert asked() == 3  # and the jump host
    assert home.resolve("Host kvm01\n  Port 44\n").port == 44


def test_a_command_of_match_exec_runs_as_with_ssh(home: Home) -> None:
    ran = home.folder / "ran"
    assert home.resolve(f'Match exec "touch {ran}; test %h = kvm01"\n  Port 5\n').port == 5
    assert ran.exists()


@pytest.mark.parametrize(
    "name", ["-oProxyCommand=touch${IFS}x", "a;touch x", "$(touch x)", "a b", "kvm01`x`", "x@y", ""]
)
def test_a_hostile_name_becomes_neither_an_option_nor_a_command(home: Home, name: str) -> None:
    ran = home.folder / "ran"
    found = home.resolve(f'Match exec "touch {ran}.%h"\n  Port 5\n', replace(home.endpoint, address=name))
    assert (found.address, found.port) == (name, 22)
    assert asked() == 0
    assert list(home.folder.glob("ran*")) == []


@pytest.mark.parametrize("name", ["fe80::1%eth0", "::1", "köln.example"])
def test_any_address_has_the_settings_that_ssh_would_give_it(home: Home, name: str) -> None:
    """Without them it was reached past its jump host, and nothing said so (found: fresh eyes)."""
    found = home.resolve(
        "Host gate\n  ProxyJump none\nHost *\n  Port 5\n  ProxyJump gate\n", replace(home.endpoint, address=name)
    )
    assert (found.address, found.port, [jump.address for jump in found.jumps]) == (name, 5, ["gate"])


@pytest.mark.parametrize("name", ["a[b]c", "a*c", "a?c", "a\\c", 'a"c', "a b"])
def test_any_name_of_the_file_is_read(home: Home, name: str) -> None:
    """As after ssh's -F; Include takes wildcards (found: fresh eyes)."""
    file = home.write("Port 9\n", f"{name}/config")
    (home.folder / "aXc").mkdir()
    (home.folder / "aXc/config").write_text("Port 8\n")
    assert home.resolve(endpoint=replace(ENDPOINT, ssh_config=str(file))).port == 9


def test_a_home_may_be_another_user_s(home: Home) -> None:
    assert home.resolve("IdentityFile ~root/key\n").key_file == f"{files.expanded('~root')}/key"
    assert home.resolve("IdentityFile ~nobody-of-that-name/key\n").key_file == "~nobody-of-that-name/key"


def test_a_keyword_in_quotes_counts(home: Home) -> None:
    assert home.resolve('"Port" 5\n').port == 5
    with pytest.raises(SshConfigRefused, match="Bad configuration option"):
        home.resolve("\ufeffPort 5\n")


REFUSED = {
    "a proxy command": ("ProxyCommand nc %h %p", "ssh_config says ProxyCommand nc %h %p for kvm01", "ProxyJump jump01"),
    "a jump host's proxy command": (
        "Host gate\n  ProxyCommand nc x\nHost kvm01\n  ProxyJump gate",
        "via gate: config: ssh_config says ProxyCommand nc x for gate",
        "ProxyJump jump01",
    ),
    "a word that ssh does not know": (
        "Port 22\nUseKeychain yes",
        "line 2: Bad configuration option: usekeychain",
        "ssh -G kvm01",
    ),
    "a criterion that ssh does not know": (
        "Port 22\nMatch test2.*\n  IdentityFile ~/x",
        "line 2: Bad Match condition",
        "ssh -G kvm01",
    ),
    "a jump host that is its own": ("ProxyJump gate", "jumphost loop via gate", "ssh -G gate"),
    "two jump hosts, each behind the other": (
        "Host gate\n  ProxyJump door\nHost door\n  ProxyJump gate\nHost kvm01\n  ProxyJump gate",
        "more than 8 jump hosts",
        "must not be its own",
    ),
    "a user without become": ("User ops", "User ops, who is not root, for kvm01", "ansible_become: true"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done_is_refused_with_its_fix(home: Home, case: tuple[str, str, str]) -> None:
    text, said, fix = case
    endpoint = replace(home.endpoint, may_become=False)
    with pytest.raises(SshConfigRefused) as caught:
        home.resolve(f"{text}\n", endpoint)
    error = caught.value
    assert said in error.message
    assert fix in str(error.hint)
    assert (error.stage, error.exit_code, error.transient) == ("config", 4, False)


def test_the_command_that_shows_the_fault_reads_the_same_file(home: Home) -> None:
    file = home.write("Port 3\nUseKeychain yes\n", "my config")
    with pytest.raises(SshConfigRefused, match="Bad configuration option: usekeychain") as caught:
        home.resolve(endpoint=replace(home.endpoint, ssh_config=str(file)))
    assert caught.value.hint == f"ssh -F '{file}' -G kvm01"


def test_a_file_that_is_not_there_is_named(home: Home) -> None:
    with pytest.raises(SshConfigRefused, match="no file /nowhere/config") as caught:
        home.resolve(endpoint=replace(ENDPOINT, ssh_config="/nowhere/config"))
    assert "-F" in str(caught.value.hint)


def test_a_relative_include_of_the_systems_file_is_refused(home: Home) -> None:
    home.write("Include sub/*.conf\nPort 3\n", "etc/ssh_config")
    with pytest.raises(SshConfigRefused, match=r"etc/ssh_config:1 includes a file by a relative path"):
        home.resolve()


def test_a_controller_without_ssh_says_so(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SshConfigRefused, match=r"ssh is not installed on this controller.*\.ssh/config:1") as caught:
        home.resolve("Port 3\n")
    assert "-F none" in str(caught.value.hint)


def test_a_command_that_hangs_ends_at_the_deadline_with_all_that_it_started(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = home.folder / "pid"
    home.write(f'Match exec "echo $$ > {started}.new; mv {started}.new {started}; exec sleep 600"\n  Port 5\n')
    communicate = subprocess.Popen.communicate

    def once_it_hangs(*arguments: Any, **named: Any) -> Any:
        wait_for(started.exists, 60)
        return communicate(*arguments, **named)

    monkeypatch.setattr(subprocess.Popen, "communicate", once_it_hangs)
    with pytest.raises(HostDeadline, match=r"config: `ssh -G kvm01` did not end within 0.1 s"):
        config.resolve(home.endpoint, Deadlines(dns=0.1))
    pid = int(started.read_text())
    wait_for(lambda: is_over(pid), 60)  # it was killed: how soon it is gone is the kernel's affair


def test_a_connection_goes_where_the_file_says(home: Home) -> None:
    home.write("Host kvm01\n  HostName 127.0.0.1\n  Port 1\n")
    with pytest.raises(Unreachable, match=r"tcp: 127\.0\.0\.1 port 1: connection refused"):
        connect(replace(home.endpoint, jumps=(), unsaid=ALL))


def test_a_jump_host_of_the_inventory_is_looked_up_too(home: Home) -> None:
    jump = JumpHost(address="gate", port=22, user="root", unsaid=frozenset({"port"}))
    endpoint = replace(home.endpoint, jumps=(jump,), unsaid=ALL - {"jumps"})
    found = home.resolve("Host gate\n  HostName 192.0.2.7\n  Port 99\n  User not-this\n", endpoint)
    assert [(one.address, one.port, one.user) for one in found.jumps] == [("192.0.2.7", 99, "root")]


def test_nothing_of_it_is_imported_where_there_is_no_such_file() -> None:
    script = (
        "import sys, vgpumgr.link.ssh.config_files as f; from vgpumgr.core.model.endpoint import NO_CONFIG; f.find(NO_CONFIG)\n"
        "import vgpumgr.link.connection; sys.exit('vgpumgr.link.ssh.config' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
