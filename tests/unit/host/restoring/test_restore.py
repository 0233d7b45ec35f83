"""A host boots, and its own program restores what the ledger says: on the model's hosts, whose ledgers real commands wrote."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.model import promises
from tests.model.fleet import HOSTS, SLOTS, Fleet, vm_uuid
from tests.model.machine import GPUS, MIG_TYPES, VFS
from tests.model.nvml_double import Nvml
from tests.model.pool import POOL
from tests.model.wiring import HostProgramKilled
from tests.unit.host.restoring.test_hold import definition
from vgpumgr.core.driver.modes import MIG, MIXED_SIZE
from vgpumgr.host import timing
from vgpumgr.host.facts.gpu import SRIOV_MANAGE
from vgpumgr.host.files import Root
from vgpumgr.host.ledger.lock import HostLock
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.host.protocol.restored import RESTORED_PATH
from vgpumgr.host.protocol.session import CHANGED
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.restoring.hold import find_why
from vgpumgr.host.restoring.restore import ROUND_TIMEOUT_S, TRIES, Restore, lines, read_last
from vgpumgr.host.steps.executor import Executor
from vgpumgr.lab.driver import boards
from vgpumgr.lab.driver.driver import LATE_VFS, NO_VFS, UNBIND_LOCK
from vgpumgr.lab.driver.upgrade import Upgrade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.model.machine import Machine, Place
    from vgpumgr.host.protocol.restored import RestoredFact
    from vgpumgr.host.protocol.steps import Executed, GpuStep
    from vgpumgr.lab.driver.model import Gpu

HOST, SLOT = HOSTS[0], SLOTS[0]
FRAMEWORKS = (MDEV_PF, MDEV_VF, VENDOR_VFIO)
VMS = tuple(f"1vm{number:02}" for number in range(1, 5))


@pytest.fixture(scope="module", autouse=True)
def _pool() -> Iterator[None]:
    with POOL:
        yield


def fleet_of(framework: str, *, in_mig: bool = False) -> Fleet:
    return Fleet.install({HOST: POOL.machine(HOST, framework)}, {HOST: len(VMS)}, in_mig=[HOST] if in_mig else [])


def restore(machine: Machine, at: Callable[[str], None] = lambda _point: None) -> RestoredFact:
    """One run, on a clock that goes on by ten seconds whenever somebody looks at it or waits."""
    clock = itertools.count(step=10)
    return Restore(
        Root(machine.root),
        nvml=lambda: Nvml(machine),
        write=machine.write,
        at=at,
        clock=lambda: float(next(clock)),
        pause=lambda _seconds: None,
    ).run()


def missing(fact: RestoredFact) -> dict[str, str | None]:
    assert fact["problem"] is None
    return {row["vm_name"]: row["missing"] for row in fact["vgpus"]}


def there(machine: Machine) -> dict[Place, object]:
    """All that is on the hardware, with its parameters, place and GPU instance."""
    starts = {(gpu.uuid, one.id): one.start for gpu in machine.gpus() for one in gpu.instances}
    return {
        where: (vgpu.type.name, vgpu.params, vgpu.placement_id, starts.get((where.gpu, vgpu.gpu_instance or 0)))
        for where, vgpu in machine.hardware().items()
    }


def attach(fleet: Fleet, *asked: str) -> None:
    for vm, profile in zip(VMS, asked, strict=False):
        done = fleet.attach(HOST, vm, SLOT, profile)
        assert done.word == "done", done.error and done.error.details


def boot(machine: Machine, *, late: bool = False, upgrade: Upgrade | None = None) -> None:
    """`late`: no virtual function is there, as on a host without a unit of its own for them."""
    if late:
        machine.driver.set_fault(LATE_VFS)
    machine.reboot(upgrade or Upgrade())


@settings(max_examples=dose(15, 300))
@given(
    framework=st.sampled_from(FRAMEWORKS),
    late=st.booleans(),
    renumber=st.booleans(),
    asked=st.lists(st.sampled_from(["4Q", "8Q", "8C", "16Q"]), min_size=1, max_size=len(VMS)),
    mixed=st.booleans(),
    killed=st.integers(min_value=0, max_value=40),
)
def test_what_was_there_is_there_again_also_if_it_was_killed_on_the_way(
    *, framework: str, late: bool, renumber: bool, asked: list[str], mixed: bool, killed: int
) -> None:
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    if mixed and framework != MDEV_PF:
        assert fleet.set_mode(HOST, GPUS[0], MIXED_SIZE).word == "done"
    for vm, profile in zip(VMS, asked, strict=False):
        fleet.attach(HOST, vm, SLOT, profile)
    before, entries = there(machine), len(machine.ledger())
    boot(machine, late=late, upgrade=Upgrade(renumber=renumber))
    assert there(machine) == {}
    points = itertools.count()

    def at(_point: str) -> None:
        if next(points) == killed:
            raise HostProgramKilled

    try:
        restore(machine, at)
    except HostProgramKilled:
        assert not machine.is_locked()
    fact = restore(machine)
    assert set(missing(fact).values()) <= {None}
    assert there(machine) == before
    assert len(machine.ledger()) == entries
    assert not machine.broken_promises
    written = machine.ledger()
    assert missing(restore(machine)) == missing(fact)
    assert machine.ledger() == written
    if not renumber:  # then the claims, which name ids, are still to be written
        assert fleet.reconcile(check=True).word == "unchanged"


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("board", ["A100", "H100"])
def test_mig_backed_ones_are_back_each_in_the_instance_that_it_was_in(board: str, late: bool) -> None:
    """A100 keeps MIG mode over a boot; H100 loses it."""
    fleet = fleet_of(VENDOR_VFIO, in_mig=True)
    machine = fleet.machines[HOST]
    if board == "H100":
        small = replace(boards.board(board, "test"), vfs=VFS)
        machine.install(board=small, in_mig=True)
        for vm in VMS:
            machine.libvirt.define(vm, vm_uuid(HOST, vm))
        assert fleet.set_mode(HOST, GPUS[0], MIG).word == "done"
    profiles = ("3-40C", "1-10C", "1-10C") if board == "H100" else (MIG_TYPES[1], MIG_TYPES[0], MIG_TYPES[0])
    attach(fleet, *profiles)
    assert fleet.detach(HOST, VMS[1], SLOT).word == "done"
    assert fleet.give_back(HOST).word in ("done", "unchanged")
    before = there(machine)
    boot(machine, late=late)
    assert set(missing(restore(machine)).values()) == {None}
    assert there(machine) == before
    promises.check_places(machine, GPUS[0])
    assert fleet.reconcile(check=True).word == "unchanged"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_where_another_card_is_now_nothing_is_made_and_the_rest_comes_back(framework: str) -> None:
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    attach(fleet, "8Q", "4Q")  # on two GPUs
    (first,) = [where for where in there(machine) if where.gpu == machine.driver.gpu(GPUS[0]).uuid]
    kept = {where: what for where, what in there(machine).items() if where != first}
    machine.driver.set_fault(f"card-exchanged:{GPUS[0]}")
    boot(machine)
    found = missing(restore(machine))
    (lost,) = [why for why in found.values() if why is not None]
    assert lost == f"GPU {first.gpu} is not in this host; at {GPUS[0]} is {machine.driver.gpu(GPUS[0]).uuid}"
    assert there(machine) == kept


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_cards_that_changed_places_get_nothing(framework: str) -> None:
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    attach(fleet, "8Q", "4Q")
    one, two = (machine.driver.gpu(pci) for pci in GPUS)
    one.uuid, two.uuid = two.uuid, one.uuid
    boot(machine)
    assert set(missing(restore(machine)).values()) == {
        f"GPU {two.uuid} was at {GPUS[0]}, and is now at {GPUS[1]}",
        f"GPU {one.uuid} was at {GPUS[1]}, and is now at {GPUS[0]}",
    }
    assert there(machine) == {}


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_what_somebody_else_made_there_is_left_alone_and_named(framework: str) -> None:
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    (entry,) = machine.ledger()
    boot(machine)
    gpu = machine.driver.gpu(entry["gpu"])
    other = next(kind for kind in gpu.board.types if kind.id != entry["type_id"])
    machine.make(gpu, entry["vf_index"], other.id, "0bad0000-0000-4000-8000-000000000000")
    (why,) = missing(restore(machine)).values()
    assert why == f"somebody else made {other.name} on {entry['parent']}"
    assert machine.ledger() == [entry]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_very_vgpu_made_by_another_tool_is_not_taken_for_ours(framework: str) -> None:
    """As mdevctl would, with our UUID."""
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    (entry,) = machine.ledger()
    boot(machine)
    machine.make(machine.driver.gpu(entry["gpu"]), entry["vf_index"], entry["type_id"], entry["uuid"])
    (why,) = missing(restore(machine)).values()
    assert why is not None
    assert why.endswith("and vgpumgr did not make it since the boot")
    assert machine.ledger() == [entry]


@pytest.mark.parametrize(("before", "after"), [(MDEV_VF, VENDOR_VFIO), (VENDOR_VFIO, MDEV_VF)])
def test_a_driver_of_another_framework_gets_nothing(before: str, after: str) -> None:
    fleet = fleet_of(before)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    boot(machine, upgrade=Upgrade(framework=after))
    assert list(missing(restore(machine)).values()) == [f"the driver now makes vGPUs in another way ({after})"]
    assert there(machine) == {}


def test_of_two_vms_that_the_ledger_has_on_one_function_only_the_one_whose_card_is_there_may_start() -> None:
    """The other one's definition still names the function."""
    fleet = fleet_of(VENDOR_VFIO)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q", "4Q")
    file = machine.root / "var/lib/vgpumgr/ledger.json"
    ledger = json.loads(file.read_text())
    one, two = ledger["entries"]
    two.update(gpu_uuid="GPU-0bad0000-0000-4000-8000-000000000000", vf_index=one["vf_index"], parent=one["parent"])
    file.write_text(json.dumps(ledger))
    boot(machine)
    found = missing(restore(machine))
    assert found[one["vm_name"]] is None
    assert "is not in this host" in (found[two["vm_name"]] or "")
    held = [find_why(Root(machine.root), definition(entry["vm_uuid"], one["parent"])) for entry in (one, two)]
    assert held[0] is None
    assert held[1] is not None


