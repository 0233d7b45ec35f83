"""What readings measure, whatever runs and whenever it is looked at; and whose it is."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.host.fakehost import GPU_A, MDEV, UUID_A, VENDOR, VM, make_entry, make_type
from vgpumgr.core.usage import readings
from vgpumgr.core.usage.readings import MEMORY_US, OFF, RUNNING, UNKNOWN, Cursor, HostReading, Measured, VgpuReading
from vgpumgr.host.protocol.sample import SampleReport
from vgpumgr.host.protocol.session import PROTOCOL
from vgpumgr.link.program import wire
from vgpumgr.link.values import sampling_facts
from vgpumgr.names import HostName

HOST = HostName("kvm01")
GUEST = {"driver": "570.133.20", "license": 5, "license_expires": "2027-01-15T08:00:00Z"}
VM2 = "6a1f0000-0000-4000-8000-000000000002"
SECOND = 1_000_000


def instance(number: int, **other: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "instance": number,
        "vm_uuid": VM,
        "vm_name": "vm01",
        "uuid": None,
        "vf": None,
        "vf_index": None,
        "type_id": 560,
        "framebuffer_used_bytes": 7,
        "at_us": 100 * SECOND,
        "sm": 10,
        "memory": 5,
        "encoder": 0,
        "decoder": 1,
        "holder": {"pid": 41, "command": "qemu-kvm", "since_us": 7},
        "guest": GUEST,
    }
    return row | other


def entry(slot: str, **other: Any) -> dict[str, Any]:
    return make_entry(VENDOR, mig=None, lazy=None, slot=slot, **other)


def reading(
    vgpus: list[dict[str, Any]] | None,
    ledger: list[dict[str, Any]] | None = None,
    *,
    boot: str = "b",
    now_us: int = 100 * SECOND,
    policy: str = "best-effort",
) -> HostReading:
    gpu = {
        "pci": GPU_A,
        "uuid": UUID_A,
        "name": "NVIDIA A40",
        "framebuffer_bytes": 48 << 30,
        "framebuffer_used_bytes": 0,
        "sm": 0,
        "memory": 0,
        "policy": policy,
        "temperature_c": None,
        "power_mw": None,
        "mode": "mixed-size",
        "made": None,
        "types": [make_type(560, "NVIDIA A40-4Q", 12, 4096)],
        "vgpus": vgpus,
    }
    facts = {
        "protocol": PROTOCOL,
        "boot": boot,
        "now_us": now_us,
        "driver": "570",
        "gpus": [gpu],
        "ledger": ledger,
        "unknown": [],
    }
    return sampling_facts.parse(HOST, wire.read(facts, SampleReport, "sample"))


def rows(
    vgpus: list[dict[str, Any]] | None, ledger: list[dict[str, Any]] | None = None, **more: Any
) -> list[VgpuReading]:
    return list(reading(vgpus, ledger, **more).gpus[0].vgpus)


def test_more_than_a_gpu_can_have_is_left_out_and_said() -> None:
    """A host that invents vGPUs would push everybody else's samples out of the store (found: breaker F9)."""
    uuid = "9e0d0000-0000-4000-8000-{:012}".format
    many = [
        instance(number, uuid=uuid(number), vm_uuid=uuid(number), vm_name=f"{number}{'x' * 4000}")
        for number in range(5000)
    ]
    found = reading(many, [entry(f"s{number}", generation=number) for number in range(1, 900)])
    assert len(found.gpus[0].vgpus) <= 128
    assert max(len(row.vm or "") for row in found.gpus[0].vgpus) <= 255
    assert [row.what for row in found.unknown] == ["vgpus"]


# whose it is


def test_an_mdev_is_its_entrys_slot_and_the_name_is_the_one_it_runs_under() -> None:
    [row] = rows([instance(1, uuid=MDEV, vm_name="renamed")], [entry("vgpu0", uuid=MDEV)])
    assert (row.vm, row.slot, row.origin, row.state, row.type_name) == ("renamed", "vgpu0", "ours", RUNNING, "A40-4Q")
    assert row.framebuffer_size_bytes == 4096 << 20


def test_a_vf_is_found_by_its_index_even_where_the_bus_has_another_number_now() -> None:
    [row] = rows([instance(1, vf="0000:81:00.5", vf_index=1)], [entry("vgpu0", vf_index=1, parent="0000:41:00.5")])
    assert (row.slot, row.vf) == ("vgpu0", "0000:81:00.5")


