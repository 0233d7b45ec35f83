"""Hosts that are opened: which failures are tried once more, and which sessions stay open."""

from __future__ import annotations

import resource
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.model.fleet import Fleet
from vgpumgr import errors
from vgpumgr.controller import environment
from vgpumgr.controller.hosts import locate, session
from vgpumgr.controller.requests import apply_requests
from vgpumgr.core.driver.profiles import ByProfile, parse_profile
from vgpumgr.core.slot.request import SlotRequest
from vgpumgr.host.protocol.gpu import MDEV_VF
from vgpumgr.names import DEFAULT_SLOT
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from tests.model.pool import Pool
    from vgpumgr.controller.context import Context
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.host import Host


DROPPED = errors.Unreachable("kvm01", "banner", "Exceeded MaxStartups")
REFUSED = errors.Unreachable("kvm01", "tcp", "connection refused")
CUT = errors.Unreachable("kvm01", "auth", "the connection was closed")
NO_KEY = errors.AuthenticationFailed("kvm01", "auth", "the host does not take the key")
SILENT = errors.HostDeadline("kvm01", "banner", "no banner within 10 s")


def result(opening: Any, *failures: errors.HostError) -> object:
    """What it comes to where these are the failures of its first tries."""
    left = list(failures)

    def connect(_endpoint: object) -> str:
        if left:
            raise left.pop(0)
        return "link"

    context: Any = SimpleNamespace(connect=connect, timing=Timing(reconnect_s=(0, 0)))
    declaration: Any = SimpleNamespace(endpoint=None)
    try:
        found: object = opening(context, declaration).link
    except errors.HostError as error:
        return error
    return found


@pytest.mark.parametrize(
    ("failures", "once", "patiently"),
    [
        ((), "link", "link"),
        ((DROPPED,), "link", "link"),
        ((DROPPED, DROPPED), DROPPED, DROPPED),
        ((REFUSED,), REFUSED, "link"),
        ((CUT,), CUT, CUT),
        ((NO_KEY,), NO_KEY, NO_KEY),
        ((SILENT,), SILENT, SILENT),
    ],
)
def test_a_dropped_connection_is_made_once_more_and_a_login_never(
    failures: tuple[errors.HostError, ...], once: object, patiently: object
) -> None:
    assert result(session.open_session, *failures) == once
    assert result(session.open_session_patiently, *failures) == patiently


HOSTS = ("kvm01", "kvm02")


class Watched:
    """A fleet's context that knows which links are open."""

    def __init__(self, fleet: Fleet) -> None:
        self.open: list[str] = []
        self.opened: list[str] = []
        context = fleet.context(None, [], by="anna@ctl1")
        self._connect = context.connect
        self.context: Context = replace(context, connect=self._reach)

    def _reach(self, endpoint: Endpoint) -> Host:
        link = self._connect(endpoint)
        close, host = link.close, str(endpoint.host)
        self.open.append(host)
        self.opened.append(host)

        def closing() -> None:
            if host in self.open:
                self.open.remove(host)
            close()

        link.close = closing  # type: ignore[method-assign]
        return link


def fleet_of(pool: Pool) -> Fleet:
    return Fleet.install({host: pool.machine(host, MDEV_VF) for host in HOSTS}, dict.fromkeys(HOSTS, 1))


def undefine(fleet: Fleet, host: str) -> str:
    """A VM with a vGPU goes; only the host's ledger names it."""
    (vm,) = fleet.vms(host)
    assert fleet.attach(host, vm.name, DEFAULT_SLOT, "4Q").word == "done"
    del fleet.machines[host].libvirt.vms[vm.uuid]
    return str(vm.name)


def test_only_the_vms_own_host_stays_open(pool: Pool) -> None:
    watched = Watched(fleet_of(pool))
    found = locate.find_vm(watched.context, "2vm01", None, or_gone=True)
    assert (found.session.declaration.name, watched.open) == ("kvm02", ["kvm02"])
    found.session.link.close()
    with pytest.raises(errors.UnknownVm, match="none of 2 hosts"):
        locate.find_vm(watched.context, "nobody", None)
    with pytest.raises(errors.UnknownVm, match="kvm01 is a host, not a VM"):
        locate.find_vm(watched.context, "kvm01", None)
    assert watched.open == []


def test_a_vm_that_only_a_ledger_names_is_found_and_only_its_host_stays_open(pool: Pool) -> None:
    fleet = fleet_of(pool)
    name = undefine(fleet, "kvm02")
    watched = Watched(fleet)
    found = locate.find_vm(watched.context, name, None, or_gone=True)
    assert (found.gone, found.session.declaration.name, watched.open) == (True, "kvm02", ["kvm02"])
    found.session.link.close()


def test_many_slots_keep_only_the_hosts_of_their_vms_open_and_close_all_in_the_end(pool: Pool) -> None:
    fleet = fleet_of(pool)
    name = undefine(fleet, "kvm01")
    watched = Watched(fleet)
    requests = [SlotRequest(vm="2vm01", wish=ByProfile(profile=parse_profile("4Q"))), SlotRequest(vm=name, wish=None)]
    result = apply_requests(watched.context, requests, check=False)
    assert [slot.outcome for slot in result.slots] == ["done", "done"]
    assert watched.open == []
    assert fleet.machines["kvm01"].ledger() == []


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        environment.raise_file_limit()
        raised, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert raised == (65536 if hard == resource.RLIM_INFINITY else min(hard, 65536))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