def test_what_is_leaving_stays_away() -> None:
    fleet = fleet_of(MDEV_VF)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q", "4Q")
    file = machine.root / "var/lib/vgpumgr/ledger.json"
    for kept in (1, 0):
        file.write_text(file.read_text().replace('"made"', '"leaving"', 1))
        boot(machine)
        assert len(missing(restore(machine))) == kept
        assert len(there(machine)) == kept


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_an_unbind_lock_that_is_held_for_a_while_is_waited_for(framework: str) -> None:
    fleet = fleet_of(framework)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    before = there(machine)
    boot(machine, late=True)
    machine.driver.set_fault(f"{UNBIND_LOCK}:2")
    assert set(missing(restore(machine)).values()) == {None}
    assert there(machine) == before


@pytest.mark.parametrize("fault", [UNBIND_LOCK, NO_VFS])
def test_functions_that_never_come_are_named_after_a_few_tries(fault: str) -> None:
    fleet = fleet_of(VENDOR_VFIO)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    boot(machine, late=True)
    machine.driver.set_fault(fault)
    pace = machine.root / timing.PACE[1:]
    pace.parent.mkdir(parents=True, exist_ok=True)
    pace.write_text(timing.text(0.01))
    points: list[str] = []
    fact = restore(machine, points.append)
    (why,) = missing(fact).values()
    assert why is not None
    assert "sriov-manage -e" in why
    assert 1 <= points.count("ran") <= TRIES
    pace.unlink()
    assert lines(fact) == [f"1vm01 slot vgpu0: L40S-4Q on {fact['vgpus'][0]['parent']} is missing: {why}"]