def test_without_device_the_vm_and_the_type_tell_where_that_leaves_one_answer() -> None:
    other = {"type_id": 562}
    found = rows([instance(1), instance(2, **other)], [entry("vgpu0"), entry("vgpu1", vf_index=1, **other)])
    assert {(row.slot, row.instances) for row in found} == {("vgpu0", (1,)), ("vgpu1", (2,))}


def test_vgpus_that_cannot_be_told_apart_are_one_row_with_their_sum() -> None:
    [row] = rows([instance(1, sm=60), instance(2, sm=50)], [entry("vgpu0"), entry("vgpu1", vf_index=1)])
    assert (row.vm, row.slot, row.origin, row.instances) == ("vm01", None, "ours", (1, 2))
    assert row.load is not None
    assert (row.load.sm, row.load.memory, row.framebuffer_used_bytes) == (100, 10, 14)
    assert (row.entitled, row.framebuffer_size_bytes) == (Fraction(2, 12), 2 * 4096 << 20)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    [row] = rows([instance(1), instance(2, framebuffer_used_bytes=None, at_us=None)])
    assert (row.framebuffer_used_bytes, row.load) == (None, None)


def test_what_the_ledger_does_not_name_is_foreign_and_without_a_ledger_nobodys() -> None:
    assert [row.origin for row in rows([instance(1)], [])] == ["foreign"]
    assert [row.origin for row in rows([instance(1)], None)] == [None]


def test_another_vms_use_of_a_device_is_not_its_owners_use() -> None:
    found = rows([instance(1, uuid=MDEV, vm_uuid=VM2, vm_name="vm02")], [entry("vgpu0", uuid=MDEV)])
    assert [(row.vm, row.slot, row.state) for row in found] == [("vm01", "vgpu0", OFF), ("vm02", None, RUNNING)]


def test_a_share_beyond_the_whole_gpu_and_nvmls_number_for_not_available_are_unknown() -> None:
    [row] = rows([instance(1, sm=4_000_000_000, memory=103)], [entry("vgpu0")])
    assert row.load is not None
    assert (row.load.sm, row.load.memory, row.load.encoder) == (None, 100, 0)
    [row] = rows([instance(1, sm=2**32 - 1, memory=100, framebuffer_used_bytes=2**64 - 1)], [entry("vgpu0")])
    assert row.load is not None
    assert (row.load.sm, row.load.memory, row.framebuffer_used_bytes) == (None, 100, None)


def test_a_sample_of_another_year_is_unknown() -> None:
    [row] = rows([instance(1, at_us=2**52)], [entry("vgpu0")])
    assert (row.at_us, row.load, row.state) == (None, None, RUNNING)


def test_a_vm_that_is_off_has_no_load_and_no_framebuffer_in_use() -> None:
    [row] = rows([], [entry("vgpu0")])
    assert (row.state, row.load, row.framebuffer_used_bytes) == (OFF, None, None)
    assert (row.framebuffer_size_bytes, row.entitled) == (4096 << 20, Fraction(1, 12))


def test_where_nvml_does_not_tell_what_runs_nothing_is_said_to_be_off() -> None:
    assert [row.state for row in rows(None, [entry("vgpu0")])] == [UNKNOWN]


def test_a_gpu_of_which_not_all_vgpus_can_be_known_says_why() -> None:
    told = [
        (found.gpus[0].reported, found.gpus[0].listed) for found in (reading([], []), reading(None, []), reading([]))
    ]
    assert told == [(True, True), (False, True), (True, False)]


def test_a_slot_with_two_generations_is_one_row_of_the_later() -> None:
    [row] = rows([], [entry("vgpu0", type_id=562), entry("vgpu0", generation=2, vf_index=1)])
    assert row.type_id == 560


@pytest.mark.parametrize(
    ("policy", "share"),
    [("best-effort", Fraction(1, 12)), ("fixed-share", Fraction(1, 12)), ("equal-share", Fraction(1, 2))],
)
def test_what_was_entitled_is_a_part_of_the_maximum_but_of_those_that_run_under_equal_share(
    policy: str, share: Fraction
) -> None:
    found = rows([instance(1), instance(2, vm_uuid=VM2, vm_name="vm02")], [], policy=policy)
    assert [row.entitled for row in found] == [share, share]


# what is measured


