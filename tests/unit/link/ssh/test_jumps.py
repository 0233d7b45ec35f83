"""Hosts behind jump hosts: one connection to each jump host, shared, closed last; every machine's key checked."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import paramiko
import pytest

from tests.unit.link.conftest import Sshd, kill_all, make_key, stopped, wait_for
from vgpumgr import errors
from vgpumgr.core.model.endpoint import Endpoint, JumpHost
from vgpumgr.lab.machine.sshd import reserve_port
from vgpumgr.link import connection, deadlines
from vgpumgr.link.deadlines import Deadline
from vgpumgr.link.ssh import client, jumps, tunnel
from vgpumgr.names import HostName
from vgpumgr.timing import Deadlines, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.link.ssh.client import SshConnection

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
    """Counts the dials, each of which is made once they `go_on`. `fail`: what they raise."""

    def __init__(self) -> None:
        self.made: list[Fake] = []
        self.count = 0
        self.fail: errors.Unreachable | None = None
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, jump: Endpoint, deadlines: Deadlines) -> SshConnection:
        self.count += 1
        self.go_on.wait(60)
        if self.fail is not None:
            raise self.fail
        self.made.append(Fake())
        return cast("SshConnection", self.made[-1])


def ask(pool: jumps.Jumps, limits: Deadlines | None = None) -> Callable[[], None]:
    return pool.borrow(JUMP, limits or Deadlines())[1]


def users(pool: jumps.Jumps) -> int:
    """Who waits for the jump host, or has it; and whoever dials it."""
    return sum(shared.users for shared in pool._shared.values())


def test_twenty_threads_at_once_dial_once_and_it_is_closed_after_the_last() -> None:
    dials = Dials()
    dials.go_on.clear()
    pool = jumps.Jumps(dials, idle_s=0)
    with ThreadPoolExecutor(20) as threads:
        asked = [threads.submit(ask, pool) for _ in range(20)]
        wait_for(lambda: users(pool) == 21, 60)
        dials.go_on.set()
    assert dials.count == 1
    wait_for(lambda: users(pool) == 20, 60)
    for left in range(19, -1, -1):
        assert dials.made[0].alive
        asked[left].result()()
        assert users(pool) == left
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
    dials.go_on.clear()
    pool = jumps.Jumps(dials, idle_s=0)
    waiting = threading.Thread(target=ask, args=(pool,), daemon=True)
    waiting.start()
    wait_for(lambda: dials.count == 1, 60)
    with pytest.raises(errors.HostDeadline, match="jump01: tcp"):
        ask(pool, Deadlines(dns=0.02, tcp=0.02, banner=0.02, kex=0.02, auth=0.02))
    assert dials.made == []
    dials.go_on.set()
    waiting.join()
    assert dials.count == 1


def test_one_that_everybody_gave_up_is_closed_when_it_comes_after_all() -> None:
    dials = Dials()
    dials.go_on.clear()
    pool = jumps.Jumps(dials, idle_s=0)
    with pytest.raises(errors.HostDeadline):
        ask(pool, Deadlines(dns=0.01, tcp=0.01, banner=0.01, kex=0.01, auth=0.01))
    dials.go_on.set()
    wait_for(lambda: bool(dials.made), 60)
    assert dials.made[0].closed.wait(60)


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (errors.Unreachable("jump01", "tcp", "connection refused"), [0, 0.3, 5.5, 10.6, 59]),
        (errors.AuthenticationFailed("jump01", "auth", "no"), [0, 61]),
        (errors.HostKeyRefused("jump01", "kex", "no"), [0, 61]),
    ],
)
def test_what_went_wrong_is_the_answer_to_all_and_is_not_tried_for_each(
    error: errors.Unreachable, again: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again soon, for the one retry that each host has, and then seldom; a failed login even more seldom."""
    clock = [0.0]
    monkeypatch.setattr(deadlines, "now", lambda: clock[0])
    dials = Dials()
    dials.fail = error
    pool = jumps.Jumps(dials)
    dialled = []
    for clock[0] in (0, 0.2, 0.3, 0.6, 5.2, 5.5, 10.4, 10.6, 59, 61):
        before = dials.count
        for _ in range(3):
            with pytest.raises(type(error)):
                ask(pool)
        if dials.count > before:
            dialled.append(clock[0])
    assert dialled == again


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


