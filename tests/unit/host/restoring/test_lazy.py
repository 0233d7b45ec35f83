"""Lazy vGPUs on the model's hosts: real commands attach them, and libvirt's hook makes and frees them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.model.machine import GPUS, TYPES
from tests.unit.host.restoring.booting import FRAMEWORKS, HOST, SLOT
from tests.unit.host.restoring.sleeping import VMS, LazyHost
from vgpumgr.controller.drain import DrainOptions
from vgpumgr.controller.results import DrainResult, FleetResult
from vgpumgr.core.reconcile.tasks import SetCordon
from vgpumgr.host.files import Root
from vgpumgr.host.ledger.lock import HostLock
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO
from vgpumgr.host.protocol.restored import HOOK_PATH
from vgpumgr.host.protocol.session import TOOL_REFUSED
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.steps.executor import Executor
from vgpumgr.lab.driver.upgrade import Upgrade

if TYPE_CHECKING:
    from tests.model.fleet import Outcome
    from vgpumgr.core.reconcile.draining import DrainRow
    from vgpumgr.errors import VgpumgrError

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


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_draining_a_gpu_gives_a_lazy_vgpu_its_place_on_another_where_its_vm_starts(framework: str) -> None:
    """It stays lazy, whatever new ones are to be by now; and while its VM is off it is in nobody's way."""
    host = lazy_host(framework, "4Q", WHOLE)
    (first, second) = host.machine.ledger()
    assert first["gpu"] != second["gpu"]
    host.fleet.lazy.clear()
    options = DrainOptions(host=HOST, gpu_id=first["gpu"], reason="ECC errors")
    (would,) = drained(host, options, check=True)
    assert (would.vm, would.next) == (VMS[0], "moves")
    assert drained(host, options) == ()
    assert {row["gpu"] for row in host.machine.ledger()} == {second["gpu"]}
    assert host.machine.hardware() == {}
    assert host.start(VMS[0]) is None
    host.stop(VMS[0])
    assert host.machine.hardware() == {}


def test_a_lazy_vgpu_without_another_place_is_not_in_the_way_either() -> None:
    host = lazy_host(MDEV_VF, "4Q")
    (entry,) = host.machine.ledger()
    host.fleet.cordon(HOST, SetCordon(gpu_id=next(pci for pci in GPUS if pci != entry["gpu"]), reason="ECC errors"))
    (row,) = drained(host, DrainOptions(host=HOST, gpu_id=entry["gpu"], reason="its fan is broken"))
    assert (row.state, row.next) == ("lazy", "stays")
    assert "no other place for it: GPU " in row.why
    (row,) = drained(host, DrainOptions(host=HOST, gpu_id=None, reason="kernel update"))
    assert (row.next, row.why) == (
        "stays",
        f"lazy: it is made when {VMS[0]} starts, and not while the host is cordoned",
    )


def drained(host: LazyHost, options: DrainOptions, *, check: bool = False) -> tuple[DrainRow, ...]:
    """What is still there of a host or GPU that is drained: nothing is in the way."""
    result = host.fleet.drain(options, check=check).result
    assert isinstance(result, DrainResult)
    assert result.error is None
    return result.rows


def on_second(host: LazyHost, vm: str) -> None:
    """Attach a 4Q on the second GPU."""
    first = SetCordon(gpu_id=GPUS[0], reason="for a moment")
    host.fleet.cordon(HOST, first)
    assert host.attach(vm, "4Q").word == "done"
    host.fleet.cordon(HOST, replace(first, reason=None))


def test_what_moves_to_make_room_stays_as_it_was_on_a_host_that_has_become_lazy() -> None:
    host = LazyHost(MDEV_VF)
    host.fleet.lazy.clear()
    assert host.attach(VMS[0], "4Q").word == "done"
    on_second(host, VMS[1])
    host.fleet.lazy.add(HOST)
    assert host.fleet.defrag(WHOLE, HOST).word == "done"
    assert host.awake == [VMS[0], VMS[1]]
    assert len({row["gpu"] for row in host.machine.ledger()}) == 1


