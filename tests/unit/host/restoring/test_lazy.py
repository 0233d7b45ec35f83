"""Lazy vGPUs on the model's hosts: real commands attach them, and libvirt's hook makes and frees them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.model.machine import GPUS
from tests.unit.host.restoring.booting import FRAMEWORKS, HOST, SLOT
from tests.unit.host.restoring.sleeping import VMS, LazyHost
from vgpumgr.core.reconcile.tasks import SetCordon
from vgpumgr.host.files import Root
from vgpumgr.host.ledger.lock import HostLock
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO
from vgpumgr.host.protocol.restored import HOOK_PATH

pytestmark = pytest.mark.usefixtures("pool")

WHOLE = "16Q"


def lazy_host(framework: str, *profiles: str) -> LazyHost:
    host = LazyHost(framework)
    for vm, profile in zip(VMS, profiles, strict=False):
        done = host.attach(vm, profile)
        assert done.word == "done", done.error and (done.error.message, done.error.details)
    return host


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_more_vms_are_defined_than_fit_and_the_one_too_many_is_told_who_is_there(framework: str) -> None:
    host = lazy_host(framework, *[WHOLE] * 4)
    assert host.machine.hardware() == {}
    assert host.fleet.reconcile(check=True).word == "unchanged"
    assert [host.attach(vm, WHOLE).word for vm in VMS] == ["unchanged"] * 4
    started = [vm for vm in VMS if host.start(vm) is None]
    assert len(started) == 2
    late = next(vm for vm in VMS if vm not in started)
    why = host.start(late)
    assert why is not None
    assert "\n" not in why
    assert any(f"{WHOLE} of {vm}" in why for vm in started), why
    assert host.awake == host.running == sorted(started)
    rival = next(vm for vm in started if f"of {vm}" in why)
    host.stop(rival)
    assert host.start(late) is None
    assert host.awake == host.running
    assert host.fleet.reconcile(check=True).word == "unchanged"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_vm_starts_on_another_gpu_if_its_definition_does_not_name_a_function(framework: str) -> None:
    host = lazy_host(framework, *[WHOLE] * 4)
    first = host.machine.ledger()[0]
    twin = next(row for row in host.machine.ledger()[1:] if row["gpu"] == first["gpu"])
    assert host.start(first["vm_name"]) is None
    why = host.start(twin["vm_name"])
    if framework == VENDOR_VFIO:
        assert (
            why
            == f"{twin['type_name']} for slot {SLOT} cannot be made: GPU {first['gpu']} has {first['type_name']} of {first['vm_name']}"
        )
        return
    assert why is None
    assert {row["gpu"] for row in host.machine.ledger() if row["vm_name"] in host.awake} == set(GPUS)
    assert host.fleet.reconcile(check=True).word == "unchanged"
    assert host.attach(twin["vm_name"], WHOLE).word == "unchanged"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_the_hook_left_behind_the_next_night_frees_unless_the_vm_runs_again(framework: str) -> None:
    host = lazy_host(framework, WHOLE, WHOLE)
    for vm in VMS[:2]:
        assert host.start(vm) is None
        host.stop(vm, heard=False)
    assert host.start(VMS[1]) is None
    assert host.awake == list(VMS[:2])
    assert host.fleet.reconcile(check=True).word == "would_change"
    assert host.fleet.reconcile().word == "done"
    assert host.awake == [VMS[1]]


@pytest.mark.parametrize("moment", range(5))
def test_killed_at_any_moment_its_hook_leaves_what_the_next_start_uses(moment: int) -> None:
    host = lazy_host(MDEV_VF, WHOLE)
    host.start_killed(VMS[0], moment)
    assert host.start(VMS[0]) is None
    assert host.awake == host.running == [VMS[0]]


def test_what_somebody_else_made_on_its_function_while_it_was_off_is_not_the_vms() -> None:
    """Also of the same type, in the same boot: nothing tells them apart but the ledger."""
    host = lazy_host(VENDOR_VFIO, "4Q")
    assert host.start(VMS[0]) is None
    host.stop(VMS[0])
    row = host.machine.ledger()[0]
    host.machine.driver.set_vf_type(row["parent"], row["type_id"])
    host.machine.show()
    why = host.start(VMS[0])
    assert why is not None
    assert "vgpumgr did not make it" in why
    assert host.fleet.reconcile().word != "done"
    assert len(host.machine.hardware()) == 1


def test_a_start_takes_no_place_that_is_kept_for_others_and_none_where_nothing_new_is_wanted() -> None:
    host = lazy_host(MDEV_VF, "8Q")
    fleet = host.fleet
    assert fleet.reserve(WHOLE, "spare", HOST).word == "done"
    kept = host.machine.reservations()[0]["gpu"]
    other = next(pci for pci in GPUS if pci != kept)
    fleet.lazy.clear()
    assert fleet.attach(HOST, VMS[1], SLOT, WHOLE).word == "done"  # an eager one, on the other GPU
    why = host.start(VMS[0])
    assert why is not None
    assert "kept for spare" in why
    assert f"of {VMS[1]}" in why
    fleet.detach(HOST, VMS[1])
    fleet.cordon(HOST, SetCordon(gpu_id=other, reason="its fan is broken"))
    why = host.start(VMS[0])
    assert why is not None
    assert "its fan is broken" in why
    fleet.cordon(HOST, SetCordon(gpu_id=other, reason=None))
    assert host.start(VMS[0]) is None


def test_a_hook_that_does_not_get_the_hosts_lock_says_who_has_it() -> None:
    host = lazy_host(MDEV_VF, "4Q")
    lock = HostLock(Root(host.machine.root))
    lock.take("anna@ctl1 attach vm07", 0)
    try:
        why = host.start(VMS[0], heard=False)
    finally:
        lock.give_back()
    assert (
        why == f"nothing was done for {VMS[0]}: the host's lock is held by another run; once that has ended, try again"
    )
    assert host.machine.hardware() == {}


def test_without_the_hook_nothing_is_deferred() -> None:
    host = LazyHost(MDEV_VF)
    (host.machine.root / HOOK_PATH.lstrip("/")).unlink()
    refused = host.attach(VMS[0], "4Q")
    assert refused.word == "RefusedPlan"
    assert refused.error is not None
    assert "vgpumgr host install" in str(refused.error.hint)
    assert host.machine.ledger() == []


@settings(max_examples=dose(3, 300))
@given(
    framework=st.sampled_from(FRAMEWORKS),
    attached=st.lists(st.sampled_from(["4Q", "8Q", WHOLE]), min_size=len(VMS), max_size=len(VMS)),
    moves=st.lists(
        st.tuples(
            st.sampled_from(VMS),
            st.sampled_from(
                ["start", "start", "fail", "save", "stop", "unheard", "killed", "again", "reboot", "night"]
            ),
            st.integers(min_value=0, max_value=9),
        ),
        min_size=4,
        max_size=12,
    ),
)
def test_only_running_vms_have_vgpus_whatever_happens(
    framework: str, attached: list[str], moves: list[tuple[str, str, int]]
) -> None:
    """What a hook left behind that was killed, or not called, the next night frees; nothing else stays."""
    host = lazy_host(framework, *attached)
    for name, move, moment in moves:
        vm = host.vm(name)
        match move:
            case "start" | "fail" if not vm.active:
                before = host.awake
                why = host.start(name, fails=move == "fail")
                assert why is None or "\n" not in why
                assert why is None or [one for one in before if one != name] == host.awake
            case "save" | "stop" | "unheard" if vm.active:
                host.stop(name, save=move == "save", heard=move != "unheard")
            case "killed" if not vm.active:
                host.start_killed(name, moment)
            case "again":
                host.fleet.detach(HOST, name)
                host.attach(name, "4Q")
            case "reboot":
                host.machine.libvirt.lose_running()
                host.fleet.reboot(HOST)
            case "night":
                host.fleet.reconcile()
            case _:
                pass  # it runs already, or not yet
        assert set(host.running) <= set(host.awake)
    assert not set(host.fleet.reconcile().word.split()) & {"failed", "usage", "busy"}
    assert host.awake == host.running
    assert host.fleet.reconcile(check=True).word in ("unchanged", "refused unchanged", "unchanged refused", "refused")
    for name in VMS:
        if host.vm(name).active:
            host.stop(name)
        host.vm(name).image = None
        assert host.fleet.detach(HOST, name).word in ("done", "unchanged")
    assert (host.machine.hardware(), host.machine.ledger()) == ({}, [])
    assert host.machine.broken_promises == []
