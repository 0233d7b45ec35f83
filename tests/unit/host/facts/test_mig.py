"""How a GPU is divided by MIG, as NVML and sysfs tell it."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from tests.unit.host.fakehost import GPU_A, HARDWARE, MDEV_VF, VENDOR, FakeHost, observe
from tests.unit.host.fakemig import FakeMig
from vgpumgr.host.protocol.mig import MigFact, MigInstanceFact, MigProfileFact

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.host.fakenvml import FakeNvml

VF = f"{GPU_A[:-1]}4"


def first_gpu(host: FakeHost, nvml: FakeNvml) -> tuple[dict[str, Any], list[str]]:
    """Its facts, and what of it is unknown."""
    snapshot = observe(host, nvml)
    return snapshot["gpus"][0], [row["what"] for row in snapshot["unknown"] if row["gpu"] == GPU_A]


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    host = FakeHost.build(tmp_path, VENDOR)
    host.put_mig(on=True, pending=True)
    return host


def test_profiles_and_instances_are_told_by_their_places(host: FakeHost) -> None:
    host.put_instance(9, 4, 4)
    host.put_instance(14, 0, 2, computes=0)
    gpu, unknown = first_gpu(host, FakeMig(host))
    assert (gpu["mode"], gpu["mig"]["enabled"], gpu["mig"]["pending"]) == ("mig", True, True)
    assert gpu["mig"]["profiles"][2] == {
        "id": 9,
        "name": "3g.20gb",
        "slices": 3,
        "size": 4,
        "starts": [0, 4],
        "memory_mib": 19968,
        "max": 2,
    }
    assert [profile["id"] for profile in gpu["mig"]["profiles"]] == [0, 5, 9, 14, 19]
    assert gpu["mig"]["instances"] == [
        {"id": 2, "profile_id": 14, "start": 0, "size": 2, "compute": 0},
        {"id": 1, "profile_id": 9, "start": 4, "size": 4, "compute": 1},
    ]
    assert not [what for what in unknown if "mig" in what]
    pairs: list[tuple[dict[str, Any], Any]] = [
        (gpu["mig"], MigFact),
        (gpu["mig"]["profiles"][0], MigProfileFact),
        (gpu["mig"]["instances"][0], MigInstanceFact),
    ]
    for value, shape in pairs:
        assert set(value) == set(typing.get_type_hints(shape))


def test_with_mig_off_nothing_is_divided_and_what_is_pending_is_told(host: FakeHost) -> None:
    host.put_mig(on=False)
    gpu, unknown = first_gpu(host, FakeMig(host))
    assert gpu["mig"] == {"enabled": False, "pending": True, "profiles": [], "instances": []}
    assert (gpu["mode"], "mig" in unknown) == ("equal-size", False)


@pytest.mark.parametrize("error", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND])
def test_a_board_or_driver_without_mig_has_none_and_is_asked_nothing_more_about_it(host: FakeHost, error: int) -> None:
    nvml = FakeMig(host, nvmlDeviceGetMigMode=error)
    gpu, unknown = first_gpu(host, nvml)
    assert (gpu["mig"], gpu["mode"], [what for what in unknown if "mig" in what]) == (None, "equal-size", [])
    assert not [name for name in nvml.calls if "GpuInstance" in name]
    assert {(kind["mig_profile"], kind["max_per_instance"]) for kind in gpu["types"]} == {(None, None)}


@pytest.mark.parametrize(
    ("call", "what", "profiles", "instances"),
    [
        ("nvmlDeviceGetMigMode", "mig", None, None),
        ("nvmlDeviceGetGpuInstanceProfileInfo", "mig.profiles", 0, None),
        ("nvmlDeviceGetGpuInstancePossiblePlacements", "mig.profiles", 0, None),
        ("nvmlDeviceGetGpuInstances", "mig.instances", 5, None),
        ("nvmlGpuInstanceGetInfo", "mig.instances", 5, None),
        ("nvmlGpuInstanceGetComputeInstances", "mig.instances[1].compute", 5, 1),
    ],
)
def test_what_nvml_does_not_tell_is_unknown(
    host: FakeHost, call: str, what: str, profiles: int | None, instances: int | None
) -> None:
    host.put_instance(14, 0, 2)
    gpu, unknown = first_gpu(host, FakeMig(host, **{call: pynvml.NVML_ERROR_UNKNOWN}))
    assert what in unknown
    if profiles is None:
        assert (gpu["mig"], gpu["mode"], "mode" in unknown) == (None, None, True)
        return
    assert len(gpu["mig"]["profiles"]) == profiles
    found = gpu["mig"]["instances"]
    assert (None if found is None else len(found)) == instances
    if found:
        assert found[0]["compute"] is None


def test_a_type_says_which_profile_it_needs_and_how_many_an_instance_takes(host: FakeHost) -> None:
    nvml = FakeMig(host)
    nvml.answers["nvmlVgpuTypeGetGpuInstanceProfileId"] = lambda number: {560: 14}.get(number, 0xFFFFFFFF)
    nvml.answers["nvmlVgpuTypeGetMaxInstancesPerGpuInstance"] = lambda number: {560: 12}[number]
    gpu, _ = first_gpu(host, nvml)
    told = {kind["id"]: (kind["mig_profile"], kind["max_per_instance"]) for kind in gpu["types"]}
    assert told == {558: (None, None), 560: (14, 12), 562: (None, None)}


def test_how_many_an_instance_takes_is_computed_on_drivers_before_r575_and_a_failure_is_told(host: FakeHost) -> None:
    """The GPU's maximum of the type, by that of the instances."""
    nvml = FakeMig(host, nvmlVgpuTypeGetMaxInstancesPerGpuInstance=pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    nvml.answers["nvmlVgpuTypeGetGpuInstanceProfileId"] = lambda number: 14
    nvml.answers["nvmlVgpuTypeGetMaxInstances"] = lambda _gpu, number: {558: 24, 560: 12, 562: 6}[number]
    gpu, unknown = first_gpu(host, nvml)
    (instances,) = (profile["max"] for profile in gpu["mig"]["profiles"] if profile["id"] == 14)
    told = {kind["id"]: (kind["mig_profile"], kind["max_per_instance"]) for kind in gpu["types"]}
    assert (instances, told) == (3, {558: (14, 8), 560: (14, 4), 562: (14, 2)})
    assert not [what for what in unknown if what.startswith("types")]
    gpu, unknown = first_gpu(host, FakeMig(host, nvmlVgpuTypeGetGpuInstanceProfileId=pynvml.NVML_ERROR_UNKNOWN))
    assert [what for what in unknown if what.startswith("types")] == [
        f"types[{number}].mig_profile" for number in (558, 560, 562)
    ]


@pytest.mark.parametrize("framework", HARDWARE)
@pytest.mark.parametrize(
    ("text", "instance"), [("3", 3), (None, None), ("Not Applicable", None), ("4294967295", None), ("-1", None)]
)
def test_a_vgpu_says_in_which_instance_it_is_or_that_is_unknown(
    tmp_path: Path, framework: str, text: str | None, instance: int | None
) -> None:
    host = FakeHost.build(tmp_path / framework, framework)
    host.put_mig(on=True, pending=True)
    uuid = "9e0d0000-0000-4000-8000-000000000001" if framework == MDEV_VF else None
    host.make_vgpu(VF, 560, uuid)
    if text is not None:
        host.put(f"{host.function(VF)}{'' if uuid is None else '/' + uuid}/nvidia/gpu_instance_id", text)
    gpu, unknown = first_gpu(host, FakeMig(host))
    assert gpu["parents"][0]["vgpus"][0]["gpu_instance"] == instance
    assert (f"vgpus[{uuid or VF}].gpu_instance" in unknown) == (instance is None)


def test_a_vgpu_on_a_gpu_without_mig_mode_is_not_asked_for_its_instance(host: FakeHost) -> None:
    host.put_mig(on=False, pending=False)
    host.make_vgpu(VF, 560, None)
    gpu, unknown = first_gpu(host, FakeMig(host))
    assert gpu["parents"][0]["vgpus"][0]["gpu_instance"] is None
    assert not [what for what in unknown if "gpu_instance" in what]


def test_the_ledgers_instances_are_told_and_none_where_it_cannot_be_read(host: FakeHost) -> None:
    host.put_ledger()
    host.ledger_file.write_text("{")
    snapshot = observe(host, FakeMig(host))
    assert (snapshot["ledger"], snapshot["instances"]) == (None, [])