@dataclass(frozen=True)
class Run:
    """A VM runs with a vGPU from one second to another; it uses (second * 7 + instance) % 101 percent in each."""

    number: int
    start: int
    stop: int

    def ticks(self, since_us: int, now_us: int) -> list[int]:
        """Its percents since then, as far back as the driver remembers."""
        first = max(since_us, now_us - MEMORY_US) // SECOND + 1
        return [
            (second * 7 + self.number) % 101
            for second in range(max(first, self.start + 1), now_us // SECOND + 1)
            if second <= self.stop
        ]


def ask(runs: list[Run], cursor: Cursor, second: int, boot: str) -> HostReading:
    """What the driver tells in that second to one that asks with this cursor."""
    now_us, since_us = second * SECOND, cursor.since().get(GPU_A, 0)
    found: list[dict[str, Any]] = []
    for run in runs:
        if run.start < second <= run.stop:
            ticks = run.ticks(since_us, now_us)
            at_us = now_us if ticks else None
            found.append(instance(run.number, at_us=at_us, sm=round(sum(ticks) / len(ticks)) if ticks else None))
    return reading(found, boot=boot, now_us=now_us)


def measure(runs: list[Run], seconds: list[int], boots: list[str] | None = None) -> list[Measured]:
    cursor = Cursor()
    found: list[Measured] = []
    for second, boot in itertools.zip_longest(seconds, boots or [], fillvalue="b"):
        assert isinstance(second, int)
        measured, cursor = readings.advance(cursor, ask(runs, cursor, second, str(boot)))
        found += measured
    return found


runs_of_one = st.builds(lambda start, length: [Run(1, start, start + length)], st.integers(0, 60), st.integers(1, 100))
runs_of_some = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 100)), max_size=4).map(
    lambda times: [Run(number, start, start + length) for number, (start, length) in enumerate(times, 1)]
)
looks = st.lists(st.integers(1, 160), min_size=2, max_size=30).map(sorted)


@given(runs_of_one, looks)
def test_a_measure_is_the_mean_of_just_the_time_that_it_names(runs: list[Run], seconds: list[int]) -> None:
    for row in measure(runs, seconds):
        ticks = runs[0].ticks(row.since_us, row.until_us)
        assert len(ticks) * SECOND == row.until_us - row.since_us
        assert row.load.sm == round(sum(ticks) / len(ticks))


@given(runs_of_some, looks)
def test_nothing_is_counted_twice_and_nothing_before_a_vm_was_seen(runs: list[Run], seconds: list[int]) -> None:
    times: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for row in measure(runs, seconds):
        times.setdefault(row.vgpu.instances, []).append((row.since_us, row.until_us))
    for numbers, spans in times.items():
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
        for number in numbers:
            run = next(run for run in runs if run.number == number)
            assert spans[0][0] > run.start * SECOND
            assert spans[-1][1] <= run.stop * SECOND


@given(st.integers(1, 10), st.integers(2, 20))
def test_read_often_enough_nothing_is_missed(every: int, times: int) -> None:
    seconds = [5 + every * at for at in range(times)]
    found = measure([Run(1, 0, 1000)], seconds)
    assert sum(row.seconds for row in found) == every * (times - 1)


def test_a_gap_longer_than_the_drivers_memory_stays_a_gap() -> None:
    found = measure([Run(1, 0, 1000)], [10, 20, 60, 62])
    assert [(row.since_us // SECOND, row.until_us // SECOND) for row in found] == [(10, 20), (60, 62)]


def test_after_a_reboot_the_first_reading_is_a_baseline_again() -> None:
    assert [row.seconds for row in measure([Run(1, 0, 1000)], [10, 12, 14, 16], ["b", "b", "c", "c"])] == [2, 2]


def test_a_clock_that_is_set_back_costs_one_measure_not_all() -> None:
    assert [row.seconds for row in measure([Run(1, 0, 1000)], [500, 502, 20, 22, 24])] == [2, 2]


def test_no_newer_sample_keeps_the_cursor() -> None:
    assert [row.seconds for row in measure([Run(1, 0, 1000)], [10, 10, 13])] == [3]


def test_a_baseline_asks_for_another_reading_and_a_measure_does_not() -> None:
    runs = [Run(1, 0, 1000)]
    first = ask(runs, Cursor(), 10, "b")
    measured, cursor = readings.advance(Cursor(), first)
    assert readings.unmeasured(first, measured)
    second = ask(runs, cursor, 12, "b")
    measured, _ = readings.advance(cursor, second)
    assert not readings.unmeasured(second, measured)
    assert not readings.unmeasured(reading([]), ())
