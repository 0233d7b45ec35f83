"""Hosts behind jump hosts: one connection to each jump host, shared, closed last; every machine's key checked."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import paramiko
import pytest

from tests.unit.link.conftest import Sshd, free_port, make_key, wait_for
from vgpumgr import errors
from vgpumgr.core.model.endpoint import Endpoint, JumpHost
from vgpumgr.link import connection
from vgpumgr.link.deadlines import Deadline
from vgpumgr.link.ssh import client, jumps, tunnel
from vgpumgr.names import HostName
from vgpumgr.timing import Deadlines, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vgpumgr.link.ssh.client import SshConnection

    Behind = tuple[Sshd, Sshd, Callable[[], Endpoint]]
    Open = Callable[[Endpoint, Deadlines], SshConnection]

JUMP = Endpoint(
    host=HostName("jump01"), address="192.0.2.1", port=22, user="root", key_file=None, known_hosts="/nowhere"
)


class Fake:
    """Stands in for a connection to a jump host."""

    def __init__(self) -> None:
        self.alive = True
        self.closed = threading.Event()

    def close(self) -> None:
        self.alive = False
        self.closed.set()


class Dials:
    """Counts the dials; each takes a moment, or with `takes_s` until it `goes_on`. `fail`: what they raise."""

    def __init__(self) -> None:
        self.made: list[Fake] = []
        self.count = 0
        self.fail: errors.Unreachable | None = None
        self.takes_s = 0.05
        self.goes_on = threading.Event()

    def __call__(self, jump: Endpoint, deadlines: Deadlines) -> SshConnection:
        self.count += 1
        self.goes_on.wait(self.takes_s)
        if self.fail is not None:
            raise self.fail
        self.made.append(Fake())
        return cast("SshConnection", self.made[-1])


def ask(pool: jumps.Jumps, limits: Deadlines | None = None) -> Callable[[], None]:
    return pool.borrow(JUMP, limits or Deadlines())[1]


def test_twenty_threads_at_once_dial_once_and_it_is_closed_after_the_last() -> None:
    dials = Dials()
    pool = jumps.Jumps(dials, idle_s=0.05)
    with ThreadPoolExecutor(20) as threads:
        ends = list(threads.map(lambda _: ask(pool), range(20)))
    assert dials.count == 1
    for end in ends[:-1]:
        end()
    assert not dials.made[0].closed.wait(0.2)
    ends[-1]()
    assert dials.made[0].closed.wait(60)
    ask(pool)
    assert dials.count == 2


def test_the_next_host_finds_it_still_open() -> None:
    dials = Dials()
    pool = jumps.Jumps(dials, idle_s=30)
    for _ in range(5):
        ask(pool)()
    assert (dials.count, dials.made[0].alive) == (1, True)
    pool.close()
    assert not dials.made[0].alive


def test_one_that_was_lost_is_dialled_anew() -> None:
    dials = Dials()
    pool = jumps.Jumps(dials)
    ask(pool)
    dials.made[0].alive = False
    ask(pool)
    assert dials.count == 2


def test_who_asks_while_it_is_dialled_waits_no_longer_than_the_own_deadlines() -> None:
    dials = Dials()
    dials.takes_s = 600
    pool = jumps.Jumps(dials, idle_s=0.05)
    waiting = threading.Thread(target=ask, args=(pool,), daemon=True)
    waiting.start()
    wait_for(lambda: dials.count == 1, 60)
    with pytest.raises(errors.HostDeadline, match="jump01: tcp"):
        ask(pool, Deadlines(dns=0.02, tcp=0.02, banner=0.02, kex=0.02, auth=0.02))
    assert dials.made == []
    dials.goes_on.set()
    waiting.join()
    assert dials.count == 1


def test_one_that_everybody_gave_up_is_closed_when_it_comes_after_all() -> None:
    dials = Dials()
    dials.takes_s = 600
    pool = jumps.Jumps(dials, idle_s=0.05)
    with pytest.raises(errors.HostDeadline):
        ask(pool, Deadlines(dns=0.01, tcp=0.01, banner=0.01, kex=0.01, auth=0.01))
    dials.goes_on.set()
    wait_for(lambda: bool(dials.made), 60)
    assert dials.made[0].closed.wait(60)


@pytest.mark.parametrize(
    ("error", "most"),
    [
        (errors.Unreachable("jump01", "tcp", "connection refused"), 2),
        (errors.AuthenticationFailed("jump01", "auth", "no"), 1),
        (errors.HostKeyRefused("jump01", "kex", "no"), 1),
    ],
)
def test_what_went_wrong_is_the_answer_to_all_and_is_not_tried_for_each(error: errors.Unreachable, most: int) -> None:
    """Each of 40 hosts tries twice, as open_session_patiently lets it; an authentication is never repeated."""
    dials = Dials()
    dials.fail = error
    pool = jumps.Jumps(dials)

    def twice(number: int) -> None:
        for wait_s in (0.3 + number / 100, 0):
            with pytest.raises(type(error)):
                ask(pool)
            time.sleep(wait_s)

    with ThreadPoolExecutor(40) as threads:
        list(threads.map(twice, range(40)))
    assert dials.count == most


def test_a_failure_is_told_as_each_hosts_own_and_names_the_jump_host() -> None:
    error = errors.HostKeyRefused("jump02", "kex", "changed", hint="h", details=("d",)).seen_from("kvm01", "jump02")
    assert (error.message, error.host, error.stage, error.hint) == (
        "kvm01: via jump02: kex: changed",
        "kvm01",
        "kex",
        "h",
    )
    assert (error.details, type(error)) == (("d",), errors.HostKeyRefused)
    assert error.seen_from("kvm02", "jump03").message == "kvm02: via jump02: kex: changed"


@pytest.fixture
def open_connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """jumps.open_connection with a pool of the test's own."""
    pool = jumps.Jumps(jumps.open_connection)
    monkeypatch.setattr(jumps, "_JUMPS", pool)
    yield jumps.open_connection
    pool.close()