def test_a_gpu_that_takes_all_the_time_leaves_the_next_one_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it was waited for in vain is the reason, also where it is not tried again."""
    fleet = fleet_of(VENDOR_VFIO)
    machine = fleet.machines[HOST]
    attach(fleet, "8Q", "4Q")  # on two GPUs
    boot(machine, late=True)
    given: list[float] = []

    def execute(_executor: Executor, _step: object, deadline_s: float) -> NoReturn:
        given.append(deadline_s)
        raise Refusal(CHANGED, "nothing came")

    monkeypatch.setattr(Executor, "execute", execute)
    one = Restore(Root(machine.root), nvml=lambda: Nvml(machine), clock=lambda: sum(given), pause=lambda _seconds: None)
    assert set(missing(one.run()).values()) == {"nothing came"}
    assert given == [ROUND_TIMEOUT_S, ROUND_TIMEOUT_S]


def test_a_step_that_is_refused_ends_its_gpus_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one that hangs, each vGPU would wait as long as the first."""
    fleet = fleet_of(VENDOR_VFIO)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q", "4Q", "4Q", "4Q")
    boot(machine)
    turns: list[str] = []

    def execute(_executor: Executor, step: GpuStep, deadline_s: float) -> NoReturn:
        assert deadline_s == ROUND_TIMEOUT_S
        turns.append(step["gpu"])
        raise Refusal(CHANGED, "nothing came")

    monkeypatch.setattr(Executor, "execute", execute)
    restore(machine)
    assert turns[:2] in (list(GPUS), list(reversed(GPUS)))


