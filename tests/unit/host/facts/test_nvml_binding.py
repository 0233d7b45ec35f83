"""Our binding against NVIDIA's: the same names, layouts, calls, results and errors, without a library."""

from __future__ import annotations

import ctypes
import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from vgpumgr.host.facts import nvml_binding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMES = vars(nvml_binding)
STRUCTURES = sorted(
    name
    for name, found in NAMES.items()
    if name.startswith(("c_nvml", "nvml"))
    and isinstance(found, type)
    and issubclass(found, ctypes.Structure | ctypes.Union)
)
NUMBERS = sorted(name for name, found in NAMES.items() if isinstance(found, int) and not name.startswith("_"))
FUNCTIONS = sorted(name for name, found in NAMES.items() if name.startswith("nvml") and inspect.isfunction(found))
TYPE_ID, INSTANCE, SINCE = 560, 3251634213, 1_795_300_000_000_000
ARGUMENTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "nvmlErrorString": lambda binding: (29,),
    "nvmlDeviceGetHandleByPciBusId": lambda binding: ("0000:41:00.0",),
    "nvmlDeviceGetTemperature": lambda binding: (handle(binding), 0),
    "nvmlDeviceGetVgpuTypeCreatablePlacements": lambda binding: (handle(binding), TYPE_ID, 2),
    "nvmlDeviceSetVgpuHeterogeneousMode": lambda binding: (handle(binding), 1),
    "nvmlVgpuTypeGetMaxInstances": lambda binding: (handle(binding), TYPE_ID),
    "nvmlDeviceGetVgpuUtilization": lambda binding: (handle(binding), SINCE),
    "nvmlDeviceSetVgpuSchedulerState": lambda binding: (handle(binding), binding.c_nvmlVgpuSchedulerSetState_t(2, 1)),
    "nvmlDeviceSetVgpuSchedulerState_v2": lambda binding: (
        handle(binding),
        binding.c_nvmlVgpuSchedulerState_v2_t(1, 2),
    ),
    "nvmlDeviceGetNvLinkState": lambda binding: (handle(binding), 3),
    "nvmlDeviceGetNvLinkRemotePciInfo": lambda binding: (handle(binding), 3),
    "nvmlDeviceGetGpuFabricInfoV": lambda binding: (handle(binding), binding.c_nvmlGpuFabricInfo_v2_t()),
    "nvmlDeviceSetMigMode": lambda binding: (handle(binding), 1),
    "nvmlDeviceGetGpuInstanceProfileInfo": lambda binding: (handle(binding), 3),
    "nvmlDeviceGetGpuInstancePossiblePlacements": lambda binding: (handle(binding), 14),
    "nvmlDeviceGetGpuInstances": lambda binding: (handle(binding), 14),
    "nvmlDeviceCreateGpuInstanceWithPlacement": lambda binding: (
        handle(binding),
        14,
        ctypes.byref(binding.c_nvmlGpuInstancePlacement_t(2, 2)),
    ),
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": lambda binding: (instance(binding), 1, 0),
    "nvmlGpuInstanceCreateComputeInstance": lambda binding: (instance(binding), 1),
    "nvmlGpuInstanceGetComputeInstances": lambda binding: (instance(binding), 1),
    "nvmlDeviceGetVgpuSchedulerState_v2": lambda binding: (
        handle(binding),
        binding.c_nvmlVgpuSchedulerStateInfo_v2_t(1),
    ),
}
FEWER = {"nvmlVgpuInstanceGetFbUsage", "nvmlVgpuInstanceGetVmID"}  # where pynvml is wrong
LISTS = {  # what they give is other than pynvml's, and so is the room for it
    "nvmlDeviceGetGpuInstancePossiblePlacements": "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstances": "nvmlDeviceGetGpuInstances",
    "nvmlGpuInstanceGetComputeInstances": "nvmlGpuInstanceGetComputeInstances",
}
OTHER = {"nvmlDeviceGetVgpuTypeCreatablePlacements", *LISTS}


