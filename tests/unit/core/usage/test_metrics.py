"""What the store knows, as a page: judged by promtool, and by reading it back."""

from __future__ import annotations

import math
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from tests.unit.metrics import made_up, reading
from tests.unit.metrics.made_up import GIB, GPU, NOW
from tests.unit.metrics.reading import value
from vgpumgr.core.usage import metric_table, metrics
from vgpumgr.core.usage.guest import Guest
from vgpumgr.core.usage.readings import OFF, RUNNING, UNKNOWN, Counters, LatestHost, VgpuKey
from vgpumgr.core.usage.runs import LastRun, LastRuns, PlannedHost
from vgpumgr.metrics import page
from vgpumgr.names import VmUuid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.usage.metrics import Family
    from vgpumgr.core.usage.readings import VgpuReading

BUILD = metrics.Build(version="0.1.0", python="3.11.2")
MAX_AGE_S = 30.0
TABLE = {metric.name: metric for metric in metric_table.METRICS}


def families(hosts: Iterable[LatestHost], now: float = NOW + 1) -> tuple[Family, ...]:
    return metrics.families(hosts, now=now, max_age_s=MAX_AGE_S, build=BUILD)


def lines(*hosts: LatestHost, now: float = NOW + 1) -> list[reading.Line]:
    return reading.parse(page.text(families(hosts, now)))