@pytest.fixture
def behind(new_sshd: Sshd, tmp_path: Path, shared: Path) -> Iterator[Behind]:
    """A jump host, a host, and the host's endpoint through the jump host."""
    folder = tmp_path / "host"
    folder.mkdir()
    host = Sshd(folder, shared)
    jump = new_sshd
    (host.folder / "authorized_keys").write_text((jump.folder / "user.pub").read_text())
    jump.known_hosts.write_text(jump.known_hosts.read_text() + host.known_hosts.read_text())
    host.start("LogLevel=VERBOSE")
    endpoint = replace(
        host.endpoint, key_file=jump.endpoint.key_file, known_hosts=str(jump.known_hosts), jumps=(via(jump),)
    )
    yield jump, host, lambda: endpoint
    host.stop()


def via(jump: Sshd) -> JumpHost:
    return JumpHost(address="127.0.0.1", port=jump.port, user="root")


def connections(sshd: Sshd) -> int:
    return len(re.findall("Accepted publickey", (sshd.folder / "sshd.log").read_text()))


@pytest.mark.lab
def test_twenty_hosts_behind_one_jump_host_take_one_connection_to_it(behind: Behind, open_connection: Open) -> None:
    jump, host, endpoint = behind
    jump.start("LogLevel=VERBOSE", "MaxStartups=4")
    with ThreadPoolExecutor(20) as threads:
        opened = list(threads.map(lambda _: open_connection(endpoint(), Deadlines()), range(20)))
    try:
        command = opened[7].run("echo $SSH_CONNECTION", stage="program", timeout_s=10)
        assert command.receive(Deadline(10)).split()[-1] == str(host.port).encode()
        assert not opened[7].is_far
    finally:
        for one in opened:
            one.close()
    assert connections(host) == 20
    assert connections(jump) == 1


@pytest.mark.lab
def test_a_chain_of_two_is_two_connections_and_each_key_is_checked(behind: Behind, open_connection: Open) -> None:
    jump, host, endpoint = behind
    jump.start("LogLevel=VERBOSE")
    # The host itself is the second jump host: its sshd connects to itself.
    chain = replace(endpoint(), jumps=(via(jump), via(host)))
    with contextlib.closing(open_connection(chain, Deadlines())):
        assert (connections(jump), connections(host)) == (1, 2)
    shorter = jump.folder / "known_jump"
    lines = jump.known_hosts.read_text().splitlines(keepends=True)
    shorter.write_text("".join(line for line in lines if f":{jump.port} " in line))
    with pytest.raises(errors.HostKeyRefused, match=rf"kvm01: via 127\.0\.0\.1:{host.port}: kex: ") as caught:
        open_connection(replace(chain, known_hosts=str(shorter)), Deadlines())
    assert f"ssh -p {jump.port} root@127.0.0.1 ssh-keyscan -p {host.port} 127.0.0.1" in str(caught.value.hint)


