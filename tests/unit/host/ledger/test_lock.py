"""The host's lock, between real processes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.host.fakehost import VENDOR, Asker, FakeHost, make_step, no_nvml
from vgpumgr.host.files import Root
from vgpumgr.host.ledger.lock import HostLock, sanitise
from vgpumgr.host.libvirt.service import Libvirt
from vgpumgr.host.program import Channel, serve
from vgpumgr.host.server import Server
from vgpumgr.link.program import refusals
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.host.conftest import Program
    from vgpumgr.host.protocol.libvirt import LibvirtFact, LibvirtQuery


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost.build(tmp_path, VENDOR)


def show_processes(host: FakeHost, *programs: Program) -> None:
    for program in programs:
        host.path(f"/proc/{program.process.pid}").symlink_to(f"/proc/{program.process.pid}")


def test_one_holds_it_and_the_other_is_told_who(host: FakeHost, run_program: Callable[..., Program]) -> None:
    owner, other = run_program(host.root), run_program(host.root)
    assert "ok" in owner.ask("lock", by="anna@ctl1 attach vm01", wait_s=0)
    show_processes(host, owner, other)
    answer = other.ask("lock", by="ben", wait_s=0.1)
    assert answer["err"]["kind"] == "Locked"
    assert answer["err"]["owner"] == "anna@ctl1 attach vm01"


def test_an_owner_that_proc_does_not_show_is_null(host: FakeHost, run_program: Callable[..., Program]) -> None:
    owner, other = run_program(host.root), run_program(host.root)
    owner.ask("lock", by="anna", wait_s=0)
    assert other.ask("observe", wait_s=0)["err"] == {
        "kind": "Locked",
        "message": "the host's lock is held by another run",
        "owner": None,
    }


class Waits(Libvirt):
    """A libvirt that answers once its hook has had the host's lock, as where a VM with a lazy vGPU starts."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = Root(root)

    def begin_reading(self, query: LibvirtQuery) -> Callable[[], LibvirtFact]:
        def finish() -> LibvirtFact:
            lock = HostLock(self._root)
            lock.take("libvirt's hook", 0)  # raises Refusal(Locked)
            lock.give_back()
            return {"read": query}  # type: ignore[typeddict-item,typeddict-unknown-key]

        return finish


def test_who_only_looks_waits_for_libvirt_without_the_lock_that_its_hook_waits_for(host: FakeHost) -> None:
    asker = Asker(Server(host.root, nvml=no_nvml, libvirt=Waits(host.root)).answer)
    query = {"names": True, "domains": True, "only": None, "saved": False, "wait_s": 1}
    answer = asker.ask("observe", wait_s=0, libvirt=query)
    assert answer["ok"]["libvirt"] == {"read": query}, answer


def test_the_owner_of_another_hosts_lock_is_not_named(
    host: FakeHost, tmp_path_factory: pytest.TempPathFactory, run_program: Callable[..., Program]
) -> None:
    elsewhere = FakeHost.build(tmp_path_factory.mktemp("elsewhere"), VENDOR)
    owner, stranger, other = run_program(host.root), run_program(elsewhere.root), run_program(host.root)
    owner.ask("lock", by="anna", wait_s=0)
    stranger.ask("lock", by="stranger", wait_s=0)
    show_processes(host, stranger)
    assert other.ask("lock", by="ben", wait_s=0)["err"]["owner"] is None


def test_a_waiter_gets_it_when_the_owner_is_killed(host: FakeHost, run_program: Callable[..., Program]) -> None:
    owner, other = run_program(host.root), run_program(host.root)
    owner.ask("lock", by="anna", wait_s=0)
    other.request("lock", by="ben", wait_s=20)
    owner.process.kill()
    assert b'"ok"' in other.read_line()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE])
def test_a_signal_ends_it_at_once_and_the_lock_is_free(
    host: FakeHost, run_program: Callable[..., Program], number: signal.Signals
) -> None:
    owner = run_program(host.root)
    owner.ask("lock", by="anna", wait_s=0)
    owner.process.send_signal(number)
    owner.wait()
    assert "ok" in run_program(host.root).ask("lock", by="ben", wait_s=0)


