"""Of many hosts only those stay open where the VM is: a process has a limit of open files, and libvirt aborts at it."""

from __future__ import annotations

import resource
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.model.fleet import Fleet
from vgpumgr import errors
from vgpumgr.controller import environment
from vgpumgr.controller.hosts import locate
from vgpumgr.controller.requests import SlotRequest, apply_requests
from vgpumgr.core.driver.profiles import ByProfile, parse_profile
from vgpumgr.host.protocol import MDEV_VF
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from tests.model.pool import Pool
    from vgpumgr.controller.context import Context
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.host import Host

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
