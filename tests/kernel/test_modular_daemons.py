"""A host of modular daemons, as RHEL 9 has them: the product against virtqemud, which comes and goes as clients do."""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.controllers import wait_until
from tests.kernel import cases, seen
from vgpumgr.core.model import claims
from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.link import connection
from vgpumgr.link.domain_query import DOMAINS
from vgpumgr.link.program import bootstrap
from vgpumgr.names import HostName
from vgpumgr.timing import Deadlines, Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kernel.vm import Vm
    from vgpumgr.link.connection import HostLink

pytestmark = pytest.mark.kernel

_ADMIN = "virt-admin -c virtqemud:///system"
_IDLE_S = 3  # in place of the 120 s of RHEL's hosts
_WAIT_S = 300.0
# QEMU has the vGPU open all the same, and the guest's BIOS, emulated twice over, does not take the host half a minute.
_START = "virsh start --paused"


def daemon(vm: Vm) -> int | None:
    """The pid of virtqemud where it runs just now; libvirtd does not."""
    running = [line.split() for line in vm.must("pgrep -l -x 'virtqemud|libvirtd' || true").splitlines()]
    assert {name for _, name in running} <= {"virtqemud"}
    return int(running[0][0]) if running else None


def who_spoke(vm: Vm) -> set[str]:
    """Which of the two have said anything since the boot: whichever is asked for guests misses /dev/kvm here, aloud."""
    names = ("virtqemud", "libvirtd")
    return {name for name in names if vm.must(f"journalctl --quiet --lines=1 _COMM={name}").strip()}


def clients(vm: Vm) -> list[str]:
    """The programs that virtqemud has a connection of, as it says itself."""
    rows = vm.must(f"{_ADMIN} client-list virtqemud").splitlines()[2:]
    numbers = [row.split()[0] for row in rows if row.strip()]
    told = [vm.must(f"{_ADMIN} client-info virtqemud {number}") for number in numbers]
    pids = [match[1] for one in told if (match := re.search(r"unix_process_id *: *(\d+)", one))]
    return [vm.must(f"tr '\\0' ' ' </proc/{pid}/cmdline").strip() for pid in pids]


@contextlib.contextmanager
def idle_after(vm: Vm, seconds: int) -> Iterator[None]:
    """virtqemud ends after so many seconds without a client or a guest, as its service says it by `--timeout`."""
    vm.must(
        f"echo 'VIRTQEMUD_ARGS=\"--timeout {seconds}\"' >/etc/default/virtqemud; systemctl restart virtqemud.service"
    )
    try:
        yield
    finally:
        vm.must("rm /etc/default/virtqemud; systemctl restart virtqemud.service")


@contextlib.contextmanager
def session(vm: Vm) -> Iterator[HostLink]:
    """The program's own connection to the host, held open."""
    endpoint = Endpoint(
        host=HostName("kvm01"),
        address="127.0.0.1",
        port=vm.port,
        user="root",
        key_file=str(vm.folder / "key"),
        known_hosts=str(vm.folder / "known_hosts"),
    )
    with connection.connect(endpoint, timing=Timing(deadlines=Deadlines())) as link:
        link.names()
        yield link


def test_this_host_has_virtqemud_of_the_very_libvirt_that_debian_ships(
    modular_vm: Vm, note_versions: Callable[[Vm], None]
) -> None:
    vm = modular_vm
    note_versions(vm)
    installed = vm.must("dpkg-query -W -f '${source:Version}' libvirt0")
    assert vm.must("virtqemud --version").split()[-1] == installed.rpartition("-")[0]
    assert daemon(vm) is not None
    sockets = vm.must("ls /run/libvirt").split()
    assert "virtqemud-sock" in sockets
    assert "libvirt-sock" not in sockets
    assert (
        vm.must("systemctl show --value --property=LoadState libvirtd.service libvirtd.socket").split()
        == ["masked"] * 2
    )
    assert f"package: {installed}" in vm.must("journalctl --quiet --output=cat --unit=virtqemud.service")


