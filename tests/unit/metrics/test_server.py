"""The small server against clients that mean no good: each has its end, and none keeps a real scrape out."""

from __future__ import annotations

import fcntl
import http.client
import itertools
import os
import resource
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.controllers import wait_until
from vgpumgr.errors import ExportError, StoreError
from vgpumgr.metrics import server, socket_place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def serving() -> Iterator[tuple[str, int]]:
    """A server of one page in a thread, ended by an exception as a signal would."""
    before = threading.active_count()
    listener = socket.create_server(("127.0.0.1", 0))
    ending = threading.Event()
    serve = server._Server(listener, lambda _accept: (b"page", "text/plain"), lambda _error: None)

    def run() -> None:
        with serve:
            serve.serve_forever(poll_interval=0.02)
        ending.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield listener.getsockname()
    finally:
        serve.shutdown()
        assert ending.wait(10)
        listener.close()
        # Those that served a client close its descriptor at their end, and the next test may count descriptors.
        wait_until(lambda: threading.active_count() <= before, "the end of the server's threads")


def ask(place: tuple[str, int]) -> bytes:
    connection = http.client.HTTPConnection(*place, timeout=10)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read()
    finally:
        connection.close()


def is_cut(client: socket.socket) -> bool:
    """Whether the other end closed it; waits for that a while."""
    client.settimeout(10)
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def test_a_client_that_drips_a_byte_now_and_then_is_cut_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit for each read alone would be begun anew by each byte."""
    monkeypatch.setattr(server, "_CLIENT_S", 0.3)
    with serving() as place, socket.create_connection(place) as client:
        client.settimeout(0.05)
        with suppress(ConnectionError):
            for _ in range(1000):
                client.sendall(b"G")
                with suppress(TimeoutError):
                    if client.recv(1) == b"":
                        return
            pytest.fail("it was never cut")


@pytest.mark.parametrize(
    ("target", "status"), [("http://[::1", 400), ("http://host/metrics?a=b", 200), ("/metrics", 200), ("//[", 404)]
)
def test_every_target_of_a_request_is_answered(target: str, status: int) -> None:
    with serving() as place, socket.create_connection(place) as client:
        client.settimeout(10)
        client.sendall(f"GET {target} HTTP/1.0\r\n\r\n".encode())
        assert client.recv(100).split()[1] == str(status).encode()


def test_a_crowd_that_says_nothing_gives_way_to_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "AT_ONCE", 3)
    monkeypatch.setattr(server, "_CLIENT_S", 3600.0)  # nobody is cut for the time that he took
    before = threading.active_count()
    with serving() as place, ExitStack() as open_clients:
        crowd = [open_clients.enter_context(socket.create_connection(place)) for _ in range(6)]
        assert ask(place) == b"page"
        assert is_cut(crowd[0])
        wait_until(
            lambda: threading.active_count() - before <= 1 + 3, "no threads but the server's and of those it serves"
        )


def test_a_full_table_of_descriptors_neither_spins_nor_keeps_it_from_answering_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, pauses = list[None](), list[tuple[int, float]]()

    def paused(seconds: float) -> None:
        pauses.append((len(turns), seconds))
        time.sleep(0.01)

    monkeypatch.setattr(server._Server, "service_actions", lambda _self: turns.append(None))
    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=time.monotonic, sleep=paused))
    with serving() as place:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        clients = [socket.socket() for _ in range(3)]
        # Below the three that every process has open: whatever else closes one meanwhile, none is free.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            for client in clients:
                client.settimeout(5)
                client.connect(place)
            wait_until(lambda: len(pauses) > 5, "turns without a descriptor")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for client in clients:
                client.close()
        assert min(seconds for _, seconds in pauses) > 0.1
        between = [after - before for (before, _), (after, _) in itertools.pairwise(pauses[:5])]
        assert max(between) <= 1, "each turn that finds no descriptor pauses"
        assert ask(place) == b"page"


def test_a_page_is_made_once_a_second_for_all_who_ask_and_a_failure_is_not_kept() -> None:
    now, made = [0.0], []

    def page(accept: str) -> tuple[bytes, str]:
        made.append(accept)
        if accept == "broken":
            raise StoreError("no", hint="")
        return f"{len(made)}".encode(), accept

    fresh = server.fresh(page, clock=lambda: now[0])
    assert [fresh("a"), fresh("a"), fresh("b")] == [(b"1", "a"), (b"1", "a"), (b"2", "b")]
    for _ in range(2):
        with pytest.raises(StoreError):
            fresh("broken")
    assert made == ["a", "b", "broken", "broken"]
    now[0] = 1.0
    assert fresh("a") == (b"5", "a")


def test_a_folder_that_somebody_keeps_locked_is_named_instead_of_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_place, "_ALONE_S", 0.1)
    stranger = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(stranger, fcntl.LOCK_SH)
        with pytest.raises(ExportError) as caught, socket_place.listening(tmp_path / "s.sock"):
            pass
    finally:
        os.close(stranger)
    assert f"locked the folder {tmp_path}" in caught.value.message
    assert not (tmp_path / "s.sock").exists()
