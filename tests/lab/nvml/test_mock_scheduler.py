"""vGPU schedulers from NVML's side: the real pynvml and nvidia-smi, through the mock and a mounted /sys, to the driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from vgpumgr.lab.driver.model import Engine, Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.nvml.conftest import Host, Live, Nvml

pytestmark = pytest.mark.lab

NOT_SUPPORTED, INVALID_ARGUMENT, FUNCTION_NOT_FOUND = {"nvml": 3}, {"nvml": 2}, {"nvml": 13}
CAPS = (
    "[[list(c.supportedSchedulers), c.isArrModeSupported, c.minTimeslice, c.maxTimeslice, c.minFrequencyForARR,"
    " c.maxFrequencyForARR, c.minAvgFactorForARR, c.maxAvgFactorForARR]"
    " for c in [nvmlDeviceGetVgpuSchedulerCapabilities(gpus[0])]][0]"
)
# policy, ARR mode, and the union as it is read with ARR (factor, slice) and without (slice)
GET = (
    "[[s.schedulerPolicy, s.arrMode, s.schedulerParams.vgpuSchedDataWithARR.avgFactor,"
    " s.schedulerParams.vgpuSchedDataWithARR.timeslice]"
    " for s in [nvmlDeviceGetVgpuSchedulerState(gpus[0])]][0]"
)
DEFAULT, OFF, ON = 0, 1, 2


def set_v1(policy: int, *, arr: int = DEFAULT, first: int = 0, second: int = 0) -> str:
    """`first` is the union's factor, or the slice where ARR is off; `second` the frequency."""
    state = (
        f"c_nvmlVgpuSchedulerSetState_t({policy}, {arr},"
        f" c_nvmlVgpuSchedulerSetParams_t(c_nvmlVgpuSchedSetDataWithARR_t({first}, {second})))"
    )
    return f"attempt(nvmlDeviceSetVgpuSchedulerState, gpus[0], {state})"


def set_v2(engine: int, policy: int, factor: int = 0, frequency: int = 0) -> str:
    state = f"c_nvmlVgpuSchedulerState_v2_t({engine}, {policy}, {factor}, {frequency})"
    return f"attempt(nvmlDeviceSetVgpuSchedulerState_v2, gpus[0], {state})"


def get_v2(engine: int) -> str:
    state = f"attempt(nvmlDeviceGetVgpuSchedulerState_v2, gpus[0], c_nvmlVgpuSchedulerStateInfo_v2_t({engine}))"
    return f"[s if isinstance(s, dict) else [s.schedulerPolicy, s.avgFactor, s.timeslice] for s in [{state}]][0]"


def test_the_caps_are_the_driver_s(nvml: Nvml, host: Host) -> None:
    assert nvml.ask(host, CAPS) == [[1, 2, 3], 1, 1_000_000, 30_000_000, 63, 960, 1, 60]


def test_what_pynvml_sets_is_what_it_reads_while_a_vm_runs_clamped_where_it_was_too_much(
    live: Callable[[str], Live],
) -> None:
    one = live("mdev-vf")
    assert one.ask(set_v1(3, arr=ON, first=99, second=480)) == 0
    assert one.ask(GET) == [3, 0, 0, 0], "idle: the policy and nothing else"
    one.host.start_vm()
    assert one.ask(GET) == [3, ON, 60, 2_083_333]
    assert one.ask(set_v1(2)) == NOT_SUPPORTED
    assert one.ask(GET)[0] == 3
    assert [(write["data"], write["errno"]) for write in one.sys.writes] == [
        ("scheduler pci=0000:41:00.0 policy=3 arr=2 factor=99 frequency=480 slice=0\n", None),
        ("scheduler pci=0000:41:00.0 policy=2 arr=0 factor=0 frequency=0 slice=0\n", "ENOTSUP"),
    ]


def test_without_arr_the_union_is_a_slice(live: Callable[[str], Live]) -> None:
    one = live("mdev-pf")
    assert one.ask(set_v1(2, arr=OFF, first=5_000_000, second=77)) == 0
    one.host.start_vm()
    policy, arr, time_slice, _ = one.ask(GET)
    assert (policy, arr, time_slice) == (2, OFF, 5_000_000)


def test_only_the_gpu_that_was_named_changes(live: Callable[[str], Live]) -> None:
    one = live("mdev-vf")
    assert one.ask(set_v1(2).replace("gpus[0]", "gpus[1]")) == 0
    assert [gpu.schedulers[Engine.GRAPHICS].policy for gpu in one.host.gpus] == [
        Policy.BEST_EFFORT,
        Policy.EQUAL_SHARE,
    ]


