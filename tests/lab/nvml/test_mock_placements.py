"""Mixed-size mode and placement ids through NVML and nvidia-smi: the driver's own, whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.nvml.test_nvidia_smi import values

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.nvml.conftest import Host, Live, Nvml

pytestmark = pytest.mark.lab

INVALID_ARGUMENT, NOT_SUPPORTED, INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND = ({"nvml": code} for code in (2, 3, 7, 13))
IN_USE, VERSION_MISMATCH = {"nvml": 19}, {"nvml": 25}
HETEROGENEOUS, HOMOGENEOUS = 0, 1
GET = "attempt(nvmlDeviceGetVgpuHeterogeneousMode, gpus[0])"


def set_mode(mode: int) -> str:
    return f"attempt(nvmlDeviceSetVgpuHeterogeneousMode, gpus[0], {mode})"


def supported(type_id: int, mode: int, version: int = 2) -> str:
    ask = f"attempt(nvmlDeviceGetVgpuTypeSupportedPlacements, gpus[0], {type_id}, {mode}, {version})"
    return f"[(p if isinstance(p, dict) else [p.placementSize, list(p.placementIds[:p.count])]) for p in [{ask}]][0]"


def creatable(type_id: int, version: int = 2) -> str:
    ask = f"attempt(nvmlDeviceGetVgpuTypeCreatablePlacements, gpus[0], {type_id}, {version})"
    return f"[(p if isinstance(p, dict) else [p.placementSize, list(p.placementIds[:p.count])]) for p in [{ask}]][0]"


def type_id(host: Host, short: str) -> int:
    return next(kind.id for kind in host.gpu.board.types if kind.name.endswith(f"-{short}"))


def test_the_mode_is_set_on_an_empty_gpu_and_read_back(live: Callable[[str], Live]) -> None:
    one = live("vendor-vfio")
    assert [one.ask(code) for code in (GET, set_mode(1), GET)] == [0, 0, 1]
    one.host.make_vgpu("24Q", vf=0)
    one.host.make_vgpu("8Q", vf=1)
    assert [vgpu.placement_id for vgpu in one.host.gpu.vgpus] == [0, 24]
    assert one.ask(set_mode(0)) == IN_USE  # idle ones count
    assert one.ask(creatable(type_id(one.host, "4Q"))) == [4, [32, 36, 44]]
    assert one.ask(creatable(type_id(one.host, "24Q"))) == [24, []]


def test_smi_sets_the_mode_and_ends_with_nvmls_number(live: Callable[[str], Live]) -> None:
    one = live("mdev-vf")
    assert one.smi("-shm", "1", "-i", "0")[1] == 0
    assert values(one.smi_of_host("-q")[0], "vGPU Heterogeneous Mode") == ["Enabled", "Disabled"]
    out = one.smi("-s", "-v", "-i", "0")[0]
    block = out[out.index("NVIDIA A40-8Q") :]
    assert values(block, "Placement Size")[0] == "8"
    assert values(block, "Supported Placement IDs")[0] == "0 16 24 40"
    one.host.make_vgpu("8Q")
    out = one.smi("-c", "-v", "-i", "0")[0]
    assert values(out[out.index("NVIDIA A40-8Q") :], "Creatable Placement IDs")[0] == "16 24 40"
    assert one.smi("-shm", "0", "-i", "0")[1] == 19
    assert one.smi("-shm", "2", "-i", "0")[1] == 2
    assert live("mdev-pf").smi("-shm", "1", "-i", "0")[1] == 2  # R535 does not know the option


@pytest.mark.parametrize(
    ("asked", "mode", "wanted"),
    [
        ("mdev-vf 8Q", HETEROGENEOUS, [8, [0, 16, 24, 40]]),
        ("mdev-vf 8Q", HOMOGENEOUS, NOT_SUPPORTED),  # before Ada
        ("vendor-vfio 16Q", HETEROGENEOUS, [16, [0, 32]]),
        ("vendor-vfio 16Q", HOMOGENEOUS, [16, [0, 16, 32]]),
        ("mdev-pf 8Q", HETEROGENEOUS, FUNCTION_NOT_FOUND),  # R535
    ],
)
def test_supported_places_are_those_of_the_mode_that_was_asked_for(
    nvml: Nvml, make_host: Callable[[str], Host], asked: str, mode: int, wanted: Any
) -> None:
    spec, short = asked.split()
    host = make_host(spec)
    assert nvml.ask(host, supported(type_id(host, short), mode)) == wanted


def test_creatable_places_are_those_of_the_gpus_own_mode(nvml: Nvml, make_host: Callable[[str], Host]) -> None:
    ada, ampere = make_host("vendor-vfio"), make_host("mdev-vf")
    ada.make_vgpu("16Q")
    assert nvml.ask(ada, creatable(type_id(ada, "16Q"))) == [16, [16, 32]]
    assert nvml.ask(ada, creatable(type_id(ada, "8Q"))) == [8, []]  # another size
    assert nvml.ask(ampere, creatable(type_id(ampere, "16Q"))) == NOT_SUPPORTED
    assert nvml.ask(ada, creatable(1)) == INVALID_ARGUMENT


def test_the_list_has_its_first_version_before_r565(nvml: Nvml, make_host: Callable[[str], Host]) -> None:
    host = make_host("vendor-vfio")
    kind = type_id(host, "24Q")
    old = host.text.replace(f"version={host.version}", "version=550.54.14")
    assert nvml.ask(old, supported(kind, HETEROGENEOUS, 1)) == [24, [0, 24]]
    assert nvml.ask(old, supported(kind, HETEROGENEOUS, 2)) == VERSION_MISMATCH
    assert nvml.ask(host, supported(kind, HETEROGENEOUS, 1)) == [24, [0, 24]]


def test_a_list_too_short_is_refused_with_its_length(nvml: Nvml, make_host: Callable[[str], Host]) -> None:
    host = make_host("vendor-vfio")
    kind = type_id(host, "8Q")
    code = (
        "[(p, lib.nvmlDeviceGetVgpuTypeSupportedPlacements(gpus[0], {kind}, ctypes.byref(p)), p.count)[1:]"
        " for p in [c_nvmlVgpuPlacementList_v2_t(version=VgpuPlacementList_v2, count=2, placementIds=(ctypes.c_uint * 2)())]][0]"
    )
    assert nvml.ask(host, code.replace("{kind}", str(kind))) == [7, 4]