@pytest.mark.lab
def test_what_the_host_is_reached_with_holds_for_its_jump_host_unless_that_has_its_own(
    behind: Behind, open_connection: Open
) -> None:
    """The file of the site's host keys, and the agent, which is asked here as no key is private."""
    jump, _, endpoint = behind
    jump.start("LogLevel=VERBOSE")
    site = jump.known_hosts.rename(jump.folder / "site")
    shared = replace(endpoint(), site_known_hosts=str(site))
    open_connection(shared, Deadlines()).close()
    shared = replace(shared, key_file=f"{shared.key_file}.pub", agent="/nowhere/agent")
    with pytest.raises(errors.AuthenticationFailed, match=r"via .*: auth: .*: /nowhere/agent"):
        open_connection(shared, Deadlines())
    own = replace(via(jump), site_known_hosts="/dev/null", agent="none")
    with pytest.raises(errors.HostKeyRefused, match=r"kvm01: via .*: kex: .* has no key of"):
        open_connection(replace(shared, jumps=(own,)), Deadlines())
    own = replace(own, site_known_hosts=None)
    with pytest.raises(errors.AuthenticationFailed, match=r"via .*: auth: .*IdentityAgent none"):
        open_connection(replace(shared, jumps=(own,)), Deadlines())


@pytest.mark.lab
def test_a_wrong_key_of_the_jump_host_is_refused_before_anything_is_sent_to_it(
    behind: Behind, open_connection: Open
) -> None:
    jump, host, endpoint = behind
    jump.start("LogLevel=VERBOSE")
    make_key(jump.folder / "other")
    other = (jump.folder / "other.pub").read_text()
    jump.known_hosts.write_text(f"[127.0.0.1]:{jump.port} {other}" + host.known_hosts.read_text())
    with pytest.raises(errors.HostKeyRefused, match=rf"^kvm01: via 127\.0\.0\.1:{jump.port}: kex: .*CHANGED"):
        open_connection(endpoint(), Deadlines())
    log = (jump.folder / "sshd.log").read_text()
    assert "Accepted" not in log
    assert "userauth" not in log


@pytest.mark.lab
def test_a_wrong_key_of_the_host_is_told_of_the_host_alone(behind: Behind, open_connection: Open) -> None:
    jump, host, endpoint = behind
    jump.start()
    jump.trust("host_ed25519")
    with pytest.raises(errors.HostKeyRefused, match=r"^kvm01: kex: .*has no key of \[127") as caught:
        open_connection(endpoint(), Deadlines())
    assert f"ssh -p {jump.port} root@127.0.0.1 ssh-keyscan -p {host.port}" in str(caught.value.hint)


@pytest.mark.lab
@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        (("AllowTcpForwarding=no",), r"^kvm01: via 127.*: tcp: its sshd does not forward", "AllowTcpForwarding"),
        (("PermitOpen=192.0.2.1:22",), r"^kvm01: via 127.*: tcp: its sshd does not forward", "PermitOpen"),
        (("PubkeyAuthentication=no", "PasswordAuthentication=yes"), r"^kvm01: via 127.*: auth: ", "PubkeyAuth"),
    ],
)
def test_a_jump_host_that_does_not_let_us_through_is_named(
    behind: Behind, open_connection: Open, options: tuple[str, ...], said: str, hint: str
) -> None:
    jump, _, endpoint = behind
    jump.start(*options)
    with pytest.raises(errors.Unreachable, match=said) as caught:
        open_connection(endpoint(), Deadlines())
    assert hint in str(caught.value.hint)


@pytest.mark.lab
def test_what_lies_behind_is_told_as_the_jump_host_sees_it(
    behind: Behind, open_connection: Open, quick: Deadlines
) -> None:
    jump, host, endpoint = behind
    jump.start()
    closed = replace(endpoint(), port=free_port())
    with pytest.raises(errors.Unreachable, match=r"^kvm01: tcp: 127.0.0.1 port \d+, from 127.*: connection refused"):
        open_connection(closed, quick)
    assert host.process is not None
    os.kill(host.process.pid, signal.SIGSTOP)
    with pytest.raises(errors.HostDeadline, match=r"^kvm01: banner: TCP connects, but no SSH banner"):
        open_connection(endpoint(), quick)


