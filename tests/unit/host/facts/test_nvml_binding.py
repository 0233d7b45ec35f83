"""What is done otherwise than by NVIDIA's binding; all the rest is NVIDIA's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from vgpumgr.host.facts import nvml_binding

if TYPE_CHECKING:
    from collections.abc import Callable

TYPE_ID, INSTANCE = 560, 3251634213
LISTS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "nvmlDeviceGetGpuInstancePossiblePlacements": lambda: (pynvml.c_nvmlDevice_t(), 14),
    "nvmlDeviceGetGpuInstances": lambda: (pynvml.c_nvmlDevice_t(), 14),
    "nvmlGpuInstanceGetComputeInstances": lambda: (pynvml.c_nvmlGpuInstance_t(), 14),
}
SYMBOLS = {"nvmlDeviceGetGpuInstancePossiblePlacements": "nvmlDeviceGetGpuInstancePossiblePlacements_v2"}
CALLS: dict[str, Callable[[], tuple[Any, ...]]] = {
    **LISTS,
    "nvmlDeviceGetVgpuTypeCreatablePlacements": lambda: (pynvml.c_nvmlDevice_t(), TYPE_ID, 2),
    "nvmlVgpuInstanceGetVmID": lambda: (INSTANCE,),
    "nvmlVgpuInstanceGetFbUsage": lambda: (INSTANCE,),
}


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A libnvidia-ml that has these functions alone."""

    def library(**functions: Callable[..., int]) -> None:
        monkeypatch.setattr(pynvml, "nvmlLib", SimpleNamespace(**functions))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    return library


def test_what_is_not_ours_is_nvidias() -> None:
    assert nvml_binding.nvmlInit is pynvml.nvmlInit
    assert nvml_binding.NVMLError is pynvml.NVMLError


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_the_driver_lacks_or_refuses_raises_nvidias_error(name: str, use: Callable[..., None]) -> None:
    use()
    with pytest.raises(pynvml.NVMLError, match="Function Not Found"):
        getattr(nvml_binding, name)(*CALLS[name]())
    use(**{SYMBOLS.get(name, name): lambda *_: pynvml.NVML_ERROR_GPU_IS_LOST})
    with pytest.raises(pynvml.NVMLError, match="GPU is lost"):
        getattr(nvml_binding, name)(*CALLS[name]())


def test_the_framebuffer_in_use_has_64_bits(use: Callable[..., None]) -> None:
    def fill_in(instance: Any, used: Any) -> int:
        assert instance.value == INSTANCE
        used._obj.value = 2 << 32 | 2
        return 0

    use(nvmlVgpuInstanceGetFbUsage=fill_in)
    assert nvml_binding.nvmlVgpuInstanceGetFbUsage(INSTANCE) == 2 << 32 | 2


def test_nvml_is_told_the_80_bytes_that_there_are_for_a_vms_id(use: Callable[..., None]) -> None:
    def fill_in(_instance: Any, name: Any, size: Any, kind: Any) -> int:
        assert (len(name._obj), size.value) == (80, 80)
        name._obj.value, kind._obj.value = b"text", 2
        return 0

    use(nvmlVgpuInstanceGetVmID=fill_in)
    assert nvml_binding.nvmlVgpuInstanceGetVmID(INSTANCE) == (b"text", 2)


@pytest.mark.parametrize("version", [1, 2])
def test_places_are_a_list_with_room_for_every_vgpu_of_a_gpu(version: int, use: Callable[..., None]) -> None:
    """As NVML fills it in: through the caller's pointer, with the count."""

    def fill_in(*arguments: Any) -> int:
        found = arguments[2]._obj
        assert found.version == {1: pynvml.VgpuPlacementList_v1, 2: pynvml.VgpuPlacementList_v2}[version]
        assert found.count == 64
        found.placementSize, found.count = 8, 3
        found.placementIds[0], found.placementIds[1], found.placementIds[2] = 0, 16, 40
        return 0

    use(nvmlDeviceGetVgpuTypeCreatablePlacements=fill_in)
    places = nvml_binding.nvmlDeviceGetVgpuTypeCreatablePlacements(pynvml.c_nvmlDevice_t(), TYPE_ID, version)
    assert places == (8, [0, 16, 40])


@pytest.mark.parametrize("name", LISTS)
def test_what_mig_lists_is_a_list_with_room_for_all_of_it(name: str, use: Callable[..., None]) -> None:
    """As NVML fills it in: as many as there are, with their count."""
    calls = []

    def fill_in(_first: Any, profile: int, rows: Any, count: Any) -> int:
        calls.append((profile, len(rows), count._obj.value))
        count._obj.value = 2
        return 0

    use(**{SYMBOLS.get(name, name): fill_in})
    found = getattr(nvml_binding, name)(*LISTS[name]())
    assert calls == [(14, 64, 64)]
    assert len(found) == 2