def test_a_run_ends_in_its_own_time_and_says_that_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where many GPUs are dead, systemd would end it, and nobody would know what came back."""
    fleet = fleet_of(VENDOR_VFIO)
    machine = fleet.machines[HOST]
    attach(fleet, "8Q", "4Q")  # on two GPUs
    boot(machine, late=True)
    given: list[float] = []

    def execute(_executor: Executor, _step: object, deadline_s: float) -> NoReturn:
        given.append(deadline_s)
        raise Refusal(CHANGED, "nothing came")

    monkeypatch.setattr(Executor, "execute", execute)
    one = Restore(
        Root(machine.root), nvml=lambda: Nvml(machine), clock=lambda: 4 * sum(given), pause=lambda _seconds: None
    )
    fact = one.run()
    assert fact["problem"] == "the restore ended after 12 minutes, and not all was tried"
    assert {row["missing"] for row in fact["vgpus"]} == {"nothing came"}
    assert len(given) == 2
    assert min(given) > 0
    assert lines(fact)[0] == fact["problem"]
    assert len(lines(fact)) == 1 + len(fact["vgpus"])


def test_what_has_come_back_is_written_while_another_gpu_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = fleet_of(MDEV_VF)
    machine = fleet.machines[HOST]
    attach(fleet, "8Q", "4Q")  # on two GPUs
    boot(machine)
    seen: list[RestoredFact | None] = []
    real = Executor.execute

    def execute(executor: Executor, step: GpuStep, deadline_s: float) -> Executed:
        seen.append(read_last(Root(machine.root)))
        if len({step["gpu"], *turns}) > 1:
            raise HostProgramKilled
        turns.append(step["gpu"])
        return real(executor, step, deadline_s)

    turns: list[str] = []
    monkeypatch.setattr(Executor, "execute", execute)
    with pytest.raises(HostProgramKilled):
        restore(machine)
    last = read_last(Root(machine.root))
    assert last is not None
    assert last == seen[-1]
    assert last["problem"] == "the restore has not ended"
    assert sorted(row["missing"] is None for row in last["vgpus"]) == [False, True]


def test_a_run_that_hangs_in_the_driver_has_said_that_it_began() -> None:
    fleet = fleet_of(MDEV_VF)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    boot(machine)

    def hang() -> NoReturn:
        raise HostProgramKilled

    with pytest.raises(HostProgramKilled):
        Restore(Root(machine.root), nvml=hang).run()
    last = read_last(Root(machine.root))
    assert last is not None
    assert lines(last) == ["the restore has not ended"]


def test_a_vgpu_that_the_driver_refuses_is_tried_a_few_times_only() -> None:
    fleet = fleet_of(MDEV_VF)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    boot(machine)
    machine.fail_creates(True)
    points: list[str] = []

    def pause(_seconds: float) -> None:
        points.append("pause")
        assert points.count("pause") <= TRIES

    one = Restore(
        Root(machine.root),
        nvml=lambda: Nvml(machine),
        write=machine.write,
        at=points.append,
        clock=lambda: 0.0,  # so the time does not end it
        pause=pause,
    )
    (why,) = missing(one.run()).values()
    assert why is not None
    assert "EIO" in why
    assert points.count("written") == TRIES
    machine.fail_creates(False)
    assert set(missing(restore(machine)).values()) == {None}


def test_a_step_without_effect_is_tried_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = fleet_of(MDEV_VF)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    boot(machine)
    taken: list[str] = []

    def execute(_executor: Executor, step: GpuStep, _deadline_s: float) -> Executed:
        taken.append(step["verb"])
        assert len(taken) <= TRIES
        return {"note": None, "scheduler": None}

    monkeypatch.setattr(Executor, "execute", execute)
    one = Restore(Root(machine.root), nvml=lambda: Nvml(machine), clock=lambda: 0.0, pause=lambda _seconds: None)
    assert list(missing(one.run()).values()) == ["without effect: create_vgpu"]


def test_how_a_vgpu_differs_from_what_it_was_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = fleet_of(MDEV_VF)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    boot(machine)
    real = Executor.execute

    def execute(executor: Executor, step: GpuStep, deadline_s: float) -> Executed:
        return {**real(executor, step, deadline_s), "note": "it lies elsewhere"}

    monkeypatch.setattr(Executor, "execute", execute)
    (line,) = lines(restore(machine))
    assert line.endswith(" is there; it lies elsewhere")


def test_a_driver_that_offers_nothing_yet_is_waited_for() -> None:
    """nvidia-vgpud has started, and is still at work."""
    fleet = fleet_of(MDEV_VF)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    before = there(machine)
    boot(machine, late=True)
    waits = itertools.count()

    def come(_seconds: float) -> None:
        if next(waits) == 2:
            machine.driver.enable_vfs()
            machine.show()

    machine.driver.set_fault(UNBIND_LOCK)
    one = Restore(Root(machine.root), nvml=lambda: Nvml(machine), write=machine.write, clock=lambda: 0.0, pause=come)
    assert set(missing(one.run()).values()) == {None}
    assert there(machine) == before


def test_a_gpu_whose_uuid_the_driver_does_not_know_yet_is_opened() -> None:
    """The driver shows it once the GPU was opened. Nobody opens one whose virtual functions are to be made."""
    fleet = fleet_of(VENDOR_VFIO)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    before = there(machine)
    (where,) = before
    boot(machine, late=True)
    tool = machine.root / SRIOV_MANAGE[1:]  # where it is, nothing else opens such a GPU
    tool.parent.mkdir(parents=True)
    tool.touch()
    (shown,) = (machine.root / "proc/driver/nvidia/gpus").glob(f"{machine.ledger()[0]['gpu']}/information")
    text = shown.read_text()
    shown.write_text(text.replace(where.gpu, "GPU-????????-????-????-????-????????????"))

    class Opening(Nvml):
        def nvmlDeviceGetHandleByPciBusId(self, pci: str) -> Gpu:  # noqa: N802 -- pynvml's name
            if pci == shown.parent.name:
                shown.write_text(text)
            return super().nvmlDeviceGetHandleByPciBusId(pci)

    clock = itertools.count(step=10)
    one = Restore(
        Root(machine.root),
        nvml=lambda: Opening(machine),
        write=machine.write,
        clock=lambda: float(next(clock)),
        pause=lambda _seconds: None,
    )
    assert set(missing(one.run()).values()) == {None}
    shutil.rmtree(tool.parent)
    assert there(machine) == before


def test_what_it_did_is_written_down_for_this_boot() -> None:
    fleet = fleet_of(MDEV_VF)
    machine = fleet.machines[HOST]
    root = Root(machine.root)
    attach(fleet, "4Q")
    assert read_last(root) is None
    boot(machine)
    fact = restore(machine)
    assert read_last(root) == fact
    assert fact["boot"] == machine.boot
    boot(machine)
    assert read_last(root) is None
    for text in ("{}", '{"boot": 1}', "?", '{"boot":"x","at":"x","problem":null,"vgpus":[1]}'):
        (machine.root / RESTORED_PATH[1:]).write_text(text)
        assert read_last(root) is None


def test_a_host_that_somebody_changes_and_a_ledger_that_is_broken_are_problems() -> None:
    fleet = fleet_of(MDEV_VF)
    machine = fleet.machines[HOST]
    attach(fleet, "4Q")
    boot(machine)
    other = HostLock(Root(machine.root))
    other.take("anna@ctl1 attach", 0)
    try:
        fact = Restore(Root(machine.root), nvml=lambda: Nvml(machine), lock_wait_s=0).run()
    finally:
        other.give_back()
    (line,) = lines(fact)
    assert line.startswith("the host's lock is held by ")
    (machine.root / "var/lib/vgpumgr/ledger.json").write_text("?")
    (line,) = lines(restore(machine))
    assert "ledger" in line
    assert there(machine) == {}
