"""The stages dns, tcp and banner, each against a server that fails in just that way."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from vgpumgr import errors
from vgpumgr.lab.machine.sshd import reserve_port
from vgpumgr.link.ssh import dial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.timing import Deadlines

    Serve = Callable[[Callable[[socket.socket], None]], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Listen on loopback and do that with each connection; gives the port."""
    with contextlib.ExitStack() as stack:

        def begin(talk: Callable[[socket.socket], None]) -> int:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def run() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        connected, _ = listener.accept()
                        stack.enter_context(connected)
                        talk(connected)

            threading.Thread(target=run, daemon=True).start()
            stack.callback(lambda: listener.shutdown(socket.SHUT_RDWR))
            return int(listener.getsockname()[1])

        yield begin


def dial_expecting(kind: type[errors.Unreachable], endpoint: Endpoint, limits: Deadlines) -> errors.Unreachable:
    with pytest.raises(kind) as caught:
        dial.dial(endpoint, limits)
    return caught.value


def test_a_server_that_speaks_ssh_is_handed_over_with_its_banner_unread(
    serve: Serve, nobody: Callable[[int], Endpoint], quick: Deadlines
) -> None:
    port = serve(lambda one: one.sendall(b"hello\r\nSSH-2.0-x\r\n"))
    with dial.dial(nobody(port), quick) as connected:
        assert connected.recv(7) == b"hello\r\n"


@pytest.mark.skipif(sys.platform != "linux", reason="is about Linux's delayed acknowledgements")
def test_what_arrives_is_acknowledged_at_once_and_again_after_we_have_sent(
    serve: Serve, nobody: Callable[[int], Endpoint], quick: Deadlines
) -> None:
    """Otherwise sshd, with Nagle's algorithm on, would keep its next small packet back for 40 ms."""

    def speak(one: socket.socket) -> None:
        one.sendall(b"SSH-2.0-x\r\n")
        while one.recv(1):
            one.sendall(b".")

    port = serve(speak)
    with dial.dial(nobody(port), quick) as connected:
        for _ in range(20):
            connected.recv(100)
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)  # as the kernel does after a while
            socket.socket.sendall(connected, b"x")


def test_a_silent_server_is_a_deadline_of_the_banner(
    serve: Serve, nobody: Callable[[int], Endpoint], quick: Deadlines
) -> None:
    error = dial_expecting(errors.HostDeadline, nobody(serve(lambda _: None)), replace(quick, banner=0.2))
    assert error.stage == "banner"


def test_a_server_that_closes_at_once_is_asked_about_maxstartups(
    serve: Serve, nobody: Callable[[int], Endpoint], quick: Deadlines
) -> None:
    error = dial_expecting(errors.Unreachable, nobody(serve(lambda one: one.shutdown(socket.SHUT_RDWR))), quick)
    assert error.stage == "banner"
    assert "MaxStartups" in str(error.hint)


def test_a_server_that_resets_is_asked_about_maxstartups(
    serve: Serve, nobody: Callable[[int], Endpoint], quick: Deadlines
) -> None:
    def reset(one: socket.socket) -> None:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        one.close()

    error = dial_expecting(errors.Unreachable, nobody(serve(reset)), quick)
    assert (error.stage, error.exit_code) == ("banner", 4)
    assert "MaxStartups" in str(error.hint)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (b"Exceeded MaxStartups\r\n", "MaxStartups in its sshd_config"),
        (b"Not allowed at this time\r\n", "PerSourcePenalties"),
        (b"Go away\r\n", "fail2ban"),
    ],
)
def test_what_a_server_says_before_it_closes_is_shown(
    serve: Serve, nobody: Callable[[int], Endpoint], quick: Deadlines, text: bytes, fix: str
) -> None:
    def talk(one: socket.socket) -> None:
        one.sendall(text)
        one.shutdown(socket.SHUT_RDWR)

    error = dial_expecting(errors.Unreachable, nobody(serve(talk)), quick)
    assert text.decode().strip() in error.message
    assert fix in str(error.hint)


@pytest.mark.parametrize("text", [b"220 mail ESMTP\r\n", b"x" * 5000, b"SS"])
def test_another_service_is_named_by_its_first_bytes(
    serve: Serve, nobody: Callable[[int], Endpoint], quick: Deadlines, text: bytes
) -> None:
    error = dial_expecting(errors.Unreachable, nobody(serve(lambda one: one.sendall(text))), quick)
    assert error.stage == "banner"
    assert text[:2].decode() in error.message
    assert "no SSH server" in error.message


def test_a_closed_port_is_refused_at_once(nobody: Callable[[int], Endpoint], quick: Deadlines) -> None:
    with reserve_port() as one:
        error = dial_expecting(errors.Unreachable, nobody(one.getsockname()[1]), quick)
    assert error.stage == "tcp"
    assert "connection refused" in error.message
    assert "sshd" in str(error.hint)


def test_a_host_that_drops_packets_is_a_deadline_of_tcp(nobody: Callable[[int], Endpoint], quick: Deadlines) -> None:
    """A listener whose queue is full takes no further connection, as a firewall that drops."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        error = dial_expecting(errors.HostDeadline, nobody(full.getsockname()[1]), replace(quick, tcp=0.3))
    assert error.stage == "tcp"
    assert "timed out after 0.3 s" in error.message


def test_an_unknown_name_is_a_failure_of_dns(nobody: Callable[[int], Endpoint], quick: Deadlines) -> None:
    error = dial_expecting(errors.Unreachable, replace(nobody(22), address="no-such-host.invalid"), quick)
    assert error.stage == "dns"


@pytest.mark.parametrize("address", ["", "a" * 300, "kvm\x0001", "ü" * 64])
def test_an_address_that_is_no_name_is_a_failure_of_dns_or_tcp(
    nobody: Callable[[int], Endpoint], quick: Deadlines, address: str
) -> None:
    error = dial_expecting(errors.Unreachable, replace(nobody(1), address=address), quick)
    assert error.stage in ("dns", "tcp")


def test_a_name_server_that_hangs_is_a_deadline_of_dns(
    nobody: Callable[[int], Endpoint], quick: Deadlines, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    real = socket.getaddrinfo

    def hang(*args: object, flags: int = 0, **others: object) -> object:
        if flags & socket.AI_NUMERICHOST:
            return real("kvm01", 22, flags=flags)
        release.wait(30)
        raise socket.gaierror(socket.EAI_AGAIN, "late")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    error = dial_expecting(errors.HostDeadline, replace(nobody(22), address="kvm01"), replace(quick, dns=0.2))
    release.set()
    assert error.stage == "dns"
