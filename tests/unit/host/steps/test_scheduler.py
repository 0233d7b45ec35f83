"""How a GPU's engines are shared: read as nvml.h says it, set only where nothing uses the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from tests.unit.host.fakehost import (
    GPU_A,
    GPU_B,
    HARDWARE,
    MDEV,
    MDEV_VF,
    UUID_A,
    UUID_B,
    VM,
    FakeHost,
    execute,
    make_entry,
    make_scheduler_step,
    make_setting,
    observe,
    stat_line,
)
from tests.unit.host.fakenvml import EQUAL_SHARE, FIXED_SHARE, GRAPHICS, FakeNvml

if TYPE_CHECKING:
    from pathlib import Path

each_api = pytest.mark.parametrize("api", [1, 2])


def scheduler(host: FakeHost, nvml: FakeNvml) -> dict[str, Any]:
    found: dict[str, Any] = observe(host, nvml)["gpus"][0]["scheduler"]
    return found


def rows(snapshot: dict[str, Any]) -> list[dict[str, str]]:
    return [row for row in snapshot["unknown"] if "scheduler" in row["what"]]


# read


def test_what_the_driver_would_take_is_told(host: FakeHost) -> None:
    assert scheduler(host, FakeNvml())["caps"] == {
        "policies": ["best-effort", "equal-share", "fixed-share"],
        "arr": True,
        "min_time_slice_ns": 1_000_000,
        "max_time_slice_ns": 30_000_000,
        "min_frequency_hz": 63,
        "max_frequency_hz": 960,
        "min_averaging_factor": 1,
        "max_averaging_factor": 60,
    }


def test_policies_that_are_not_there_or_not_known_are_left_out(host: FakeHost) -> None:
    nvml = FakeNvml(caps={"supportedSchedulers": (1, 7, 0), "isArrModeSupported": 0})
    caps = scheduler(host, nvml)["caps"]
    assert (caps["policies"], caps["arr"]) == (["best-effort"], False)


@pytest.mark.parametrize(
    ("mode", "known", "arr", "numbers"),
    [
        pytest.param(2, 1, True, (33, 5_000_000), id="with ARR it has both numbers"),
        pytest.param(1, 1, False, (None, 5_000_000), id="without ARR its one number is the time slice"),
        pytest.param(0, 1, None, (33, 5_000_000), id="in the default mode it is read as the GPU can do it"),
        pytest.param(0, 0, None, (None, 33), id="in the default mode of a GPU that knows no ARR"),
    ],
)
def test_without_the_v2_calls_there_is_one_row_whose_union_is_read_by_its_mode(
    host: FakeHost, mode: int, known: int, arr: bool | None, numbers: tuple[int | None, int]
) -> None:
    nvml = FakeNvml(active=1, caps={"isArrModeSupported": known})
    nvml.put(GPU_A, GRAPHICS, policy=EQUAL_SHARE, arr=mode, factor=33, slice=5_000_000)
    found = scheduler(host, nvml)
    assert found["api"] == 1
    assert found["engines"] == [
        {
            "engine": "graphics",
            "policy": "equal-share",
            "arr": arr,
            "averaging_factor": numbers[0],
            "time_slice_ns": numbers[1],
        }
    ]


def test_with_the_v2_calls_each_engine_that_the_gpu_has_is_a_row(host: FakeHost) -> None:
    nvml = FakeNvml(api=2, active=1, video=(3,))
    nvml.put(GPU_A, GRAPHICS, policy=FIXED_SHARE, factor=20, slice=2_000_000)
    found = scheduler(host, nvml)
    assert found["api"] == 2
    assert [(row["engine"], row["policy"], row["arr"], row["time_slice_ns"]) for row in found["engines"]] == [
        ("graphics", "fixed-share", True, 2_000_000),
        ("nvenc0", "best-effort", None, None),
    ]


def failing_for_video(nvml: FakeNvml, function: str, code: int) -> FakeNvml:
    """The driver answers so for every engine but graphics."""
    answer = nvml.answers[function]

    def asked(pci: str, state: Any) -> Any:
        if state.engineId != GRAPHICS:
            raise pynvml.NVMLError(code)
        return answer(pci, state)

    nvml.answers[function] = asked
    return nvml


@pytest.mark.parametrize("code", [2, 3, 10, 13, 999])
def test_whatever_a_driver_says_of_a_video_engine_leaves_graphics_told_and_set(host: FakeHost, code: int) -> None:
    """What 580 to 595 answer for NVENC on an L4 or an H100 is not known."""
    blind = failing_for_video(FakeNvml(api=2), "nvmlDeviceGetVgpuSchedulerState_v2", code)
    assert [row["engine"] for row in scheduler(host, blind)["engines"]] == ["graphics"]
    nvml = failing_for_video(FakeNvml(api=2, host=host), "nvmlDeviceSetVgpuSchedulerState_v2", code)
    done = execute(host, make_scheduler_step(2), nvml=nvml)["ok"]
    assert done["note"] == "the driver keeps nvenc0 best-effort, nvenc1 best-effort"
    assert nvml.state(GPU_A, GRAPHICS)["policy"] == FIXED_SHARE


@pytest.mark.parametrize("code", [15, 16, 19])
def test_a_gpu_that_has_failed_is_not_taken_for_one_without_video_engines(host: FakeHost, code: int) -> None:
    blind = failing_for_video(FakeNvml(api=2), "nvmlDeviceGetVgpuSchedulerState_v2", code)
    assert observe(host, blind)["gpus"][0]["scheduler"] is None


@each_api
def test_while_nothing_is_scheduled_slice_and_factor_are_null_and_the_policy_is_told(host: FakeHost, api: int) -> None:
    nvml = FakeNvml(api=api)
    nvml.put(GPU_A, GRAPHICS, policy=FIXED_SHARE, arr=2, factor=33, slice=2_000_000)
    engine = scheduler(host, nvml)["engines"][0]
    assert (engine["policy"], engine["averaging_factor"], engine["time_slice_ns"]) == ("fixed-share", None, None)


def test_an_older_binding_without_the_v2_functions_reads_the_first_ones(host: FakeHost) -> None:
    nvml = FakeNvml()
    del nvml.fail["nvmlDeviceGetVgpuSchedulerState_v2"]
    assert not hasattr(nvml, "nvmlDeviceGetVgpuSchedulerState_v2")
    assert scheduler(host, nvml)["api"] == 1


@each_api
def test_a_gpu_in_mig_mode_has_no_scheduler_and_is_not_asked_for_one(host: FakeHost, api: int) -> None:
    nvml = FakeNvml(api=api, mig=1)
    snapshot = observe(host, nvml)
    assert (snapshot["gpus"][0]["scheduler"], rows(snapshot)) == (None, [])
    assert not any("Scheduler" in call for call in nvml.calls)


def test_a_gpu_that_offers_no_vgpus_is_not_asked(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, gpus=())
    host.add_gpu(GPU_A, UUID_A, None)
    nvml = FakeNvml()
    snapshot = observe(host, nvml)
    assert (snapshot["gpus"][0]["scheduler"], rows(snapshot)) == (None, [])
    assert not any("Scheduler" in call for call in nvml.calls)


# set


@each_api
@pytest.mark.parametrize("policy", ["equal-share", "fixed-share"])
def test_a_policy_is_set_and_read_back(host: FakeHost, api: int, policy: str) -> None:
    nvml = FakeNvml(api=api, video_takes=True, host=host)
    answer = execute(host, make_scheduler_step(api, setting=make_setting(policy)), nvml=nvml)["ok"]
    assert {engine["policy"] for engine in answer["scheduler"]["engines"]} == {policy}
    assert answer["scheduler"] == scheduler(host, nvml)
    assert answer["note"] is None
    assert nvml.state(GPU_B)["policy"] == 1


@pytest.mark.parametrize(
    ("setting", "state"),
    [
        ({"arr": False, "time_slice_ns": 3_000_000}, {"arr": 1, "factor": 0, "slice": 3_000_000}),
        ({"arr": False}, {"arr": 1, "factor": 0, "slice": 2_000_000}),
        ({"arr": True, "frequency_hz": 500, "averaging_factor": 20}, {"arr": 2, "factor": 20, "slice": 2_000_000}),
        ({"frequency_hz": 500}, {"arr": 2, "factor": 33, "slice": 2_000_000}),
        ({}, {"arr": 0, "factor": 33, "slice": 1_000_000_000 // 480}),
    ],
)
def test_numbers_arrive_in_their_half_of_the_union(
    host: FakeHost, setting: dict[str, Any], state: dict[str, int]
) -> None:
    nvml = FakeNvml(host=host)
    execute(host, make_scheduler_step(setting=make_setting(**setting)), nvml=nvml)
    assert nvml.state() == {"policy": FIXED_SHARE, **state}


def test_factor_and_frequency_arrive_per_engine(host: FakeHost) -> None:
    nvml = FakeNvml(api=2, video_takes=True, host=host)
    execute(host, make_scheduler_step(2, setting=make_setting(frequency_hz=500, averaging_factor=7)), nvml=nvml)
    assert [nvml.state(GPU_A, engine)["slice"] for engine in (1, 2, 3)] == [2_000_000] * 3
    assert nvml.state(GPU_A, 3)["factor"] == 7


@pytest.mark.parametrize(
    ("api", "wrong", "found"),
    [
        (1, {"expect": {"graphics": "equal-share"}}, "graphics best-effort"),
        (1, {"expect": {"graphics": None}}, "graphics best-effort"),
        (1, {"api": 2}, "v1"),
        (1, {"gpu_uuid": UUID_B}, UUID_A),
        (1, {"gpu": "0000:99:00.0"}, "no such GPU"),
        (2, {"expect": {"graphics": "best-effort"}}, "graphics best-effort, nvenc0 best-effort, nvenc1 best-effort"),
    ],
)
def test_a_host_that_is_not_as_expected_is_left_alone(
    host: FakeHost, api: int, wrong: dict[str, Any], found: str
) -> None:
    nvml = FakeNvml(api=api, host=host)
    error = execute(host, make_scheduler_step(**{"api": api, **wrong}), nvml=nvml)["err"]
    assert (error["kind"], error["found"]) == ("Changed", found)
    assert nvml.state()["policy"] == 1


@pytest.mark.parametrize("framework", HARDWARE)
def test_with_a_vgpu_that_is_open_nothing_is_set_and_its_vm_is_named(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    host.make_vgpu("0000:41:00.4", 560, MDEV if framework == MDEV_VF else None)
    host.add_process(41, "/dev/vfio/77" if framework == MDEV_VF else "/dev/vfio/650", command=("qemu", "-name", "vm07"))
    nvml = FakeNvml(host=host)
    error = execute(host, make_scheduler_step(), nvml=nvml)["err"]
    assert (error["kind"], error["vm"]) == ("InUse", "vm07")
    assert error["message"] == f"GPU {GPU_A} is in use by vm07"
    assert error["holders"] == ["NVIDIA A40-4Q on 0000:41:00.4: open by pid 41 (vm07)"]
    assert not any("SetVgpuScheduler" in call for call in nvml.calls)


def test_with_a_vm_that_nvml_sees_running_nothing_is_set(host: FakeHost) -> None:
    host.add_process(41, "/dev/kvm", command=("qemu", "-name", "guest=vm01", "-uuid", VM))
    nvml = FakeNvml(active=1, host=host)
    error = execute(host, make_scheduler_step(), nvml=nvml)["err"]
    assert (error["kind"], error["holders"]) == ("InUse", [f"{VM} runs on it"])
    assert nvml.state()["policy"] == 1


@pytest.mark.parametrize("ending", [True, False])
def test_what_nvml_still_lists_of_a_vm_whose_qemu_is_gone_or_ending_is_waited_for(host: FakeHost, ending: bool) -> None:
    if ending:
        host.add_process(41, command=("qemu", "-uuid", VM), state="D")
    nvml = FakeNvml(active=1, host=host)
    error = execute(host, make_scheduler_step(), nvml=nvml)["err"]
    assert (error["kind"], error["vm"]) == ("NotYet", VM)
    assert "active for VM" in error["waits_for"][0]
    assert "nvmlDeviceSetVgpuSchedulerState" not in nvml.calls


def test_when_it_cannot_be_told_what_is_in_use_nothing_is_set_and_the_owner_is_named(host: FakeHost) -> None:
    host.make_mdev("0000:41:00.4", 560, MDEV)
    host.put_ledger(make_entry(MDEV_VF))
    host.put("/proc/43/fd", "not a directory")
    host.put("/proc/43/stat", stat_line(43, "cat", "S"))
    nvml = FakeNvml(host=host)
    error = execute(host, make_scheduler_step(), nvml=nvml)["err"]
    assert (error["kind"], error["vm"]) == ("InUse", "vm01")
    assert error["holders"][0].startswith("cannot tell: ")
    lost = FakeNvml(host=host, nvmlDeviceGetActiveVgpus=pynvml.NVML_ERROR_GPU_IS_LOST)
    assert execute(host, make_scheduler_step(), nvml=lost)["err"]["kind"] == "InUse"


def test_a_vm_that_starts_while_the_step_runs_stops_it(host: FakeHost) -> None:
    host.make_mdev("0000:41:00.4", 560, MDEV)

    def start(point: str) -> None:
        if point == "looked":
            host.add_process(41, "/dev/vfio/77")

    nvml = FakeNvml(host=host)
    assert execute(host, make_scheduler_step(), nvml=nvml, at=start)["err"]["kind"] == "InUse"
    assert nvml.state()["policy"] == 1


@each_api
def test_the_driver_that_refuses_for_an_idle_vgpu_is_quoted(host: FakeHost, api: int) -> None:
    host.make_mdev("0000:41:00.4", 560, MDEV)
    error = execute(host, make_scheduler_step(api), nvml=FakeNvml(api=api, host=host))["err"]
    assert (error["kind"], error["code"]) == ("NvmlRefused", 3)
    assert error["function"].startswith("nvmlDeviceSetVgpuSchedulerState")
    assert error["message"].endswith(": Not Supported (NVML 3)")


@pytest.mark.parametrize(
    ("function", "code"),
    [
        ("nvmlInit", pynvml.NVML_ERROR_DRIVER_NOT_LOADED),
        ("nvmlDeviceGetHandleByPciBusId", pynvml.NVML_ERROR_GPU_IS_LOST),
        ("nvmlDeviceGetVgpuSchedulerCapabilities", pynvml.NVML_ERROR_NOT_SUPPORTED),
        ("nvmlDeviceGetVgpuSchedulerState", pynvml.NVML_ERROR_UNKNOWN),
        ("nvmlDeviceSetVgpuSchedulerState", pynvml.NVML_ERROR_RESET_REQUIRED),
    ],
)
def test_any_refusal_keeps_its_function_and_number(host: FakeHost, function: str, code: int) -> None:
    fail: dict[str, Any] = {function: code}
    error = execute(host, make_scheduler_step(), nvml=FakeNvml(host=host, **fail))["err"]
    assert (error["kind"], error["function"], error["code"]) == ("NvmlRefused", function, code)


def test_a_refusal_after_some_engines_says_which_were_set(host: FakeHost) -> None:
    nvml = FakeNvml(api=2, video_takes=True, host=host)

    def break_it(point: str) -> None:
        if point == "set-nvenc1":
            nvml.fail["nvmlDeviceSetVgpuSchedulerState_v2"] = pynvml.NVML_ERROR_RESET_REQUIRED

    error = execute(host, make_scheduler_step(2), nvml=nvml, at=break_it)["err"]
    assert (error["kind"], error["code"]) == ("NvmlRefused", 16)
    assert error["message"].endswith("; set before that: nvenc0, nvenc1")
    assert (nvml.state()["policy"], nvml.state(GPU_A, 3)["policy"]) == (1, FIXED_SHARE)


def test_taken_and_without_effect_is_a_refusal(host: FakeHost) -> None:
    nvml = FakeNvml(host=host)
    nvml.answers["nvmlDeviceSetVgpuSchedulerState"] = lambda pci, state: None
    error = execute(host, make_scheduler_step(), nvml=nvml)["err"]
    assert (error["kind"], error["code"]) == ("NvmlRefused", 0)
    assert "without effect: graphics best-effort" in error["message"]
