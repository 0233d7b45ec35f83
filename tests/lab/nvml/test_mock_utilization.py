"""What NVML tells of loads: utilization through ticks of the driver's own time, and framebuffer in use, by the real pynvml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vgpumgr.lab.driver.meter import BUFFER_US, TICK_US
from vgpumgr.lab.driver.model import Use

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.lab.nvml.conftest import Host, Nvml, Smi

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE, VERSION_MISMATCH = 0, 2, 3, 6, 7, 25
UNSIGNED_INT = 1
SECOND_US = 1_000_000
GIB = 1 << 30
OTHER_VM = "6a1f0000-0000-4000-8000-000000000002"
OTHER_MDEV = "9e0d0000-0000-4000-8000-000000000002"

_FIELDS = "[s.vgpuInstance, s.timeStamp, s.smUtil.uiVal, s.memUtil.uiVal, s.encUtil.uiVal, s.decUtil.uiVal]"
SAMPLES = f"[{_FIELDS} for s in nvmlDeviceGetVgpuUtilization(gpus[0], {{}})]"
INFOS = (
    "[[*" + _FIELDS + ", s.jpgUtil.uiVal, s.ofaUtil.uiVal]"
    " for s in nvmlDeviceGetVgpuInstancesUtilizationInfo(gpus[0], {})]"
)
RATES = "[[r.gpu, r.memory] for r in [nvmlDeviceGetUtilizationRates(gpus[0])]][0]"
# The C prototype's type, and what the binding gives.
FRAMEBUFFER = (
    "(lambda v, n: [lib.nvmlVgpuInstanceGetFbUsage(v, ctypes.byref(n)), n.value, nvmlVgpuInstanceGetFbUsage(v)])"
    "(nvmlDeviceGetActiveVgpus(gpus[0])[0], ctypes.c_ulonglong(0))"
)


def run_vm(host: Host, vm_uuid: str, mdev: str, *, vf: int = 0, short: str = "4Q") -> str:
    """A VM with a vGPU; the key for set_load()."""
    key = host.make_vgpu(short, vf=vf, uuid=mdev)
    host.driver.hold(key, vm_uuid, f"vm{vf}")
    return key


def load(host: Host, key: str, framebuffer: int = 0, **wants: float) -> None:
    host.driver.set_load(key, Use(**wants), framebuffer)


def test_a_running_vgpus_sample_has_all_engines_and_the_newest_ticks_time(nvml: Nvml, host: Host) -> None:
    key = run_vm(host, host.vm_uuid, host.mdev_uuid)
    load(host, key, sm=60, memory=20, encoder=10, decoder=5)
    host.clock_us += SECOND_US + 123_456
    instance = host.gpu.vgpus[0].instance
    newest = host.clock_us - 123_456
    assert nvml.ask(host, SAMPLES.format(0)) == [[instance, newest, 60, 20, 10, 5]]


def test_a_vgpu_that_no_vm_runs_has_no_sample(nvml: Nvml, host: Host) -> None:
    host.make_vgpu()
    host.clock_us += SECOND_US
    assert nvml.ask(host, SAMPLES.format(0)) == []


def test_nothing_newer_is_not_found_until_the_next_tick(nvml: Nvml, host: Host) -> None:
    key = run_vm(host, host.vm_uuid, host.mdev_uuid)
    assert nvml.ask(host, SAMPLES.format(0)) == {"nvml": NOT_FOUND}, "no tick yet"
    load(host, key, sm=30)
    host.clock_us += TICK_US
    [[_, seen, sm, *_]] = nvml.ask(host, SAMPLES.format(0))
    assert (seen, sm) == (host.clock_us, 30)
    host.clock_us += TICK_US - 1
    assert nvml.ask(host, SAMPLES.format(seen)) == {"nvml": NOT_FOUND}
    assert nvml.ask(host, SAMPLES.format(2**64 - 1)) == {"nvml": NOT_FOUND}
    host.clock_us += 1
    assert nvml.ask(host, SAMPLES.format(seen))[0][1] == seen + TICK_US


def test_what_is_older_than_the_buffer_is_forgotten(nvml: Nvml, host: Host) -> None:
    key = run_vm(host, host.vm_uuid, host.mdev_uuid)
    load(host, key, sm=100)
    host.clock_us += 60 * SECOND_US
    load(host, key, sm=0)
    host.clock_us += BUFFER_US - 3 * SECOND_US
    assert nvml.ask(host, SAMPLES.format(0))[0][2] == 25
    host.clock_us += 3 * SECOND_US
    assert nvml.ask(host, SAMPLES.format(0))[0][2] == 0
    load(host, key, sm=1)
    assert len(host.gpu.vgpus[0].had) == 2, "the driver keeps no more than NVML can show"


def test_time_before_the_vgpu_ran_does_not_count(nvml: Nvml, host: Host) -> None:
    """Half a tick after a start there is a sample at the next tick, of the time since the start alone."""
    host.clock_us += TICK_US // 2
    key = run_vm(host, host.vm_uuid, host.mdev_uuid)
    load(host, key, sm=40)
    host.clock_us += TICK_US // 2
    assert nvml.ask(host, SAMPLES.format(0))[0][2] == 40


def test_a_guest_that_was_stopped_starts_without_load_and_without_history(nvml: Nvml, host: Host) -> None:
    key = run_vm(host, host.vm_uuid, host.mdev_uuid)
    load(host, key, sm=90, framebuffer=GIB)
    host.clock_us += SECOND_US
    host.driver.release(host.vm_uuid)
    assert nvml.ask(host, SAMPLES.format(0)) == []
    assert nvml.ask(host, RATES) == [0, 0]
    host.driver.hold(key, host.vm_uuid, "vm01")
    host.clock_us += SECOND_US
    assert [row[2:] for row in nvml.ask(host, SAMPLES.format(0))] == [[0, 0, 0, 0]]
    assert nvml.ask(host, FRAMEBUFFER)[1] == 0


def test_a_clock_that_is_set_back_does_not_turn_the_drivers_time_back(nvml: Nvml, host: Host) -> None:
    run_vm(host, host.vm_uuid, host.mdev_uuid)
    host.clock_us += SECOND_US
    [[_, seen, *_]] = nvml.ask(host, SAMPLES.format(0))
    host.clock_us -= 3600 * SECOND_US
    assert nvml.ask(host, SAMPLES.format(0))[0][1] == seen


timelines = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 100)), min_size=1, max_size=6)


@given(timelines, st.integers(0, 30))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_sample_is_the_mean_of_the_ticks_newer_than_last_seen(
    nvml: Nvml, make_host: Callable[[str], Host], timeline: Sequence[tuple[int, int]], back: int
) -> None:
    """Any loads, each some ticks long, asked from any tick on: as counted tick by tick, rounded with halves up."""
    host = make_host("mdev-vf")
    key = run_vm(host, host.vm_uuid, host.mdev_uuid)
    ticks: list[int] = []
    for length, percent in timeline:
        load(host, key, sm=percent)
        host.clock_us += length * TICK_US
        ticks += [percent] * length
    newer = ticks[-min(back, BUFFER_US // TICK_US) :] if back else []
    seen = nvml.ask(host, SAMPLES.format(host.clock_us - back * TICK_US))
    if not newer:
        assert seen == {"nvml": NOT_FOUND}
    else:
        assert seen[0][2] == (2 * sum(newer) + len(newer)) // (2 * len(newer))


def test_two_guests_share_and_the_gpus_rates_are_their_sum(nvml: Nvml, host: Host) -> None:
    first = run_vm(host, host.vm_uuid, host.mdev_uuid)
    second = run_vm(host, OTHER_VM, OTHER_MDEV, vf=1)
    load(host, first, sm=100, memory=30)
    load(host, second, sm=20, memory=5)
    host.clock_us += SECOND_US
    assert [row[2:4] for row in nvml.ask(host, SAMPLES.format(0))] == [[80, 24], [20, 5]]
    assert nvml.ask(host, RATES) == [100, 29]
    assert nvml.ask(host, RATES.replace("gpus[0]", "gpus[1]")) == [0, 0]


def test_the_newer_call_tells_the_same_and_has_jpeg_and_ofa(nvml: Nvml, host: Host) -> None:
    key = run_vm(host, host.vm_uuid, host.mdev_uuid)
    load(host, key, sm=60, memory=20, encoder=10, decoder=5)
    host.clock_us += SECOND_US
    infos = nvml.ask(host, INFOS.format(0))
    if host.version.startswith("535"):
        assert infos == {"nvml": 13}, "the function came later"
        return
    assert infos == [[*row, 0, 0] for row in nvml.ask(host, SAMPLES.format(0))]
    assert nvml.ask(host, INFOS.format(host.clock_us)) == {"nvml": NOT_FOUND}
    bad = "lib.nvmlDeviceGetVgpuInstancesUtilizationInfo(gpus[0], ctypes.byref(c_nvmlVgpuInstancesUtilizationInfo_v1_t()))"
    assert nvml.ask(host, bad) == VERSION_MISMATCH


def test_the_two_calls_of_the_protocol(nvml: Nvml, make_host: Callable[[str], Host]) -> None:
    """Without room the count of running vGPUs, with too little of it as well; with room what was written, and the type."""
    host = make_host("mdev-vf")
    call = (
        "(lambda kind, n, room: [lib.nvmlDeviceGetVgpuUtilization(gpus[0], ctypes.c_ulonglong(0),"
        " ctypes.byref(kind), ctypes.byref(n), room), n.value, kind.value])(ctypes.c_uint(9), ctypes.c_uint({}), {})"
    )
    room = "(c_nvmlVgpuInstanceUtilizationSample_t * 5)()"
    assert nvml.ask(host, call.format(0, None)) == [SUCCESS, 0, UNSIGNED_INT]
    run_vm(host, host.vm_uuid, host.mdev_uuid)
    run_vm(host, OTHER_VM, OTHER_MDEV, vf=1)
    host.clock_us += SECOND_US
    assert nvml.ask(host, call.format(0, None)) == [INSUFFICIENT_SIZE, 2, UNSIGNED_INT]
    assert nvml.ask(host, call.format(1, room)) == [INSUFFICIENT_SIZE, 2, UNSIGNED_INT]
    assert nvml.ask(host, call.format(5, room)) == [SUCCESS, 2, UNSIGNED_INT]
    assert nvml.ask(host, call.format(0, room))[0] == INVALID_ARGUMENT


@pytest.mark.parametrize("used", [0, 1, 4 * GIB - 1, 4 * GIB, 20 * GIB, 20 * GIB + 1, 48 * GIB])
def test_framebuffer_is_exact_to_the_byte_and_the_binding_cuts_it_at_32_bits(
    nvml: Nvml, make_host: Callable[[str], Host], used: int
) -> None:
    host = make_host("mdev-vf")
    load(host, run_vm(host, host.vm_uuid, host.mdev_uuid, short="48Q"), framebuffer=used)
    assert nvml.ask(host, FRAMEBUFFER) == [SUCCESS, used, used % 2**32]


def test_nvidia_smi_shows_the_same_numbers(smi: Smi, host: Host) -> None:
    """The tables and the queries, with straight edges."""
    key = run_vm(host, host.vm_uuid, host.mdev_uuid)
    load(host, key, sm=60, memory=20, encoder=10, decoder=5, framebuffer=GIB)
    host.clock_us += SECOND_US
    table, _ = smi.run(host, "vgpu")
    assert {len(line) for line in table.splitlines()[1:]} == {79}
    assert table.count(" 60% ") == 2
    summary, _ = smi.run(host)
    assert {len(line) for line in summary.splitlines()[1:] if line} == {91}
    assert " 60% " in summary
    assert f"4096MiB /  {host.gpu.board.framebuffer_mib}MiB" in summary
    assert "M+C+G   vgpu" in summary
    assert _values(smi.run(host, "vgpu", "-q")[0], "Utilization", 4) == ["60 %", "20 %", "10 %", "5 %"]
    assert _values(smi.run(host, "vgpu", "-q")[0], "FB Memory Usage", 3)[1:] == ["1024 MiB", "3072 MiB"]
    assert _values(smi.run(host, "-q", "-i", "0")[0], "Utilization", 2) == ["60 %", "20 %"]


def test_the_utilization_columns_come_again_each_second_with_a_row_per_running_vgpu(smi: Smi, host: Host) -> None:
    """In the columns of the driver's branch; dashes for a GPU without a running vGPU."""
    load(host, run_vm(host, host.vm_uuid, host.mdev_uuid), sm=60, memory=20, encoder=10, decoder=5)
    host.clock_us += SECOND_US
    extra = [] if host.version.startswith("535") else ["jpg", "ofa"]
    wanted = [
        ["#", "gpu", "vgpu", "sm", "mem", "enc", "dec", *extra],
        ["#", "Idx", "Id", *["%"] * (4 + len(extra))],
        ["0", str(host.gpu.vgpus[0].instance), "60", "20", "10", "5", *["0"] * len(extra)],
        *([str(index), "-", *["-"] * (4 + len(extra))] for index in range(1, len(host.gpus))),
    ]
    lines = [line.split() for line in smi.first_lines(len(wanted) + len(host.gpus), host, "vgpu", "-u")]
    assert lines == wanted + wanted[2:]


def _values(text: str, heading: str, count: int) -> list[Any]:
    """What stands behind the colons of the lines after a heading."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip() == heading) + 1
    return [line.partition(" : ")[2] or line.partition(": ")[2] for line in lines[start : start + count]]


SENSORS = "[nvmlDeviceGetTemperature(gpus[0], 0), nvmlDeviceGetPowerUsage(gpus[0])]"


def test_a_gpu_that_works_is_warmer_and_draws_more(nvml: Nvml, host: Host) -> None:
    assert nvml.ask(host, SENSORS) == [34, 32_000]
    key = run_vm(host, host.vm_uuid, host.mdev_uuid)
    load(host, key, sm=50)
    host.clock_us += TICK_US
    assert nvml.ask(host, SENSORS) == [54, 162_000]
    assert nvml.ask(host, "nvmlDeviceGetTemperature(gpus[0], 7)") == {"nvml": INVALID_ARGUMENT}