class Library:
    """A libnvidia-ml of which each function notes its arguments, answers with the next code, and fills in what it is given."""

    def __init__(self, *codes: int, without: str = "") -> None:
        self.calls: list[Any] = []
        self._codes = iter(codes)
        self._without = without

    def __getattr__(self, name: str) -> Any:
        if name == self._without:
            raise AttributeError(name)

        def function(*arguments: Any) -> Any:
            self.calls.append((name, [plain(argument) for argument in arguments]))
            if name == "nvmlErrorString":
                return b"said by NVML"
            for argument in arguments:
                fill(argument)
            return next(self._codes)

        return function


def handle(binding: Any) -> Any:
    return binding.c_nvmlDevice_t()


def instance(binding: Any) -> Any:
    return binding.c_nvmlGpuInstance_t()


def plain(value: Any) -> Any:
    """An argument as the C function sees it, whatever Python object stands for it."""
    target = getattr(value, "_obj", value)
    if isinstance(target, ctypes.Array | ctypes.Structure | ctypes.Union | ctypes._Pointer):
        return ("memory", ctypes.sizeof(target), bytes(target))
    if target is not value:
        return ("memory", ctypes.sizeof(target), bytes(target))
    if isinstance(value, ctypes._SimpleCData):
        value = value.value
    return value & 0xFFFFFFFF if isinstance(value, int) and value < 1 << 32 else value


def fill(argument: Any) -> None:
    target = getattr(argument, "_obj", argument)
    if not isinstance(target, ctypes.Array | ctypes._Pointer) and target is argument:
        return
    pattern = b"text\0" if isinstance(target, ctypes.Array) and target._type_ is ctypes.c_char else b"\2\0\0\0"
    size = ctypes.sizeof(target)
    ctypes.memmove(ctypes.addressof(target), (pattern * size)[:size], size)


def layout(kind: Any) -> Any:
    if issubclass(kind, ctypes.Array):
        return (kind._length_, layout(kind._type_))
    if issubclass(kind, ctypes._Pointer):
        return "a pointer"
    if not issubclass(kind, ctypes.Structure | ctypes.Union):
        return kind
    fields = [
        (name, getattr(kind, name).offset, getattr(kind, name).size, layout(held)) for name, held in kind._fields_
    ]
    return (ctypes.sizeof(kind), ctypes.alignment(kind), issubclass(kind, ctypes.Union), fields)


def value(found: Any) -> Any:
    if isinstance(found, ctypes.Structure | ctypes.Union | ctypes._Pointer):
        return (ctypes.sizeof(found), bytes(found))
    return [value(each) for each in found] if isinstance(found, list) else found


def arguments_of(name: str, binding: Any) -> tuple[Any, ...]:
    if name in ARGUMENTS:
        return ARGUMENTS[name](binding)
    if name.startswith("nvmlVgpu"):
        return (INSTANCE if "Instance" in name else TYPE_ID,)
    if name.startswith("nvmlGpuInstance"):
        return (instance(binding),)
    if name.startswith("nvmlComputeInstance"):
        return (binding.c_nvmlComputeInstance_t(),)
    return (handle(binding),) if name.startswith("nvmlDevice") else ()


def outcome(binding: Any, name: str) -> Any:
    try:
        found = getattr(binding, name)(*arguments_of(name, binding))
    except binding.NVMLError as error:
        return ("refused", error.value, str(error))
    return 0 if found is None else value(found)  # pynvml's setters give NVML_SUCCESS


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], Library]], tuple[Library, Library]]]:
    """Both bindings over one such library each: (ours, NVIDIA's)."""

    def over(make: Callable[[], Library]) -> tuple[Library, Library]:
        ours, theirs = make(), make()
        monkeypatch.setattr(nvml_binding, "_library", lambda: ours)
        monkeypatch.setattr(pynvml, "nvmlLib", theirs)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return ours, theirs

    yield over
    monkeypatch.undo()


def test_the_parts_are_found() -> None:
    assert (len(STRUCTURES), len(FUNCTIONS)) == (25, 49)
    assert "NVML_DEVICE_UUID_BUFFER_SIZE" in NUMBERS
    assert "VgpuHeterogeneousMode_v1" in NUMBERS