@pytest.mark.parametrize("lazy", [True, False])
def test_what_another_kernel_makes_again_is_lazy_if_it_was(*, lazy: bool) -> None:
    host = LazyHost(MDEV_VF)
    for now in (lazy, not lazy):
        (host.fleet.lazy.add if now else host.fleet.lazy.discard)(HOST)
        assert host.attach(VMS[0], "4Q").word in ("done", "unchanged")
    host.fleet.reboot(HOST, Upgrade(framework=VENDOR_VFIO))
    assert host.fleet.migrate_framework(HOST).word == "done"
    assert host.awake == ([] if lazy else [VMS[0]])
    assert host.start(VMS[0]) is None
    host.stop(VMS[0])
    assert host.awake == ([] if lazy else [VMS[0]])


def test_no_lazy_vgpu_moves_to_make_room_and_one_that_is_not_there_takes_none() -> None:
    """What the hook has left behind is reconcile's to free."""
    host = LazyHost(VENDOR_VFIO)
    host.fleet.lazy.clear()
    assert host.attach(VMS[0], "4Q").word == "done"
    assert host.fleet.start(HOST, host.vm(VMS[0]))
    host.fleet.lazy.add(HOST)
    on_second(host, VMS[1])
    assert host.start(VMS[1]) is None
    host.stop(VMS[1], heard=False)
    before = host.machine.ledger()
    (refused,) = problems(host.fleet.defrag(WHOLE, HOST))
    assert "0 vGPUs of shut-off VMs could move; what runs, is lazy, cordoned or foreign stays" in refused.details
    assert host.machine.ledger() == before
    assert host.fleet.reconcile().word == "done"
    assert host.fleet.defrag(WHOLE, HOST).word == "unchanged"


def problems(outcome: Outcome) -> tuple[VgpumgrError, ...]:
    assert isinstance(outcome.result, FleetResult)
    return tuple(outcome.result.problems)


def test_a_lost_ledger_makes_eager_what_runs_and_leaves_lazy_what_sleeps() -> None:
    """No claim says that its vGPU is lazy (docs/lazy.md)."""
    host = lazy_host(MDEV_VF, "4Q", "4Q")
    assert host.start(VMS[0]) is None
    assert host.fleet.lose_ledger(HOST)
    assert host.fleet.reconcile().word == "done"
    assert [(row["vm_name"], "lazy" in row) for row in host.machine.ledger()] == [(VMS[0], False), (VMS[1], True)]
    host.stop(VMS[0])
    assert host.awake == [VMS[0]]
    assert host.fleet.detach(HOST, VMS[0]).word == host.attach(VMS[0], "4Q").word == "done"
    assert host.awake == []


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


def refuse(monkeypatch: pytest.MonkeyPatch, verb: str) -> list[str]:
    """The host program refuses steps of that verb. All that it is told."""
    real, told = Executor.execute, list[str]()

    def execute(executor: Executor, step: Any, deadline_s: float) -> Any:
        told.append(step["verb"])
        if step["verb"] == verb:
            raise Refusal(TOOL_REFUSED, "refused by the test", command="/usr/bin/test", status=1, output="")
        return real(executor, step, deadline_s)

    monkeypatch.setattr(Executor, "execute", execute)
    return told


def test_an_attach_whose_later_step_is_refused_leaves_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing else of a lazy vGPU, and an entry without a claim would keep its function."""
    host = LazyHost(VENDOR_VFIO)
    refuse(monkeypatch, "attach_device")
    assert host.attach(VMS[0], "4Q").error is not None
    assert host.machine.ledger() == []


def test_a_start_whose_new_place_cannot_be_entered_says_why_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was tried again for a minute, with the host's lock, and then nothing was said of the reason."""
    host = lazy_host(MDEV_VF, WHOLE)
    (entry,) = host.machine.ledger()
    assert host.fleet.make_by_hand(HOST, GPUS.index(entry["gpu"]), 2, sorted(TYPES).index(WHOLE))
    told = refuse(monkeypatch, "defer_vgpu")
    why = host.start(VMS[0])
    assert why is not None
    assert "cannot be made: " in why
    assert "refused by the test" in why
    assert told == ["defer_vgpu"]


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