@pytest.mark.lab
def test_a_jump_host_that_is_not_there_is_a_failure_of_each_host_at_once(behind: Behind, open_connection: Open) -> None:
    jump, _, endpoint = behind
    said = rf"^kvm01: via 127\.0\.0\.1:{jump.port}: tcp: 127\.0\.0\.1 port {jump.port}: connection refused"
    for _ in range(20):
        with pytest.raises(errors.Unreachable, match=said):
            open_connection(endpoint(), Deadlines())


@pytest.mark.lab
def test_a_jump_host_that_dies_ends_the_hosts_behind_it_at_once_with_that_reason(
    behind: Behind, open_connection: Open
) -> None:
    jump, _, endpoint = behind
    jump.start()
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(connection.connect(endpoint())) for _ in range(3)]
        for one in links:
            one.program.observe(wait_s=5)
            os.kill(one.program.hello["pid"], signal.SIGSTOP)
        threading.Timer(0.5, functools.partial(kill_all, jump)).start()

        def ask_again(link: connection.HostLink) -> errors.HostError:
            with pytest.raises(errors.Unreachable) as caught:
                link.program.observe(wait_s=0)
            return caught.value

        with ThreadPoolExecutor(3) as threads:
            found = list(threads.map(ask_again, links))
    expected = f"kvm01: via 127.0.0.1:{jump.port}: program: the connection was lost"
    assert [(one.message, one.exit_code) for one in found] == [(expected, 4)] * 3


def kill_all(sshd: Sshd) -> None:
    assert sshd.process is not None
    for pid in (sshd.process.pid, *sshd.sessions()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.lab
def test_a_jump_host_that_hangs_holds_nobody_beyond_the_deadline(
    behind: Behind, open_connection: Open, quick: Deadlines
) -> None:
    jump, _, endpoint = behind
    jump.start()
    link = connection.connect(endpoint(), timing=Timing(deadlines=quick))
    link.program.observe(wait_s=5)
    assert jump.process is not None
    pids = [jump.process.pid, *jump.sessions()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(errors.HostDeadline, match=rf"^kvm01: via 127\.0\.0\.1:{jump.port}: program: no answer"):
            link.program.observe(wait_s=0)
        with pytest.raises(errors.HostDeadline, match=rf"^kvm01: via 127\.0\.0\.1:{jump.port}: tcp: it no longer"):
            open_connection(endpoint(), quick)
        link.close()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


class LosingTransport:
    """paramiko's, of a connection that is being lost: `error` is what opening a channel raises, `alive` whether it is noticed."""

    def __init__(self, error: BaseException, *, alive: bool) -> None:
        self._handler_table = {92: lambda _message: None}
        self._next_channel = lambda: 1
        self._error = error
        self._alive = alive

    def is_active(self) -> bool:
        return self._alive

    def open_channel(self, *_arguments: object, **_named: object) -> None:
        raise self._error

    def open_session(self, **_named: object) -> None:
        raise self._error


class Silent:
    """A wire of which nothing is known."""

    broken_at = None


LOSSES = [
    (EOFError(), True),  # whoever writes finds out first
    (EOFError(), False),
    (OSError("Socket is closed"), True),
    (paramiko.SSHException("Unable to open channel."), False),
]


@pytest.mark.parametrize(("error", "alive"), LOSSES)
def test_a_connection_that_is_lost_meanwhile_is_lost_and_neither_late_nor_refusing(
    error: BaseException, alive: bool
) -> None:
    transport: Any = LosingTransport(error, alive=alive)
    wire: Any = Silent()
    lost = client.SshConnection(JUMP, wire, transport)
    with pytest.raises(ConnectionError):
        lost.open_tunnel("192.0.2.2", 22, 5)
    with pytest.raises(errors.Unreachable, match="program: the connection was lost"):
        lost.run("true", stage="program", timeout_s=5)


def test_a_tunnel_whose_jump_host_is_lost_before_its_first_byte_is_a_lost_connection() -> None:
    class Lost:
        def settimeout(self, _timeout: float) -> None: ...

        def sendall(self, _data: bytes) -> None:
            raise EOFError

    channel, carrier = cast("Any", Lost()), cast("Any", Fake())
    with pytest.raises(ConnectionError):
        tunnel.Tunnel(channel, carrier, "jump01", timeout_s=1, ended=lambda: None)