def test_a_controller_that_hung_up_while_it_queued_never_gets_it(
    host: FakeHost, run_program: Callable[..., Program]
) -> None:
    owner, other = run_program(host.root), run_program(host.root)
    owner.ask("lock", by="anna", wait_s=0)
    other.request("lock", by="ben", wait_s=60)
    other.hang_up()
    assert other.wait() == 0
    assert other.read_line() == b""
    assert "ok" in owner.ask("ping")


def test_readers_do_not_keep_each_other_out_but_a_reader_waits_for_the_owner(
    host: FakeHost, run_program: Callable[..., Program]
) -> None:
    owner, reader = run_program(host.root), run_program(host.root)
    assert "ok" in reader.ask("observe", wait_s=0)
    owner.ask("lock", by="anna", wait_s=0)
    assert reader.ask("observe", wait_s=0.05)["err"]["kind"] == "Locked"
    owner.ask("unlock", gpu_uuids=[])
    assert "ok" in reader.ask("observe", wait_s=0)


def test_its_owner_observes_under_it_at_once_though_another_waits_and_keeps_it(
    host: FakeHost, run_program: Callable[..., Program]
) -> None:
    """A run that changes many things looks again in its middle; a queue of others must not come between."""
    owner, other = run_program(host.root), run_program(host.root)
    owner.ask("lock", by="anna", wait_s=0)
    other.request("lock", by="ben", wait_s=20)
    for _ in range(3):
        assert owner.ask("observe", wait_s=0)["ok"]["hostname"] == "kvm01"
    assert "ok" in owner.ask("execute", step=make_step(VENDOR), deadline_s=10)
    assert owner.ask("observe", wait_s=0)["ok"]["ledger"][0]["state"] == "made"
    assert "ok" in owner.ask("unlock", gpu_uuids=[])
    assert json.loads(other.read_line())["ok"]["ledger"][0]["state"] == "made"
    assert owner.ask("observe", wait_s=0)["err"]["kind"] == "Locked"


@pytest.mark.parametrize("full", [False, True], ids=["silent", "full-pipe"])
def test_the_lease_ends_the_program_and_gives_the_lock_back(
    host: FakeHost, run_program: Callable[..., Program], full: bool
) -> None:
    """Also where the controller that stands still no longer reads, so that no answer can be delivered."""
    owner = run_program(host.root, "--lease", 0.3)
    owner.ask("lock", by="anna", wait_s=0)
    with suppress(BrokenPipeError):  # it may be gone before all is said
        for _ in range(200 if full else 0):
            owner.request("lock", by="anna", wait_s=0)
    assert owner.wait() == 3
    assert "ok" in run_program(host.root).ask("lock", by="ben", wait_s=0)


def test_a_lock_that_somebody_without_a_name_holds_is_told_with_the_mode_that_lets_him(
    host: FakeHost, run_program: Callable[..., Program]
) -> None:
    folder = host.path("/root")
    folder.chmod(0o755)
    stranger = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(stranger, fcntl.LOCK_SH)
        error = run_program(host.root).ask("lock", by="anna", wait_s=0)["err"]
    finally:
        os.close(stranger)
    assert (error["owner"], error["mode"]) == (None, "0755")
    told = str(refusals.translate(HostName("kvm01"), error))
    assert "/root has mode 0755 there" in told


class Listener(Channel):
    """A channel of these requests, which keeps for how long each was waited for: None is without end."""

    def __init__(self, *requests: bytes) -> None:
        self.waited: list[float | None] = []
        self._requests = iter(requests)

    def receive(self, within_s: float | None) -> bytes | None:
        self.waited.append(within_s)
        return next(self._requests, None)

    def send(self, line: bytes, within_s: float) -> None: ...


def test_a_ping_renews_the_lease_and_without_the_lock_there_is_none(host: FakeHost) -> None:
    lock, ping, unlock = (
        b'{"id":1,"do":"lock","by":"anna","wait_s":0}',
        b'{"id":2,"do":"ping"}',
        b'{"id":3,"do":"unlock","gpu_uuids":[]}',
    )
    channel = Listener(ping, lock, ping, ping, unlock, ping)
    assert serve(lambda: Server(host.root, nvml=no_nvml), channel, lease_s=30, root=Root(host.root)) == 0
    assert channel.waited == [None, None, 30, 30, 30, None, None]


@given(st.text())
def test_any_owner_makes_a_name_that_the_kernel_takes(by: str) -> None:
    name = sanitise(by)
    assert len(name.encode()) <= 200
    os.close(os.memfd_create("vgpumgr-lock:" + name))