def test_the_v2_calls_are_there_from_r595_on_and_speak_of_one_engine(live: Callable[[str], Live]) -> None:
    old = live("mdev-vf")
    assert [old.ask(code) for code in (set_v2(1, 2), get_v2(1))] == [FUNCTION_NOT_FOUND] * 2
    new = live("vendor-vfio")
    assert new.ask(set_v1(2, arr=OFF, first=2_000_000)) == NOT_SUPPORTED
    assert new.ask(set_v2(1, 3, 20, 500)) == 0
    assert new.ask(set_v2(3, 2)) == 0
    new.host.start_vm()
    assert [new.ask(get_v2(engine)) for engine in (1, 2)] == [[3, 20, 2_000_000], [1, 0, 0]]
    assert new.ask(get_v2(3))[:2] == [2, 33]
    assert [new.ask(get_v2(engine)) for engine in (0, 4)] == [INVALID_ARGUMENT] * 2
    assert new.ask(GET)[0] == 3, "the old call tells of graphics"


def test_a_bad_policy_and_mig_are_not_supported(live: Callable[[str], Live]) -> None:
    one = live("vendor-vfio")
    assert one.ask(set_v1(4)) == NOT_SUPPORTED
    one.host.gpu.mig_on = True
    for code in (CAPS, GET, set_v1(2), get_v2(1), set_v2(1, 2)):
        assert one.ask(code) == NOT_SUPPORTED


@pytest.mark.parametrize(("branch", "caps_there", "set_there"), [(525, False, False), (530, True, False)])
def test_earlier_branches_do_not_have_the_calls(
    nvml: Nvml, make_host: Callable[[str], Host], branch: int, caps_there: bool, set_there: bool
) -> None:
    text = make_host("mdev-pf").text.replace("version=535.", f"version={branch}.")
    assert (nvml.ask(text, CAPS) != FUNCTION_NOT_FOUND) == caps_there
    assert (nvml.ask(text, set_v1(2)) != FUNCTION_NOT_FOUND) == set_there


@pytest.mark.parametrize("line", ["scheduler policy=2", "scheduler pci=0000:41:00.0 policy=two", "reboot", " "])
def test_a_line_that_is_no_request_is_refused(live: Callable[[str], Live], line: str) -> None:
    one = live("mdev-vf")
    with pytest.raises(OSError, match="Invalid argument"):
        one.sys.nvml_path.write_text(line, encoding="ascii")


# nvidia-smi


def lines_of(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^ +(\S.*?) +: (.*)$", text, re.MULTILINE)


def test_nvidia_smi_prints_slice_and_factor_only_while_a_vgpu_is_active(live: Callable[[str], Live]) -> None:
    one = live("mdev-vf")
    out, status = one.smi("set-scheduler-state", "-p", "2", "-asf", "480", "-i", "0")
    assert (out, status) == ("Set vGPU scheduler state for GPU 00000000:41:00.0.\n", 0)
    idle = [("Active vGPUs", "0"), ("Scheduler Policy", "Equal Share")]
    assert lines_of(one.smi("-ss", "-i", "0")[0]) == idle
    assert lines_of(one.smi("-ss", "-i", "1")[0])[1] == ("Scheduler Policy", "Best Effort")
    one.host.start_vm()
    assert lines_of(one.smi("--schedulerstate", "-i", "0")[0]) == [
        ("Active vGPUs", "1"),
        ("Scheduler Policy", "Equal Share"),
        ("ARR Mode", "Enabled"),
        ("Average Factor", "33"),
        ("Time Slice(ns)", "2083333"),
    ]


def test_on_r595_there_is_no_line_and_no_option_for_arr(live: Callable[[str], Live]) -> None:
    one = live("vendor-vfio")
    out, status = one.smi("set-scheduler-state", "-p", "2", "-a", "0", "-ts", "2000000")
    assert (out, status) == ("ERROR: Option -a is not recognized. Please run 'nvidia-smi -h'.\n", 2)
    assert one.smi("set-scheduler-state", "--policy=3", "--arr-sched-frequency=500")[1] == 0
    assert {gpu.schedulers[Engine.GRAPHICS].policy for gpu in one.host.gpus} == {Policy.FIXED_SHARE}
    one.host.start_vm()
    assert [name for name, _ in lines_of(one.smi("-ss", "-i", "0")[0])][2:] == ["Average Factor", "Time Slice(ns)"]


@pytest.mark.parametrize(
    "words",
    ["", "-p", "-p two", "-p 2 -a 2", "-p 2 -ts 2000000", "-p 2 -a 0 -asf 480", "-p 2 -a 0 -aavg 3", "-p 2 -q"],
)
def test_options_that_do_not_go_together_are_refused_unasked(live: Callable[[str], Live], words: str) -> None:
    one = live("mdev-vf")
    assert one.smi("set-scheduler-state", *words.split())[1] == 2
    assert one.sys.writes == []
