"""A write that does not return: on record before it begins, and the last one that its GPU takes until it has returned."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.descriptors import opened
from tests.unit.host.fakehost import (
    BOOT,
    GPU_A,
    GPU_B,
    HARDWARE,
    MDEV,
    MDEV_VF,
    OTHER_MDEV,
    TWO_GPUS,
    UUID_A,
    UUID_B,
    VENDOR,
    Asker,
    FakeHost,
    host_with_vgpu,
    locked,
    make_destroy,
    make_evacuate,
    make_modprobe_step,
    make_record,
    make_scheduler_step,
    make_step,
    two_gpus,
    wait_until,
)
from tests.unit.host.fakenvml import FakeNvml
from tests.unit.host.program_runner import BEGUN
from vgpumgr.host.ledger import blocked_write
from vgpumgr.host.ledger.blocked_write import Child, find_child, holding, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.unit.host.conftest import Program

each_hardware = pytest.mark.parametrize("framework", HARDWARE)
_STEPS = {"create_vgpu": make_step, "destroy_vgpu": make_destroy, "evacuate_vgpu": make_evacuate}
each_write = pytest.mark.parametrize(
    ("verb", "framework"), [*((verb, MDEV_VF) for verb in _STEPS), ("create_vgpu", VENDOR), ("destroy_vgpu", VENDOR)]
)
_BEFORE_THE_WORD = {"create_vgpu": "planned", "destroy_vgpu": "leaving", "evacuate_vgpu": "evacuating"}
EARLIER = "b7000000-0000-4000-8000-000000000000"


class Gate:
    """A driver whose writes do not return while the gate is shut: a FIFO, for a child has its own memory."""

    def __init__(self, host: FakeHost, fifo: Path) -> None:
        self._host = host
        self._fifo = fifo
        self._open: int | None = None
        os.mkfifo(fifo)

    def write(self, path: str, data: bytes) -> None:
        os.close(os.open(self._fifo, os.O_RDONLY))
        self._host.driver_write(path, data)

    def open(self) -> None:
        """From now on whoever waits goes on, and whoever comes."""
        if self._open is None:
            self._open = os.open(self._fifo, os.O_RDWR)

    def end(self) -> None:
        self.open()
        for record in self._host.blocked_writes():
            wait_for_end(record["pid"])
        assert self._open is not None
        os.close(self._open)


def host_before(verb: str, root: Path, framework: str) -> FakeHost:
    """A host of two GPUs, as a step of this verb expects it."""
    return two_gpus(root, framework) if verb == "create_vgpu" else host_with_vgpu(root, framework, TWO_GPUS)


@pytest.fixture
def shut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[FakeHost, Gate, Asker]]]:
    """A host of two GPUs, on whose first make_step's vGPU is where a step expects it, and a shut gate before its driver."""
    gates: list[Gate] = []
    monkeypatch.setattr(blocked_write, "MOMENT_S", 0.02)  # for a child that is about to end: none is here

    def build(framework: str, verb: str = "destroy_vgpu") -> tuple[FakeHost, Gate, Asker]:
        host = host_before(verb, tmp_path / "host", framework)
        gate = Gate(host, tmp_path / "gate")
        gates.append(gate)
        return host, gate, locked(host, write=gate.write)

    yield build
    for gate in gates:
        gate.end()


def blocked_writes(asker: Asker) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = asker.ask("observe", wait_s=0)["ok"]["blocked_writes"]
    return records


def wait_for_end(pid: int) -> None:
    wait_until(lambda: find_child(pid) is None)


def me() -> Child:
    found = find_child(os.getpid())
    assert found is not None
    return found


# the record