@pytest.fixture(scope="module")
def running_jump(make_sshd: Callable[[], Sshd]) -> Sshd:
    return make_sshd().start()


@pytest.fixture
def jump(running_jump: Sshd) -> Sshd:
    """A jump host, which runs for all tests of the file, as the host does."""
    running_jump.renew()
    return running_jump


def via(jump: Sshd) -> JumpHost:
    return JumpHost(address="127.0.0.1", port=jump.port, user="root")


def through(jump: Sshd, host: Sshd) -> Endpoint:
    """The host's endpoint through the jump host, whose file knows both."""
    with jump.known_hosts.open("a") as file:
        file.write(host.known_hosts.read_text())
    return replace(host.endpoint, known_hosts=str(jump.known_hosts), jumps=(via(jump),))


@pytest.fixture
def behind(jump: Sshd, sshd: Sshd) -> Endpoint:
    return through(jump, sshd)


def connections(sshd: Sshd) -> int:
    return sshd.log.count("Accepted publickey")


@pytest.mark.lab
def test_hosts_behind_one_jump_host_take_one_connection_to_it(
    jump: Sshd, sshd: Sshd, behind: Endpoint, open_connection: Open
) -> None:
    with ThreadPoolExecutor(6) as threads:
        opened = list(threads.map(lambda _: open_connection(behind, Deadlines()), range(6)))
    try:
        command = opened[4].run("echo $SSH_CONNECTION", stage="program", timeout_s=10)
        assert command.receive(Deadline(60)).split()[-1] == str(sshd.port).encode()
        assert not opened[4].is_far
    finally:
        for one in opened:
            one.close()
    assert (connections(sshd), connections(jump)) == (6, 1)


@pytest.mark.lab
def test_a_chain_of_two_is_two_connections_and_each_key_is_checked(
    jump: Sshd, sshd: Sshd, behind: Endpoint, open_connection: Open
) -> None:
    # The host itself is the second jump host: its sshd connects to itself.
    chain = replace(behind, jumps=(via(jump), via(sshd)))
    with contextlib.closing(open_connection(chain, Deadlines())):
        assert (connections(jump), connections(sshd)) == (1, 2)
    shorter = jump.folder / "known_jump"
    shorter.write_text(jump.known_hosts.read_text().splitlines()[0])
    with pytest.raises(errors.HostKeyRefused, match=rf"kvm01: via 127\.0\.0\.1:{sshd.port}: kex: ") as caught:
        open_connection(replace(chain, known_hosts=str(shorter)), Deadlines())
    assert f"ssh -p {jump.port} root@127.0.0.1 ssh-keyscan -p {sshd.port} 127.0.0.1" in str(caught.value.hint)


@pytest.mark.lab
def test_what_the_host_is_reached_with_holds_for_its_jump_host_unless_that_has_its_own(
    jump: Sshd, behind: Endpoint, open_connection: Open
) -> None:
    """The file of the site's host keys, and the agent, which is asked here as no key is private."""
    site = jump.known_hosts.rename(jump.folder / "site")
    shared = replace(behind, site_known_hosts=str(site))
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
    jump: Sshd, behind: Endpoint, open_connection: Open
) -> None:
    make_key(jump.folder / "other")
    jump.trust("other")
    with pytest.raises(errors.HostKeyRefused, match=rf"^kvm01: via 127\.0\.0\.1:{jump.port}: kex: .*CHANGED"):
        open_connection(behind, Deadlines())
    assert "Accepted" not in jump.log
    assert "userauth" not in jump.log


@pytest.mark.lab
def test_a_wrong_key_of_the_host_is_told_of_the_host_alone(
    jump: Sshd, sshd: Sshd, behind: Endpoint, open_connection: Open
) -> None:
    jump.trust("host_ed25519")
    with pytest.raises(errors.HostKeyRefused, match=r"^kvm01: kex: .*has no key of \[127") as caught:
        open_connection(behind, Deadlines())
    assert f"ssh -p {jump.port} root@127.0.0.1 ssh-keyscan -p {sshd.port}" in str(caught.value.hint)


