"""Changes of domains by the host program: a real libvirtd behind a real sshd."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING

import pytest

from tests.unit.link.conftest import wait_for
from tests.unit.link.real_libvirt import CLAIM, HOSTDEV, KEY, MDEV, URI, define, virsh, vm_uuid
from vgpumgr import errors
from vgpumgr.link import connection
from vgpumgr.link.domain_query import DOMAINS, DOMAINS_AND_SAVED, DomainQuery
from vgpumgr.timing import Deadlines, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.unit.link.conftest import Sshd
    from vgpumgr.link.connection import HostLink

    Begin = Callable[[str], subprocess.Popen[bytes]]

pytestmark = pytest.mark.lab


def locked(sshd: Sshd, deadlines: Deadlines | None = None) -> HostLink:
    link = connection.connect(sshd.endpoint, timing=Timing(deadlines=deadlines or Deadlines()))
    link.program.lock(by="me", wait_s=5)
    return link


def write(link: HostLink, number: int = 1) -> None:
    link.set_metadata(vm_uuid(number), CLAIM, key=KEY, uri=URI)


@pytest.mark.usefixtures("libvirtd")
def test_claims_and_devices_go_in_and_out_of_the_persistent_definition(sshd: Sshd) -> None:
    define(sshd, 1)
    with locked(sshd) as link:
        found = link.domains(DOMAINS)
        assert found.version >= 9_000_000
        (before,) = found.domains
        assert (before.name, before.uuid, before.active, before.persistent) == ("vm01", vm_uuid(1), False, True)
        assert before.live_xml is None
        assert not before.managed_save
        write(link)
        link.attach_device(vm_uuid(1), HOSTDEV)
        (changed,) = link.domains(DomainQuery(only=(vm_uuid(1),))).domains
        assert changed.inactive_xml is not None
        assert 'generation="1"' in changed.inactive_xml
        assert MDEV in changed.inactive_xml
        assert "ua-vgpu0" in changed.inactive_xml
        link.detach_device(vm_uuid(1), HOSTDEV)
        link.set_metadata(vm_uuid(1), None, key=KEY, uri=URI)
        link.set_metadata(vm_uuid(1), None, key=KEY, uri=URI)  # what is gone may be taken out again
        (after,) = link.domains(DomainQuery(only=(vm_uuid(1),))).domains
        assert after.inactive_xml is not None
        assert MDEV not in after.inactive_xml
        assert URI not in after.inactive_xml
        assert link.domains(DOMAINS_AND_SAVED).saved == ()
    assert "passwd='secret1'" in virsh(sshd, "dumpxml", "--security-info", "--inactive", "vm01")


@pytest.mark.usefixtures("libvirtd")
def test_without_the_lock_no_definition_is_changed(sshd: Sshd) -> None:
    define(sshd, 1)
    before = virsh(sshd, "dumpxml", "--inactive", "vm01")
    with connection.connect(sshd.endpoint) as link:
        for _ in range(2):
            with pytest.raises(errors.LeaseLost):
                write(link)
            with pytest.raises(errors.LeaseLost):
                link.attach_device(vm_uuid(1), HOSTDEV)
            link.program.lock(by="me", wait_s=5)
            link.program.unlock([])
    assert virsh(sshd, "dumpxml", "--inactive", "vm01") == before


@pytest.mark.usefixtures("libvirtd")
def test_a_vm_that_is_gone_is_none_when_read_and_an_error_when_written(sshd: Sshd) -> None:
    with locked(sshd) as link:
        assert link.domains(DomainQuery(only=(vm_uuid(9),))).domains == ()
        with pytest.raises(errors.HypervisorError, match="write the claim: Domain not found") as caught:
            write(link, 9)
        assert caught.value.code == 42
        assert "run the same command again" in str(caught.value.hint)
        assert link.domains(DOMAINS).domains == ()


@pytest.mark.usefixtures("libvirtd")
def test_what_libvirt_refuses_carries_its_code_and_leaves_the_connection_usable(sshd: Sshd) -> None:
    define(sshd, 1)
    with locked(sshd) as link:
        with pytest.raises(errors.HypervisorError, match="attach the device: ") as caught:
            link.attach_device(vm_uuid(1), "<nonsense/>")
        assert caught.value.code > 0
        with pytest.raises(errors.HypervisorError, match="detach the device: "):
            link.detach_device(vm_uuid(1), HOSTDEV)
        write(link)


@pytest.mark.usefixtures("libvirtd")
def test_a_large_claim_arrives_whole(sshd: Sshd) -> None:
    text = "x" * 500_000
    define(sshd, 1)
    with locked(sshd) as link:
        link.set_metadata(vm_uuid(1), f"<vgpumgr text='{text}'/>", key=KEY, uri=URI)
        (found,) = link.domains(DOMAINS).domains
        assert found.inactive_xml is not None
        assert text in found.inactive_xml


def test_a_libvirtd_that_hangs_ends_at_the_deadline_and_keeps_no_link_open(
    sshd: Sshd, libvirtd: subprocess.Popen[bytes], quick: Deadlines
) -> None:
    define(sshd, 1)
    with locked(sshd, quick) as link:
        write(link)
        libvirtd.send_signal(signal.SIGSTOP)
        with pytest.raises(errors.HostDeadline) as caught:
            write(link)
        assert caught.value.stage == "libvirt"
        assert "busy" in str(caught.value.hint)
        with pytest.raises(errors.HostDeadline):
            write(link)
        link.program.ping()


def test_a_libvirtd_that_dies_under_a_call_is_unreachable_and_a_new_one_is_used(
    sshd: Sshd, libvirtd: subprocess.Popen[bytes]
) -> None:
    define(sshd, 1)
    with locked(sshd) as link:
        write(link)
        libvirtd.send_signal(signal.SIGSTOP)
        threading.Timer(0.3, lambda: libvirtd.send_signal(signal.SIGKILL)).start()
        with pytest.raises(errors.Unreachable) as caught:
            write(link)
        assert caught.value.stage == "libvirt"
        link.program.ping()
        libvirtd.wait(10)
        subprocess.run([*sshd.inside, "rm", "/run/libvirt/libvirt-sock"], check=True)
        sshd.start_libvirtd()
        write(link)


@pytest.mark.usefixtures("libvirtd")
def test_a_connection_that_is_cut_ends_the_calls(sshd: Sshd) -> None:
    define(sshd, 1)
    with locked(sshd) as link:
        for pid in sshd.sessions():
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(errors.HostError) as caught:
            write(link)
        assert caught.value.exit_code in (4, 6)


@pytest.mark.usefixtures("libvirtd")
def test_several_threads_may_ask_at_once(sshd: Sshd) -> None:
    define(sshd, 1, 2, 3)
    with locked(sshd) as link:
        threads = [threading.Thread(target=write, args=(link, number % 3 + 1)) for number in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(30)
        found = link.domains(DOMAINS).domains
    assert [URI in str(one.inactive_xml) for one in found] == [True] * 3


@pytest.mark.usefixtures("libvirtd")
def test_nothing_is_left_of_a_link_neither_threads_nor_files(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = set(threading.enumerate())
    define(sshd, 1)
    with locked(sshd) as link:
        write(link)
        assert not list(temporary.iterdir())
    wait_for(lambda: set(threading.enumerate()) <= before, 5, lambda: str(threading.enumerate()))


LIVE = """
import sys, threading
from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.link import connection
from vgpumgr.timing import Deadlines, Timing
address, port, key, known, how = sys.argv[1:]
endpoint = Endpoint(host="kvm01", address=address, port=int(port), user="root", key_file=key, known_hosts=known)
link = connection.connect(endpoint, timing=Timing(deadlines=Deadlines(libvirt=60)))
link.program.lock(by="me", wait_s=1)
print(link.program.hello["pid"], flush=True)
sys.stdin.readline()
if how == "call":
    def report():
        while not any(one.name == "vgpumgr-request" for one in threading.enumerate()):
            pass
        print("calling", flush=True)
    threading.Thread(target=report, daemon=True).start()
    with link:
        link.set_metadata("6a1f0000-0000-0000-0000-000000000001", None, key="v", uri="urn:x")