@each_write
def test_a_write_that_does_not_return_is_in_the_ledger_with_all_that_tells_it(
    shut: Callable[..., tuple[FakeHost, Gate, Asker]], framework: str, verb: str
) -> None:
    host, _, asker = shut(framework, verb)
    step = _STEPS[verb](framework)
    error = asker.execute(step, deadline_s=0.1)["err"]
    assert error["kind"] == "Deadline"
    assert "takes no more writes" in error["message"]
    (record,) = host.blocked_writes()
    assert blocked_writes(asker) == [record]
    assert is_alive(Child(record["pid"], record["start"]))
    assert time.strptime(record["since"], "%Y-%m-%dT%H:%M:%SZ")
    assert {key: record[key] for key in ("gpu_uuid", "gpu", "path", "verb", "vm_name", "slot", "boot")} == {
        "gpu_uuid": UUID_A,
        "gpu": GPU_A,
        "path": error["path"],
        "verb": verb,
        "vm_name": "vm01",
        "slot": "vgpu0",
        "boot": BOOT,
    }
    assert bool(record["vfio"]) == (verb != "create_vgpu")


@each_write
def test_a_program_that_is_killed_in_the_middle_of_a_write_has_left_its_record(
    tmp_path: Path, run_program: Callable[..., Program], framework: str, verb: str
) -> None:
    """Nobody was told `Deadline`; the next run is refused all the same, and goes on once the write is over."""
    host = host_before(verb, tmp_path, framework)
    step = _STEPS[verb](framework)
    program = run_program(host.root, "--block")
    program.ask("lock", by="anna", wait_s=0)
    program.request("execute", step=step, deadline_s=60)
    wait_until((host.root / BEGUN).exists)  # a child that still waits for its word ends without it
    (record,) = host.blocked_writes()
    program.process.kill()
    assert program.read_line() == b""
    program.wait()  # its output ends before its lock does: a process closes what it has open in order
    try:
        asker = locked(host)
        assert asker.execute(step)["err"]["kind"] == "BlockedWrite"
    finally:
        os.kill(record["pid"], signal.SIGKILL)
    wait_for_end(record["pid"])
    assert "ok" in asker.execute(step)


@each_write
def test_a_child_whose_program_is_killed_before_it_gives_the_word_writes_nothing(
    tmp_path: Path, run_program: Callable[..., Program], framework: str, verb: str
) -> None:
    host = host_before(verb, tmp_path, framework)
    step = _STEPS[verb](framework)
    hardware = [path for path in host.tree().items() if path[0].startswith("sys/")]
    program = run_program(host.root, "--kill", _BEFORE_THE_WORD[verb])
    program.ask("lock", by="anna", wait_s=0)
    program.request("execute", step=step, deadline_s=10)
    assert program.wait() == -signal.SIGKILL
    (record,) = host.blocked_writes()
    wait_for_end(record["pid"])
    assert [path for path in host.tree().items() if path[0].startswith("sys/")] == hardware


# what it stops


def others(framework: str) -> list[dict[str, Any]]:
    """Steps on the same GPU through other paths, and on what the write itself is about."""
    other: dict[str, Any] = {"slot": "vgpu1", "uuid": None if framework == VENDOR else OTHER_MDEV, "vf": 1}
    return [
        make_destroy(framework),
        make_destroy(framework, expect="absent"),
        make_evacuate(framework),
        make_step(framework),
        make_step(framework, expect="same"),
        make_step(framework, **other),
        make_destroy(framework, **other),
        make_scheduler_step(),
    ]


@each_hardware
def test_every_step_on_its_gpu_is_refused_and_writes_nothing(
    shut: Callable[..., tuple[FakeHost, Gate, Asker]], framework: str
) -> None:
    host, _, asker = shut(framework)
    asker.execute(make_destroy(framework), deadline_s=0.1)
    (record,) = host.blocked_writes()
    nvml = FakeNvml(api=1, host=host, video_takes=True)
    asker.ask("unlock", gpu_uuids=[])
    next_run = locked(host, nvml=lambda: nvml)
    before, set_before = host.tree(), nvml.state(GPU_A, 1)
    for step in others(framework):
        error = next_run.execute(step)["err"]
        assert {**error, "message": ""} == {
            "kind": "BlockedWrite",
            "message": "",
            "gpu": GPU_A,
            "path": record["path"],
            "pid": record["pid"],
            "since": record["since"],
        }
        for word in (GPU_A, record["path"], record["since"], str(record["pid"]), "vm01 slot vgpu0"):
            assert word in error["message"]
    assert (host.tree(), nvml.state(GPU_A, 1)) == (before, set_before)


