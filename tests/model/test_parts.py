"""The parts of the stateful test, looked at alone: that its hosts, its libvirt and its troubles are as they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libvirt
import pytest

from tests.model import promises
from tests.model.fleet import HOSTS, SLOTS, Fleet, vm_uuid
from tests.model.libvirt_double import Libvirt
from tests.model.machine import GPUS
from tests.model.people import PEOPLE
from tests.model.pool import POOL
from tests.model.wiring import Trouble
from vgpumgr.core.model import claims
from vgpumgr.core.model.vgpu import Vf
from vgpumgr.errors import Busy, Unsure
from vgpumgr.host.libvirt.binding import LibvirtError
from vgpumgr.host.protocol import MDEV_PF, MDEV_VF, VENDOR_VFIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.fleet import Outcome
    from tests.model.libvirt_double import Vm

HOST = HOSTS[0]
ELEMENT = f"<vgpumgr vm='{vm_uuid(HOST, '1vm01')}'/>"
HOSTDEV = """<hostdev mode='subsystem' type='mdev' model='vfio-pci'>
<source><address uuid='9e0d0000-0000-4000-8000-00000000000{}'/></source><alias name='{}'/></hostdev>"""


@pytest.fixture(scope="module", autouse=True)
def _machines() -> Iterator[None]:
    with POOL:
        yield


@pytest.fixture(params=[MDEV_PF, MDEV_VF, VENDOR_VFIO])
def fleet(request: pytest.FixtureRequest) -> Fleet:
    machines = {HOSTS[0]: POOL.machine(HOSTS[0], request.param), HOSTS[1]: POOL.machine(HOSTS[1], VENDOR_VFIO)}
    return Fleet.install(machines, {"kvm01": 2, "kvm02": 1})


@pytest.fixture
def vm() -> tuple[Libvirt, Vm]:
    daemon = Libvirt(HOST, version=9_000_000)
    return daemon, daemon.define("1vm01", vm_uuid(HOST, "1vm01"))


def vendor() -> Fleet:
    """A host without mdev, whose first VM has a vGPU."""
    fleet = Fleet.install({HOST: POOL.machine(HOST, VENDOR_VFIO)}, {HOST: 2})
    assert attach(fleet).word == "done"
    return fleet


def attach(fleet: Fleet, vm: str = "1vm01", trouble: Trouble | None = None) -> Outcome:
    return fleet.attach(HOST, vm, SLOTS[0], "4Q", trouble=trouble)


def test_an_attach_is_whole_and_a_detach_takes_all_of_it_back(fleet: Fleet) -> None:
    machine = fleet.machines[HOST]
    assert attach(fleet).word == "done"
    promises.check_attached(machine, vm_uuid(HOST, "1vm01"), SLOTS[0], "4Q")
    assert fleet.detach(HOST, "1vm01").word == "done"
    promises.check_detached(machine, vm_uuid(HOST, "1vm01"), SLOTS[0])
    assert not machine.hardware()


def test_a_controller_can_be_killed_at_each_of_its_calls_and_leaves_no_lock(fleet: Fleet) -> None:
    machine, at, words = fleet.machines[HOST], 0, list[str]()
    while words[-1:] != ["done"]:
        machine.install()
        machine.libvirt.define("1vm01", vm_uuid(HOST, "1vm01"))
        trouble = Trouble(host=HOST, at=at)
        words.append(attach(fleet, trouble=trouble).word)
        assert not machine.is_locked()
        promises.check_always(fleet)
        at += 1
    assert set(words[:-1]) == {"killed"}
    assert 12 < at < 40, "plots.py should know how many calls there are"


def test_a_second_controller_is_locked_out_inside_and_let_in_before(fleet: Fleet) -> None:
    inner: list[Outcome] = []
    early = Trouble(host=HOST, at=0, act=lambda: inner.append(attach(fleet, "1vm02")))
    assert attach(fleet, trouble=early).word == "done"
    late = Trouble(host=HOST, at=2, inside=True, act=lambda: inner.append(fleet.detach(HOST, "1vm02")))
    assert fleet.attach(HOST, "1vm01", SLOTS[1], "4Q", trouble=late).word == "done"
    assert inner[0].word == "done"
    assert isinstance(inner[1].error, Busy)


def test_a_write_that_would_take_a_held_vgpu_is_a_broken_promise(fleet: Fleet) -> None:
    machine = fleet.machines[HOST]
    attach(fleet)
    (vm, _) = fleet.vms(HOST)
    assert fleet.start(HOST, vm)
    (device,) = vm.hostdevs()
    where, text = f"{machine.root}/sys/bus/mdev/devices/{device.source}/remove", b"1\n"
    if isinstance(device.source, Vf):
        where, text = f"{machine.root}/sys/bus/pci/devices/{device.source}/nvidia/current_vgpu_type", b"0\n"
    with pytest.raises(OSError, match="held"):
        machine.write(where, text)
    with pytest.raises(AssertionError, match="was to be taken from 1vm01"):
        promises.check_always(fleet)


def test_a_vgpu_that_nobody_entered_is_a_leak_unless_it_was_made_by_hand(fleet: Fleet) -> None:
    assert fleet.make_by_hand(HOST, 0, 0, 0)
    promises.check_always(fleet)
    fleet.handmade[HOST].clear()
    with pytest.raises(AssertionError, match="a leak"):
        promises.check_always(fleet)


def set_by_hand(fleet: Fleet, host: str, profile: str = "4Q", *, vf: int | None = None) -> None:
    """The host was booted, and a hand set a type on the VF of the one vGPU that was there, or on another of that card."""
    machine = fleet.machines[host]
    (entry,) = promises.truth(machine).entries
    fleet.reboot(host)
    pci, kinds = next((gpu.pci, gpu.board.types) for gpu in machine.gpus() if gpu.uuid == entry.place.gpu)
    kind = next(at for at, kind in enumerate(kinds) if kind.name.endswith(f"-{profile}"))
    assert entry.vf is not None
    assert fleet.make_by_hand(host, GPUS.index(pci), entry.vf if vf is None else entry.vf + vf, kind)


def test_a_vf_set_by_hand_after_a_boot_is_foreign_although_the_ledger_names_it_from_before() -> None:
    fleet = vendor()
    set_by_hand(fleet, HOST)
    promises.check_always(fleet)
    assert isinstance(attach(fleet).error, Unsure)
    assert isinstance(fleet.detach(HOST, "1vm01").error, Unsure)
    promises.check_always(fleet)
    assert len(fleet.handmade[HOST]) == 1


@pytest.mark.parametrize(
    ("profile", "vf", "what", "taken"),
    [
        ("4Q", 0, None, True),
        ("4Q", 1, None, False),
        ("4Q", 0, "clones it", False),
        ("4Q", 0, "drops its hostdevs", False),
        ("4Q", 0, "drops its metadata", False),
        ("8Q", 0, None, False),
    ],
)
def test_a_vf_set_by_hand_is_taken_for_the_lost_one_only_where_claim_and_definition_name_that_very_one(
    profile: str, vf: int, what: str | None, *, taken: bool
) -> None:
    fleet = vendor()
    set_by_hand(fleet, HOST, profile, vf=vf)
    if what is not None:
        PEOPLE[what](fleet, HOST, fleet.vms(HOST)[0])
    assert fleet.lose_ledger(HOST)
    promises.check_always(fleet)
    assert (len(fleet.handmade[HOST]), len(fleet.machines[HOST].orphans)) == ((0, 1) if taken else (1, 0))
    fleet.reconcile(HOST)
    promises.check_always(fleet)
    assert (len(fleet.handmade[HOST]), len(fleet.machines[HOST].orphans)) == ((0, 0) if taken else (1, 0))


@pytest.mark.parametrize("what", sorted(PEOPLE))
def test_what_people_do_leaves_the_promises_standing(fleet: Fleet, what: str) -> None:
    attach(fleet)
    PEOPLE["takes a snapshot"](fleet, HOST, fleet.vms(HOST)[0])
    if what in ("stops it", "saves it"):
        PEOPLE["starts it"](fleet, HOST, fleet.vms(HOST)[0])
    before = {host: machine.libvirt.vms.copy() for host, machine in fleet.machines.items()}, repr(fleet.vms(HOST)[0])
    PEOPLE[what](fleet, HOST, fleet.vms(HOST)[0])
    after = {host: machine.libvirt.vms.copy() for host, machine in fleet.machines.items()}, repr(fleet.vms(HOST)[0])
    assert (after != before) == (what != "reverts it"), "the definition is the snapshot's already"
    promises.check_always(fleet)


def test_our_element_is_put_once_and_may_not_declare_its_namespace(vm: tuple[Libvirt, Vm]) -> None:
    daemon, domain = vm
    for _ in range(2):
        daemon.set_metadata(domain.uuid, ELEMENT, key=claims.KEY, uri=claims.NAMESPACE)
    assert domain.inactive.count("v:vgpumgr ") == 1
    with pytest.raises(LibvirtError, match="namespace"):
        daemon.set_metadata(domain.uuid, "<vgpumgr xmlns='urn:x'/>", key=claims.KEY, uri=claims.NAMESPACE)
    daemon.set_metadata(domain.uuid, None, key=claims.KEY, uri=claims.NAMESPACE)
    assert "vgpumgr" not in domain.inactive.replace(claims.NAMESPACE, "")


def test_libvirt_drops_a_strange_alias_and_refuses_an_equal_one(vm: tuple[Libvirt, Vm]) -> None:
    daemon, domain = vm
    daemon.attach_device(domain.uuid, HOSTDEV.format(1, "ua-vgpu0"))
    daemon.attach_device(domain.uuid, HOSTDEV.format(2, "strange"))
    assert [device.alias for device in domain.hostdevs()] == ["ua-vgpu0", None]
    with pytest.raises(LibvirtError, match="alias"):
        daemon.attach_device(domain.uuid, HOSTDEV.format(3, "ua-vgpu0"))


def test_libvirt_takes_a_device_out_by_what_it_names(vm: tuple[Libvirt, Vm]) -> None:
    daemon, domain = vm
    daemon.attach_device(domain.uuid, HOSTDEV.format(1, "ua-vgpu0"))
    daemon.detach_device(domain.uuid, HOSTDEV.format(1, "ua-other"))
    assert not domain.hostdevs()
    with pytest.raises(LibvirtError) as refused:
        daemon.detach_device(domain.uuid, HOSTDEV.format(1, "ua-vgpu0"))
    assert refused.value.code == libvirt.VIR_ERR_DEVICE_MISSING
