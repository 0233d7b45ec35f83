"""What a restore waits for and how long, how often it tries, and what it writes meanwhile."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING, NoReturn

import pytest

from tests.model.machine import GPUS
from tests.model.nvml_double import Nvml
from tests.model.wiring import HostProgramKilled
from tests.unit.host.restoring.booting import (
    HOST,
    attach,
    boot,
    fleet_of,
    missing,
    restore,
    there,
)
from vgpumgr.host import timing
from vgpumgr.host.facts.gpu import SRIOV_MANAGE
from vgpumgr.host.files import Root
from vgpumgr.host.ledger.lock import HostLock
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO
from vgpumgr.host.protocol.restored import RESTORED_PATH
from vgpumgr.host.protocol.session import CHANGED
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.restoring.last import read_last
from vgpumgr.host.restoring.restore import ROUND_TIMEOUT_S, TRIES, Restore, lines
from vgpumgr.host.steps.executor import Executor
from vgpumgr.lab.driver.driver import NO_VFS, UNBIND_LOCK

if TYPE_CHECKING:
    from vgpumgr.host.protocol.restored import RestoredFact
    from vgpumgr.host.protocol.steps import Executed, GpuStep
    from vgpumgr.lab.driver.model import Gpu

pytestmark = pytest.mark.usefixtures("pool")


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


def waiting_in_vain(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each step is refused once its time is over. The times that steps are given, in seconds, are added to the list."""
    given: list[float] = []

    def execute(_executor: Executor, _step: object, deadline_s: float) -> NoReturn:
        given.append(deadline_s)
        raise Refusal(CHANGED, "nothing came")

    monkeypatch.setattr(Executor, "execute", execute)
    return given


def test_a_gpu_that_takes_all_the_time_leaves_the_next_one_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it was waited for in vain is the reason, also where it is not tried again."""
    fleet = fleet_of(VENDOR_VFIO)
    machine = fleet.machines[HOST]
    attach(fleet, "8Q", "4Q")  # on two GPUs
    boot(machine, late=True)
    given = waiting_in_vain(monkeypatch)
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
    given = waiting_in_vain(monkeypatch)
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