def test_structures_lie_in_memory_as_nvidias_and_constants_are_nvidias() -> None:
    assert [name for name in STRUCTURES if layout(NAMES[name]) != layout(getattr(pynvml, name))] == []
    assert {name: NAMES[name] for name in NUMBERS} == {name: getattr(pynvml, name) for name in NUMBERS}


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - FEWER - OTHER))
def test_a_call_reaches_the_library_and_comes_back_as_nvidias(name: str, use: Any) -> None:
    for codes in ((0, 0), (7, 0), (7, 3), (3,), (13,)):
        ours, theirs = use(lambda codes=codes: Library(*codes))
        assert outcome(nvml_binding, name) == outcome(pynvml, name), codes
        assert ours.calls == theirs.calls
        assert ours.calls


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"nvmlErrorString"}))
def test_a_call_that_the_driver_lacks_is_not_found(name: str, use: Any) -> None:
    symbol = {
        "nvmlInit": "nvmlInitWithFlags",
        "nvmlDeviceGetHandleByPciBusId": "nvmlDeviceGetHandleByPciBusId_v2",
        "nvmlDeviceGetNvLinkRemotePciInfo": "nvmlDeviceGetNvLinkRemotePciInfo_v2",
        "nvmlDeviceGetGpuInstanceProfileInfo": "nvmlDeviceGetGpuInstanceProfileInfoV",
        "nvmlGpuInstanceGetComputeInstanceProfileInfo": "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
        **LISTS,
    }
    use(lambda: Library(0, without=symbol.get(name, name)))
    refused = ("refused", 13, "Function Not Found")
    assert outcome(nvml_binding, name) == refused
    assert name in LISTS or outcome(pynvml, name) == refused


def test_an_error_has_nvidias_text(use: Any) -> None:
    use(Library)
    numbers = (*range(1, 40), 999, 4711)
    assert [str(nvml_binding.NVMLError(one)) for one in numbers] == [str(pynvml.NVMLError(one)) for one in numbers]


def test_the_framebuffer_in_use_has_64_bits_and_the_vms_id_80_bytes(use: Any) -> None:
    ours, _ = use(lambda: Library(0, 0))
    assert nvml_binding.nvmlVgpuInstanceGetFbUsage(INSTANCE) == 2 << 32 | 2
    assert nvml_binding.nvmlVgpuInstanceGetVmID(INSTANCE) == (b"text", 2)
    (_, usage), (_, vm) = ours.calls
    assert usage[1][1] == 8
    assert (vm[1][1], vm[2]) == (80, 80)


@pytest.mark.parametrize("version", [1, 2])
def test_places_are_a_list_with_room_for_every_vgpu_of_a_gpu(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NVML fills it in: through the caller's pointer, with the count."""

    class Places:
        def nvmlDeviceGetVgpuTypeCreatablePlacements(self, *arguments: Any) -> int:  # noqa: N802 -- NVML's name
            found = arguments[2]._obj
            assert found.version == {1: pynvml.VgpuPlacementList_v1, 2: pynvml.VgpuPlacementList_v2}[version]
            assert found.count == 64
            found.placementSize, found.count = 8, 3
            found.placementIds[0], found.placementIds[1], found.placementIds[2] = 0, 16, 40
            return 0

    monkeypatch.setattr(nvml_binding, "_library", Places)
    places = nvml_binding.nvmlDeviceGetVgpuTypeCreatablePlacements(handle(nvml_binding), TYPE_ID, version)
    assert places == (8, [0, 16, 40])


@pytest.mark.parametrize("name", sorted(LISTS))
def test_what_mig_lists_is_a_list_with_room_for_all_of_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NVML fills it in: as many as there are, with their count."""
    calls = []

    def fill_in(first: Any, profile: int, rows: Any, count: Any) -> int:
        calls.append((profile, len(rows), count._obj.value))
        count._obj.value = 2
        return 0

    monkeypatch.setattr(nvml_binding, "_library", lambda: SimpleNamespace(**{LISTS[name]: fill_in}))
    found = getattr(nvml_binding, name)(*arguments_of(name, nvml_binding))
    assert calls == [(14 if "Device" in name else 1, 64, 64)]
    assert len(found) == 2


def test_without_a_library_opening_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> Any:
        raise OSError("cannot open shared object file")

    monkeypatch.setattr(nvml_binding, "CDLL", absent)
    nvml_binding._library.cache_clear()
    with pytest.raises(nvml_binding.NVMLError, match="NVML Shared Library Not Found") as caught:
        nvml_binding.nvmlInit()
    assert caught.value.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    nvml_binding._library.cache_clear()
