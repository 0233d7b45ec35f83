"""Many hosts through real connections: what is open at once has a bound, and nothing of a host that was read stays."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from tests.unit.core.declarations import declares
from tests.unit.link.conftest import wait_for
from vgpumgr.controller.hosts import fan_out as hosts_at_once
from vgpumgr.controller.hosts.fan_out import Watch, fan_out
from vgpumgr.link.connection import connect
from vgpumgr.link.ssh.client import SshConnection
from vgpumgr.names import HostName
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from tests.unit.link.conftest import Sshd
    from vgpumgr.controller.hosts.fan_out import Outcome
    from vgpumgr.core.inventory import HostDeclaration

pytestmark = pytest.mark.lab

AT_ONCE = 4  # fewer than the product reads at once: the bound is the same law
HOSTS = 3 * AT_ONCE + 4
# Of one host: its worker, paramiko's transport and one call with a limit; a thread that ends overlaps with the next.
THREADS_OF_A_HOST = 4
FILES_OF_A_HOST = 1  # its socket


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> weakref.WeakSet[SshConnection]:
    """Every connection that is still there. gc.get_objects would also hold tuples that other threads are about to fill."""
    there: weakref.WeakSet[SshConnection] = weakref.WeakSet()
    begin = SshConnection.__init__

    def noted(self: SshConnection, *arguments: Any, **named: Any) -> None:
        there.add(self)
        begin(self, *arguments, **named)

    monkeypatch.setattr(SshConnection, "__init__", noted)
    return there


class Peaks:
    """The most threads and files at once, looked at all the time."""

    def __init__(self) -> None:
        self.threads = self.files = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._end.wait(0.003):
            self.threads = max(self.threads, threading.active_count())
            self.files = max(self.files, open_files())


def test_threads_and_files_have_a_bound_and_a_host_that_was_read_leaves_nothing(
    sshd: Sshd, made: weakref.WeakSet[SshConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_at_once, "MAX_WORKERS", AT_ONCE)
    hosts = tuple(replace(declares(), name=HostName(f"kvm{number:03}")) for number in range(HOSTS))
    kept: list[int] = []

    def links() -> int:
        gc.collect()
        return len(made)

    def work(host: HostDeclaration) -> str:
        with connect(replace(sshd.endpoint, host=host.name)) as link:
            return link.observe(wait_s=10).snapshot.boot

    def ended(outcome: Outcome[str]) -> None:
        if int(outcome.host[3:]) % 5 == 0:
            kept.append(links())

    before = threading.active_count()
    assert fan_out(hosts[:1], work, timing=Timing())[0].value  # what the first connection imports and keeps for all
    wait_for(lambda: threading.active_count() <= before, 60)
    assert links() == 0
    threads, files = threading.active_count(), open_files()
    with Peaks() as peaks:
        outcomes = fan_out(hosts, work, watch=Watch(ended=ended), timing=Timing())
    assert [outcome.error for outcome in outcomes] == [None] * HOSTS
    assert AT_ONCE < peaks.threads - threads <= THREADS_OF_A_HOST * AT_ONCE
    assert AT_ONCE / 2 < peaks.files - files <= FILES_OF_A_HOST * AT_ONCE + 4  # and the look itself, known_hosts
    assert max(kept) <= 2 * AT_ONCE  # of HOSTS: a transport that is still ending keeps its connection for a moment
    wait_for(lambda: threading.active_count() <= threads, 60)
    assert links() == 0
    assert open_files() <= files  # fewer where what another test left was collected meanwhile