def test_the_other_gpus_and_the_files_go_on(shut: Callable[..., tuple[FakeHost, Gate, Asker]]) -> None:
    host, _, asker = shut(MDEV_VF)
    asker.execute(make_destroy(MDEV_VF), deadline_s=0.1)
    records = host.blocked_writes()
    asker.ask("unlock", gpu_uuids=[])
    on_b = {"gpu_uuid": UUID_B, "gpu": GPU_B, "slot": "vgpu1", "uuid": OTHER_MDEV}
    on_b["parent"] = f"{GPU_B[:-1]}4"
    next_run = locked(host)
    assert next_run.ask("ping")["ok"] == {}
    for verb in ("create_vgpu", "evacuate_vgpu", "create_vgpu", "destroy_vgpu"):
        assert "ok" in next_run.execute(_STEPS[verb](MDEV_VF, **on_b))
        assert host.blocked_writes() == records
    assert "ok" in next_run.execute(make_modprobe_step())


def test_a_scheduler_is_not_set_while_the_ledger_cannot_be_read(host: FakeHost) -> None:
    host.put("/var/lib/vgpumgr/ledger.json", "{")
    nvml = FakeNvml(api=1, host=host, video_takes=True)
    before = nvml.state(GPU_A, 1)
    assert locked(host, nvml=lambda: nvml).execute(make_scheduler_step())["err"]["kind"] == "LedgerBroken"
    assert nvml.state(GPU_A, 1) == before


# its end


def test_once_it_has_returned_the_gpu_takes_writes_again_and_the_record_goes(
    shut: Callable[..., tuple[FakeHost, Gate, Asker]],
) -> None:
    host, gate, asker = shut(MDEV_VF)
    asker.execute(make_destroy(MDEV_VF), deadline_s=0.1)
    (record,) = host.blocked_writes()
    gate.open()
    wait_for_end(record["pid"])  # a zombie of ours: the program that left it behind has not asked for it yet
    assert blocked_writes(asker) == []
    assert host.blocked_writes() == [record], "reading writes nothing"
    assert "ok" in asker.execute(make_destroy(MDEV_VF, expect="absent"))
    assert (host.blocked_writes(), host.entries()) == ([], [])
    asker.ask("unlock", gpu_uuids=[])
    assert "ok" in locked(host).execute(make_step(MDEV_VF))


@pytest.mark.parametrize("over", ["boot", "start", "pid"])
def test_a_record_of_another_boot_or_process_stops_nothing_and_is_dropped_at_the_next_write_only(
    host: FakeHost, over: str
) -> None:
    """What a later version put into the records that stay is kept."""
    mine = me()
    ended: dict[str, Any] = (
        {"boot": EARLIER} if over == "boot" else {"start": 1} if over == "start" else {"pid": 2**22 + 1}
    )
    alive = {"pid": mine.pid, "start": mine.start}
    stays = make_record(MDEV_VF, gpu_uuid=UUID_B, gpu=GPU_B, later="kept", **alive)
    host.put_ledger(blocked_writes=[make_record(MDEV_VF, **{**alive, **ended}), stays])
    asker = locked(host)
    assert [record["gpu"] for record in blocked_writes(asker)] == [GPU_B]
    assert len(host.blocked_writes()) == 2
    assert "ok" in asker.execute(make_step(MDEV_VF))
    assert host.blocked_writes() == [stays]


def test_where_the_boot_cannot_be_read_every_record_may_be_of_it() -> None:
    record = make_record(MDEV_VF)
    assert list(holding([record], "", lambda child: True)) == [record]
    assert list(holding([record], EARLIER, lambda child: True)) == []


def test_a_write_that_does_not_return_leaves_no_descriptor_behind(
    shut: Callable[..., tuple[FakeHost, Gate, Asker]],
) -> None:
    _, _, asker = shut(MDEV_VF)
    before = opened()
    assert asker.execute(make_destroy(MDEV_VF), deadline_s=0.1)["err"]["kind"] == "Deadline"
    assert asker.execute(make_step(MDEV_VF, uuid=MDEV))["err"]["kind"] == "BlockedWrite"
    assert opened() <= before