NO_WAY = {
    "no forwarding": (("AllowTcpForwarding=no",), "tcp: its sshd does not forward", "AllowTcpForwarding"),
    "to other hosts": (("PermitOpen=192.0.2.1:22",), "tcp: its sshd does not forward", "PermitOpen"),
    "no keys": (("PubkeyAuthentication=no", "PasswordAuthentication=yes"), "auth: ", "PubkeyAuth"),
}


@pytest.mark.lab
@pytest.mark.parametrize("case", NO_WAY.values(), ids=NO_WAY)
def test_a_jump_host_that_does_not_let_us_through_is_named(
    new_sshd: Sshd, sshd: Sshd, open_connection: Open, case: tuple[tuple[str, ...], str, str]
) -> None:
    options, said, hint = case
    behind = through(new_sshd.start(*options), sshd)
    with pytest.raises(errors.Unreachable, match=f"^kvm01: via 127.*: {said}") as caught:
        open_connection(behind, Deadlines())
    assert hint in str(caught.value.hint)


@pytest.mark.lab
def test_what_lies_behind_is_told_as_the_jump_host_sees_it(
    sshd: Sshd, behind: Endpoint, open_connection: Open, quick: Deadlines
) -> None:
    refused = r"^kvm01: tcp: 127.0.0.1 port \d+, from 127.*: connection refused"
    with reserve_port() as closed, pytest.raises(errors.Unreachable, match=refused):
        open_connection(replace(behind, port=closed.getsockname()[1]), quick)
    assert sshd.process is not None
    with (
        stopped(sshd.process.pid),
        pytest.raises(errors.HostDeadline, match=r"^kvm01: banner: TCP connects, but no SSH banner"),
    ):
        open_connection(behind, quick)


def test_a_jump_host_that_is_not_there_is_a_failure_of_each_host(
    nobody: Callable[[int], Endpoint], open_connection: Open
) -> None:
    with reserve_port() as one:
        port = one.getsockname()[1]
        jump = JumpHost(address="127.0.0.1", port=port, user="root")
        said = rf"via 127\.0\.0\.1:{port}: tcp: 127\.0\.0\.1 port {port}: connection refused"
        for name in ("kvm01", "kvm02"):
            with pytest.raises(errors.Unreachable, match=f"^{name}: {said}"):
                open_connection(replace(nobody(22), host=HostName(name), jumps=(jump,)), Deadlines())


@pytest.mark.lab
def test_a_jump_host_that_dies_ends_the_hosts_behind_it_at_once_with_that_reason(
    new_sshd: Sshd, sshd: Sshd, open_connection: Open
) -> None:
    """With deadlines of their own the error would have other words."""
    behind = through(new_sshd.start(), sshd)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(2) as threads:
        links = [stack.enter_context(connection.connect(behind)) for _ in range(2)]
        stack.enter_context(stopped(*(one.program.hello["pid"] for one in links)))
        asked = [threads.submit(one.program.observe, wait_s=0) for one in links]
        wait_for(lambda: all(one.program.requests == 1 for one in links), 60)
        assert new_sshd.process is not None
        kill_all([new_sshd.process.pid, *new_sshd.sessions()])
        found = [one.exception() for one in asked]
    lost = f"kvm01: via 127.0.0.1:{new_sshd.port}: program: the connection was lost"
    assert [(type(one), str(one)) for one in found] == [(errors.Unreachable, lost)] * 2


@pytest.mark.lab
def test_a_jump_host_that_hangs_holds_nobody_beyond_the_deadline(
    jump: Sshd, behind: Endpoint, open_connection: Open, quick: Deadlines
) -> None:
    link = connection.connect(behind, timing=Timing(deadlines=quick))
    link.program.observe(wait_s=5)
    assert jump.process is not None
    with stopped(jump.process.pid, *jump.sessions()):
        with pytest.raises(errors.HostDeadline, match=rf"^kvm01: via 127\.0\.0\.1:{jump.port}: program: no answer"):
            link.program.observe(wait_s=0)
        with pytest.raises(errors.HostDeadline, match=rf"^kvm01: via 127\.0\.0\.1:{jump.port}: tcp: it no longer"):
            open_connection(behind, quick)
        link.close()


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