def test_a_vgpus_whole_life_goes_through_virtqemud(modular_vm: Vm) -> None:
    """Of a VF here; of mdevs in the tests below."""
    vm, case = modular_vm, cases.VENDOR
    vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
    row = seen.row_of(vm, case.guest)
    device = case.device(row)
    assert (row["state"], row["gpu"], row["type_name"]) == ("bound", case.gpu, case.profile)
    assert seen.hardware(vm) == {device: (row["vf"] or case.gpu, case.type_id)}
    group = seen.group(vm, device)
    vm.must(_START, case.guest)
    running = seen.open_vfio(vm, case.guest)
    assert group in running
    assert (seen.row_of(vm, case.guest)["state"], seen.row_of(vm, case.guest)["holder"]) == ("in_use", case.guest)
    there = seen.kept(vm)
    refused = vgpumgr(vm, "detach", case.guest, "--yes", "-o", "json", code=5)
    assert case.guest in refused.error["message"]
    assert seen.kept(vm) == there
    assert seen.open_vfio(vm, case.guest) == running
    vm.must("virsh destroy", case.guest)
    vgpumgr(vm, "detach", case.guest, "--yes")
    assert (seen.hardware(vm), seen.ledger(vm)) == ({}, [])
    assert "hostdev" not in seen.definition(vm, case.guest)
    assert daemon(vm) is not None
    assert who_spoke(vm) == {"virtqemud"}


def test_a_sessions_only_client_of_virtqemud_is_the_host_program(modular_vm: Vm) -> None:
    """For reading and for changes; nothing else need be there, virt-ssh-helper least of all."""
    with session(modular_vm) as link:
        ((_, vm), *_) = link.names()
        link.lock(by="me", wait_s=10)
        link.set_metadata(vm, None, key="v", uri=claims.NAMESPACE)
        (client,) = clients(modular_vm)
        assert f" -c {bootstrap.LOADER[:16]}" in client


def test_a_virtqemud_that_has_ended_for_idleness_is_started_by_the_next_command(modular_vm: Vm) -> None:
    vm, case = modular_vm, cases.PF
    with idle_after(vm, _IDLE_S):
        vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
        first = daemon(vm)
        wait_until(lambda: daemon(vm) is None, "virtqemud ends for idleness", _WAIT_S)
        assert seen.row_of(vm, case.guest)["state"] == "bound"
        assert daemon(vm) not in {None, first}
        wait_until(lambda: daemon(vm) is None, "virtqemud ends again", _WAIT_S)
        vgpumgr(vm, "detach", case.guest, "--yes")
        assert seen.hardware(vm) == {}


def test_a_session_outlives_the_time_after_which_virtqemud_would_end(modular_vm: Vm) -> None:
    vm = modular_vm
    with idle_after(vm, _IDLE_S):
        with session(vm) as link:
            before = daemon(vm)
            names = [domain.name for domain in link.domains(DOMAINS).domains]
            time.sleep(_IDLE_S * 3)
            assert [domain.name for domain in link.domains(DOMAINS).domains] == names
            assert daemon(vm) == before is not None
        wait_until(lambda: daemon(vm) is None, "virtqemud ends once the session has", _WAIT_S)


def test_a_guest_keeps_its_vgpu_while_no_client_is_there_and_while_virtqemud_is_restarted(modular_vm: Vm) -> None:
    vm, case = modular_vm, cases.VF
    with idle_after(vm, _IDLE_S):
        vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
        vm.must(_START, case.guest)
        before, running = daemon(vm), seen.open_vfio(vm, case.guest)
        assert seen.group(vm, *seen.hardware(vm)) in running
        time.sleep(_IDLE_S * 3)
        assert daemon(vm) == before is not None
        vm.must("systemctl restart virtqemud.service")
        assert daemon(vm) not in {None, before}
        assert seen.open_vfio(vm, case.guest) == running
        assert (seen.row_of(vm, case.guest)["state"], seen.row_of(vm, case.guest)["holder"]) == ("in_use", case.guest)
        vgpumgr(vm, "detach", case.guest, "--yes", code=5)
        assert len(seen.hardware(vm)) == 1


def test_where_virtqemud_is_turned_off_the_hint_says_what_turns_it_on(modular_vm: Vm) -> None:
    vm = modular_vm
    vm.must("systemctl stop virtqemud.socket virtqemud-ro.socket virtqemud-admin.socket virtqemud.service")
    try:
        error = vgpumgr(vm, "show", "vm01", "-o", "json", code=4).error
        command = "systemctl start virtqemud.socket"
        assert command in error["hint"]
        vm.must(command)
        vgpumgr(vm, "show", "vm01")
    finally:
        vm.must("systemctl start virtqemud.socket virtqemud-ro.socket virtqemud-admin.socket")
    assert daemon(vm) is not None