"""


@pytest.fixture
def begin(sshd: Sshd) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Start a controller in a process of its own, which opens a link and goes on after a line."""
    own: list[subprocess.Popen[bytes]] = []

    def start(how: str) -> subprocess.Popen[bytes]:
        reach = sshd.endpoint
        argv = [sys.executable, "-c", LIVE, reach.address, str(reach.port), str(reach.key_file), reach.known_hosts, how]
        pipe = subprocess.PIPE
        running = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe)
        own.append(running)
        assert running.stdout is not None
        assert running.stdout.readline().strip().isdigit()
        return running

    yield start
    for one in own:
        one.kill()
        one.communicate()


def end(running: subprocess.Popen[bytes], timeout_s: float) -> tuple[int, str]:
    _, err = running.communicate(b"\n", timeout=timeout_s)
    return running.returncode, err.decode()


@pytest.mark.usefixtures("libvirtd")
def test_an_interpreter_that_ends_without_closing_does_not_hang(begin: Begin) -> None:
    status, err = end(begin("exit"), 60)
    assert status == 0, err


def test_nor_does_it_when_the_host_was_stopped(sshd: Sshd, libvirtd: subprocess.Popen[bytes], begin: Begin) -> None:
    running = begin("exit")
    for pid in [*sshd.sessions(), libvirtd.pid]:
        os.kill(pid, signal.SIGSTOP)
    assert end(running, 60)[0] == 0


def test_an_interrupt_in_a_libvirt_call_ends_the_process_at_once(
    sshd: Sshd, libvirtd: subprocess.Popen[bytes], begin: Begin
) -> None:
    running = begin("call")
    for pid in [*sshd.sessions(), libvirtd.pid]:
        os.kill(pid, signal.SIGSTOP)
    assert running.stdin is not None
    assert running.stdout is not None
    running.stdin.write(b"\n")
    running.stdin.flush()
    assert running.stdout.readline() == b"calling\n"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert b"KeyboardInterrupt" in err
    assert running.returncode == -signal.SIGINT