def promtool(text: bytes) -> tuple[int, bytes]:
    done = subprocess.run(
        ["/usr/bin/promtool", "check", "metrics"], input=text, capture_output=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def check(found: list[reading.Line]) -> None:
    """The promises of every page that promtool does not look at."""
    identities = [(line.name, *sorted(line.labels.items())) for line in found]
    assert len(set(identities)) == len(identities)
    for line in found:
        metric = TABLE[line.name]
        assert set(line.labels) == set(metric.labels), line
        assert math.isfinite(line.value), line
        assert line.value >= 0, line
        if metric.unit == "ratio":
            assert line.value <= 1, line


FLEET = (
    made_up.latest(
        made_up.one_round(made_up.gpu(made_up.vgpu(1), made_up.vgpu(2, state=OFF)), made_up.gpu(pci="0000:81:00.0"))
    ),
    made_up.latest(made_up.failed_round(host="kvm02"), errors={"Unreachable": 3, "Busy": 1}),
)


@pytest.mark.parametrize("hosts", [FLEET, ()], ids=["fleet", "nothing collected yet"])
def test_promtool_has_nothing_to_say(hosts: tuple[LatestHost, ...]) -> None:
    assert promtool(page.text(families(hosts))) == (0, b"")


def test_a_running_vgpu_tells_its_use_as_shares_of_the_whole_gpu() -> None:
    """31 % over two seconds are 0.62 busy seconds; 20 GiB of framebuffer are exact to the byte."""
    found = lines(*FLEET)
    check(found)
    key = {"host": "kvm01", "gpu": GPU, "vm": "vm01", "slot": "vgpu0"}
    assert value(found, "vgpu_sm_utilization_ratio", **key) == 0.31
    assert value(found, "vgpu_memory_utilization_ratio", **key) == 0.07
    assert value(found, "vgpu_sm_busy_seconds_total", **key) == 0.62
    assert value(found, "vgpu_observed_seconds_total", **key) == 2
    assert value(found, "vgpu_share_entitled_ratio", **key) == 0.5
    assert value(found, "vgpu_framebuffer_used_bytes", **key) == 20 * GIB == 21474836480
    assert value(found, "vgpu_framebuffer_size_bytes", **key) == 24 * GIB
    assert value(found, "vgpu_sample_timestamp_seconds", **key) == NOW - 0.5
    assert value(found, "vgpu_running", **key) == 1
    assert value(found, "vgpu_info", **key, type_name="A40-24Q", type_id="560", origin="ours") == 1
    assert value(found, "gpu_sm_utilization_ratio", host="kvm01", gpu=GPU) == 0.33
    assert value(found, "gpu_vgpus", host="kvm01", gpu=GPU) == 2
    assert value(found, "gpu_vgpus_running", host="kvm01", gpu=GPU) == 1
    assert value(found, "gpu_info", host="kvm01", gpu=GPU, driver_version="570.1", policy="best-effort") == 1
    assert value(found, "host_sample_duration_seconds", host="kvm01") == 0.25
    assert value(found, "collect_last_timestamp_seconds") == NOW


@pytest.mark.parametrize(
    ("guests", "licensed", "expires"),
    [
        ([Guest(driver="570.1", license="licensed", license_expires="2027-01-15T08:00:00Z")], 1, 1_800_000_000),
        ([Guest(driver="570.1", license="licensed"), Guest(driver="570.1", license="unlicensed-restricted")], 0, None),
        ([Guest(driver="570.1")], None, None),
        ([None], None, None),
    ],
)
def test_a_vm_has_its_licence_if_all_of_its_vgpus_say_so(
    guests: list[Guest | None], licensed: int | None, expires: float | None
) -> None:
    vgpus = [replace(made_up.vgpu(1), guest=guest) for guest in guests]
    found = lines(made_up.latest(made_up.one_round(made_up.gpu(*vgpus))))
    assert value(found, "vgpu_licensed", vm="vm01") == licensed
    assert value(found, "vgpu_license_expiry_timestamp_seconds", vm="vm01") == expires
    assert value(found, "vgpu_guest_driver_info", vm="vm01", version="570.1") == (1 if guests[0] else None)


def test_an_engine_that_measured_nothing_is_0_and_one_that_the_driver_does_not_tell_of_is_absent() -> None:
    found = lines(*FLEET)
    assert value(found, "vgpu_encoder_utilization_ratio", vm="vm01") == 0
    assert value(found, "vgpu_encoder_busy_seconds_total", vm="vm01") == 0
    assert value(found, "vgpu_decoder_utilization_ratio", vm="vm01") is None
    assert value(found, "vgpu_decoder_busy_seconds_total", vm="vm01") is None


def test_a_vm_that_is_off_has_its_constants_and_its_size_and_no_use() -> None:
    of_it = {line.name.removeprefix("vgpumgr_") for line in lines(*FLEET) if line.labels.get("vm") == "vm02"}
    assert of_it == {"vgpu_info", "vgpu_running", "vgpu_share_entitled_ratio", "vgpu_framebuffer_size_bytes"}
    assert value(lines(*FLEET), "vgpu_running", vm="vm02") == 0


def test_a_vm_that_was_shut_down_keeps_its_counters_as_they_stood() -> None:
    """So that rate() over its next start misses nothing."""
    ran, off = (
        made_up.one_round(made_up.gpu(made_up.vgpu(1))),
        made_up.one_round(made_up.gpu(made_up.vgpu(1, state=OFF))),
    )
    found = lines(made_up.latest(off, counters=made_up.counted([ran])))
    assert value(found, "vgpu_sm_busy_seconds_total", vm="vm01") == 0.62
    assert value(found, "vgpu_observed_seconds_total", vm="vm01") == 2
    assert value(found, "vgpu_sm_utilization_ratio", vm="vm01") is None


def test_a_host_that_was_not_read_is_0_and_nothing_else_is_told_of_it_but_errors() -> None:
    found = [line for line in lines(*FLEET) if line.labels.get("host") == "kvm02"]
    assert [(line.name, line.labels, line.value) for line in found] == [
        ("vgpumgr_host_up", {"host": "kvm02"}, 0),
        ("vgpumgr_collect_errors_total", {"host": "kvm02", "error": "Busy"}, 1),
        ("vgpumgr_collect_errors_total", {"host": "kvm02", "error": "Unreachable"}, 3),
    ]


@pytest.mark.parametrize(("age", "up"), [(MAX_AGE_S, 1), (MAX_AGE_S + 0.1, 0), (-MAX_AGE_S - 0.1, 0)])
def test_what_is_older_than_the_limit_is_not_served(age: float, up: int) -> None:
    """Nor what is as far in the future: somebody set the clock back."""
    found = lines(FLEET[0], now=NOW + age)
    assert value(found, "host_up", host="kvm01") == up
    assert (value(found, "vgpu_sm_utilization_ratio", vm="vm01") is not None) == bool(up)
    assert value(found, "collect_last_timestamp_seconds") == NOW


def test_a_vgpu_that_went_is_gone_from_the_next_page() -> None:
    """Its counters stay in the store, and are not told."""
    before = made_up.one_round(made_up.gpu(made_up.vgpu(1), made_up.vgpu(2)))
    after = made_up.latest(made_up.one_round(made_up.gpu(made_up.vgpu(2))), counters=made_up.counted([before]))
    assert [line for line in lines(after) if line.labels.get("vm") == "vm01"] == []
    assert value(lines(after), "vgpu_sm_utilization_ratio", vm="vm02") == 0.31


def test_vgpus_that_nothing_tells_apart_are_one_series_added_up() -> None:
    """Two foreign ones that no VM is known of: what they do not have in common is left out of the constants."""
    foreign = [replace(made_up.vgpu(number, vm=None, slot=None), origin="foreign") for number in (1, 2)]
    found = lines(made_up.latest(made_up.one_round(made_up.gpu(*foreign))))
    check(found)
    key = {"host": "kvm01", "gpu": GPU, "vm": "", "slot": ""}
    assert value(found, "vgpu_framebuffer_size_bytes", **key) == 48 * GIB
    assert value(found, "vgpu_sm_utilization_ratio", **key) == 0.62
    assert value(found, "vgpu_info", **key, origin="foreign", type_name="A40-24Q", vf="", vgpu_uuid="") == 1


def test_one_of_them_that_is_unknown_leaves_the_sum_unknown_and_one_that_is_off_does_not() -> None:
    runs = made_up.vgpu(1, vm=None, slot=None)
    off, silent = (made_up.vgpu(2, vm=None, slot=None, state=state, sm=None, used=None) for state in (OFF, RUNNING))
    with_off = lines(made_up.latest(made_up.one_round(made_up.gpu(runs, off))))
    with_silent = lines(made_up.latest(made_up.one_round(made_up.gpu(runs, silent))))
    assert value(with_off, "vgpu_sm_utilization_ratio") == 0.31
    assert value(with_off, "vgpu_framebuffer_used_bytes") == 20 * GIB
    assert value(with_silent, "vgpu_sm_utilization_ratio") is None
    assert value(with_silent, "vgpu_framebuffer_used_bytes") is None


def test_vgpus_that_are_one_series_count_each_for_themselves() -> None:
    both = replace(made_up.vgpu(1), slot=None, instances=(1, 2))
    found = lines(made_up.latest(made_up.one_round(made_up.gpu(both, made_up.vgpu(2), made_up.vgpu(3, state=OFF)))))
    assert (value(found, "gpu_vgpus"), value(found, "gpu_vgpus_running")) == (4, 3)


@pytest.mark.parametrize(
    ("told", "listed", "made", "running"), [(True, True, 3, 0), (False, True, 3, None), (True, False, None, 0)]
)
def test_a_gpu_has_as_many_vgpus_as_sysfs_shows_and_an_unknown_number_where_it_shows_none_of_them(
    told: bool, listed: bool, made: int | None, running: int | None
) -> None:
    gpu = replace(made_up.gpu(), reported=told, listed=listed, made=made)
    found = lines(made_up.latest(made_up.one_round(gpu)))
    assert (value(found, "gpu_vgpus"), value(found, "gpu_vgpus_running")) == (made, running)


def test_where_a_state_is_unknown_so_is_the_number_of_those_that_run() -> None:
    found = lines(made_up.latest(made_up.one_round(made_up.gpu(made_up.vgpu(1), made_up.vgpu(2, state=UNKNOWN)))))
    assert value(found, "gpu_vgpus_running") is None


def test_two_vms_without_a_name_are_told_apart_by_their_uuids() -> None:
    both = [replace(made_up.vgpu(number, vm=None), vm_uuid=VmUuid(made_up.uuid(number))) for number in (1, 2)]
    found = lines(made_up.latest(made_up.one_round(made_up.gpu(*both))))
    assert value(found, "vgpu_sm_utilization_ratio", vm=made_up.uuid(2)) == 0.31


def test_any_name_of_a_vm_can_be_told() -> None:
    """Half a surrogate pair, which is no text at all, as a question mark."""
    names = ['say "vm"', "back\\slash", "two\nlines", "café 🐧", "\x1b[2J", 'a{b="c"} 1 2', "\ud83d"]
    vgpus = [made_up.vgpu(number, vm=name) for number, name in enumerate(names)]
    hosts = [made_up.latest(made_up.one_round(made_up.gpu(*vgpus)))]
    found = lines(*hosts)
    check(found)
    for name in names:
        assert value(found, "vgpu_sm_utilization_ratio", vm=name.replace("\ud83d", "?")) == 0.31
    assert promtool(page.text(families(hosts))) == (0, b"")


def test_labels_of_values_are_the_key_and_nothing_else() -> None:
    for metric in metric_table.METRICS:
        if metric.name.startswith("vgpumgr_vgpu_") and not metric.name.endswith("_info"):
            assert metric.labels == ("host", "gpu", "vm", "slot")
        if metric.name.startswith("vgpumgr_gpu_") and metric is not metric_table.GPU_INFO:
            assert metric.labels == ("host", "gpu")


_LOADS = st.none() | st.integers(0, 100)
_VGPUS = st.builds(
    lambda number, vm, sm, state, used, slot: made_up.vgpu(number, vm=vm, sm=sm, state=state, used=used, slot=slot),
    number=st.integers(1, 30),
    vm=st.none() | st.sampled_from(["", "a", "b"]) | st.text(max_size=3),
    sm=_LOADS,
    state=st.sampled_from([RUNNING, OFF, UNKNOWN]),
    used=st.none() | st.integers(0, 2**45),
    slot=st.none() | st.sampled_from(["vgpu0", "vgpu1"]),
)


@LAW
@given(
    st.lists(st.lists(_VGPUS, max_size=6), max_size=3),
    st.floats(-1e6, 1e6),
    st.dictionaries(st.text(max_size=4), st.integers(0, 10**9), max_size=3),
)
def test_every_page_keeps_the_promises(groups: list[list[VgpuReading]], age: float, errors: dict[str, int]) -> None:
    gpus = [made_up.gpu(*group, pci=f"0000:{number:02x}:00.0") for number, group in enumerate(groups)]
    check(lines(made_up.latest(made_up.one_round(*gpus), errors=errors), now=NOW + age))


def test_counters_that_are_no_numbers_are_left_out() -> None:
    """A page with NaN would be taken, and poison every sum."""
    last = made_up.one_round(made_up.gpu(made_up.vgpu(1)))
    key = VgpuKey(host=last.host, gpu=GPU, vm="vm01", slot="vgpu0")
    found = lines(made_up.latest(last, counters={key: Counters(observed_s=math.nan, sm_busy_s=math.inf)}))
    check(found)
    assert value(found, "vgpu_observed_seconds_total", vm="vm01") is None


def test_what_is_odd_about_one_host_leaves_the_page_to_the_others() -> None:
    odd = made_up.one_round(made_up.gpu(made_up.vgpu(1)), host="kvm02")
    assert odd.reading is not None
    huge = replace(odd, reading=replace(odd.reading, gpus=(replace(made_up.gpu(), framebuffer_size_bytes=10**400),)))
    found = lines(made_up.latest(huge), FLEET[0])
    sizes = [line.labels["host"] for line in found if line.name == "vgpumgr_gpu_framebuffer_size_bytes"]
    assert set(sizes) == {"kvm01"}
    broken = replace(odd, reading=replace(odd.reading, gpus=(None,)))  # type: ignore[arg-type]
    found = lines(made_up.latest(broken), FLEET[0])
    up = {line.labels["host"]: line.value for line in found if line.name == "vgpumgr_host_up"}
    assert up == {"kvm01": 1, "kvm02": 0}


def test_what_runs_left_is_told_host_by_host_and_an_unreached_host_has_no_drift() -> None:
    runs = LastRuns(
        runs=(LastRun(kind="plan", at=NOW - 9e4, seconds=2.5, exit_code=3),),
        hosts=(
            PlannedHost(
                host="kvm01",
                at=NOW - 9e4,
                reached=True,
                drift=2,
                waiting=1,
                nvml_silent=True,
                without_room={"--profile 4Q": 3},
                refused={"NoCapacity": 2},
                findings={"lost": 1, "foreign": 3},
                fits={"A40-4Q": 9, "A40-48Q": 0},
                owners={"vm01": 'team "a"'},
            ),
            PlannedHost(host="kvm02", at=NOW - 9e4, reached=False),
        ),
    )
    made = page.text(metrics.families((), now=NOW, max_age_s=MAX_AGE_S, build=BUILD, runs=runs))
    assert promtool(made) == (0, b"")
    found = reading.parse(made)
    check(found)
    told = {
        (line.name.removeprefix("vgpumgr_"), *(line.labels[name] for name in TABLE[line.name].labels)): line.value
        for line in found
        if line.name.startswith(("vgpumgr_host_", "vgpumgr_run_", "vgpumgr_vm_"))
    }
    assert told == {
        ("run_last_timestamp_seconds", "plan"): NOW - 9e4,
        ("run_last_duration_seconds", "plan"): 2.5,
        ("run_last_exit_code", "plan"): 3,
        ("host_plan_timestamp_seconds", "kvm01"): NOW - 9e4,
        ("host_plan_timestamp_seconds", "kvm02"): NOW - 9e4,
        ("host_planned", "kvm01"): 1,
        ("host_planned", "kvm02"): 0,
        ("host_drift", "kvm01"): 2,
        ("host_waiting", "kvm01"): 1,
        ("host_without_room", "kvm01", "--profile 4Q"): 3,
        ("host_refused", "kvm01", "NoCapacity"): 2,
        ("host_findings", "kvm01", "lost"): 1,
        ("host_findings", "kvm01", "foreign"): 3,
        ("host_nvml_silent", "kvm01"): 1,
        ("host_fits", "kvm01", "A40-4Q"): 9,
        ("host_fits", "kvm01", "A40-48Q"): 0,
        ("vm_owner_info", "kvm01", "vm01", 'team "a"'): 1,
    }
