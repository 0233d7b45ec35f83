"""The mock libnvidia-ml.so.1 as the real pynvml sees it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from vgpumgr.lab.driver.model import GuestDriver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab.nvml.conftest import Host, Nvml

NOT_SUPPORTED = {"nvml": 3}
SUCCESS, INVALID_ARGUMENT, INSUFFICIENT_SIZE, VERSION_MISMATCH = 0, 2, 7, 25


VGPU = "nvmlDeviceGetActiveVgpus(gpus[0])[0]"
MODES = (
    "[nvmlDeviceGetVirtualizationMode(gpus[0]), nvmlDeviceGetHostVgpuMode(gpus[0]),"
    " attempt(nvmlDeviceGetVgpuHeterogeneousMode, gpus[0]), attempt(nvmlDeviceGetMigMode, gpus[0])]"
)
PLACE = f"attempt(nvmlVgpuInstanceGetPlacementId, {VGPU})"
FUNCTION_NOT_FOUND, DRIVER_NOT_LOADED = {"nvml": 13}, {"nvml": 9}
HOST_VGPU = 3
# By spec: T4 on R535, A40 on R570, L40S on R595; a VM runs with a 4Q. What it is about, the expression, its value.
ANSWERS = [
    (
        "mdev-vf PCI info: eight upper-case digits of domain in busId, four in the legacy one, the vendor in the id's low half",
        "[[p.busId, p.busIdLegacy, p.domain, p.bus, p.device, hex(p.pciDeviceId)] for p in [nvmlDeviceGetPciInfo(gpus[0])]][0]",
        ["00000000:41:00.0", "0000:41:00.0", 0, 0x41, 0, "0x223510de"],
    ),
    (
        "mdev-pf modes of a board without SR-IOV, and R535 has no mixed-size mode",
        MODES,
        [HOST_VGPU, 0, {"nvml": 13}, NOT_SUPPORTED],
    ),
    ("mdev-vf modes", MODES, [HOST_VGPU, 1, 0, NOT_SUPPORTED]),
    ("vendor-vfio modes", MODES, [HOST_VGPU, 1, 0, NOT_SUPPORTED]),
    (
        "mdev-vf a Q type is a workstation's",
        (
            "[nvmlVgpuTypeGetClass(560), nvmlVgpuTypeGetNumDisplayHeads(560), nvmlVgpuTypeGetResolution(560),"
            " nvmlVgpuTypeGetFrameRateLimit(560), hex(nvmlVgpuTypeGetDeviceID(560)[0]), nvmlVgpuTypeGetGpuInstanceProfileId(560),"
            " nvmlVgpuTypeGetLicense(560).split(',')[0], nvmlVgpuTypeGetMaxInstancesPerVm(560)]"
        ),
        ["Quadro", 4, [7680, 4320], 60, "0x223510de", 0xFFFFFFFF, "Quadro-Virtual-DWS", 16],
    ),
    ("mdev-pf placement ids came later", PLACE, FUNCTION_NOT_FOUND),
    ("mdev-vf placement ids are told from Ada on", PLACE, 0xFFFF),
    ("vendor-vfio placement ids", PLACE, 0),
    (
        "mdev-vf a guest without driver has no version and no licence",
        (
            f"[[nvmlVgpuInstanceGetVmDriverVersion(v), nvmlVgpuInstanceGetGpuPciId(v),"
            f" attempt(nvmlVgpuInstanceGetLicenseInfo_v2, v), attempt(nvmlVgpuInstanceGetEccMode, v)] for v in [{VGPU}]][0]"
        ),
        ["Not Available", "00000000:00:00.0", DRIVER_NOT_LOADED, NOT_SUPPORTED],
    ),
    (
        "vendor-vfio a struct of another version is refused",
        (
            "[lib.nvmlDeviceGetMemoryInfo_v2(gpus[0], ctypes.byref(c_nvmlMemory_v2_t(version=1))),"
            " lib.nvmlDeviceGetVgpuHeterogeneousMode(gpus[0], ctypes.byref(c_nvmlVgpuHeterogeneousMode_v1_t())),"
            f" lib.nvmlVgpuInstanceGetPlacementId({VGPU}, ctypes.byref(c_nvmlVgpuPlacementId_v1_t()))]"
        ),
        [VERSION_MISMATCH] * 3,
    ),
    (
        "mdev-vf error strings",
        "[str(NVMLError(n)) for n in (1, 2, 3, 6, 9, 15)]",
        ["Uninitialized", "Invalid Argument", "Not Supported", "Not Found", "Driver Not Loaded", "GPU is lost"],
    ),
]


@pytest.mark.parametrize(("about", "code", "wanted"), ANSWERS, ids=[about for about, *_ in ANSWERS])
def test_an_answer(nvml: Nvml, make_host: Callable[[str], Host], about: str, code: str, wanted: object) -> None:
    host = make_host(about.split(maxsplit=1)[0])
    host.start_vm()
    assert nvml.ask(host, code) == wanted


def test_without_sriov_mixed_size_mode_is_not_supported_where_nvml_knows_it(
    nvml: Nvml, make_host: Callable[[str], Host]
) -> None:
    on_r550 = make_host("mdev-pf").text.replace("=535.", "=550.")
    assert nvml.ask(on_r550, MODES) == [HOST_VGPU, 0, NOT_SUPPORTED, NOT_SUPPORTED]


def test_gpus_have_the_names_uuids_and_order_of_the_driver_state(nvml: Nvml, host: Host) -> None:
    wanted = [[gpu.board.name, gpu.uuid, gpu.pci] for gpu in host.gpus]
    seen = nvml.ask(
        host,
        "[[nvmlDeviceGetName(gpu), nvmlDeviceGetUUID(gpu), nvmlDeviceGetPciInfo(gpu).busIdLegacy.lower()] for gpu in gpus]",
    )
    assert seen == wanted
    assert nvml.ask(host, "[nvmlDeviceGetIndex(gpu) for gpu in gpus]") == list(range(len(wanted)))


def test_each_nvlink_says_what_is_at_its_other_end(nvml: Nvml, make_host: Callable[[str], Host]) -> None:
    """A link that the board does not have is not supported; one that NVML does not know is invalid."""
    host = make_host("mdev-vf")
    state = "[attempt(nvmlDeviceGetNvLinkState, gpus[0], link) for link in (0, 1, 2, NVML_NVLINK_MAX_LINKS)]"
    ends = "[told(attempt(nvmlDeviceGetNvLinkRemotePciInfo, gpus[0], link), 'busId') for link in (0, 1, 2)]"
    assert nvml.ask(host, state) == [NOT_SUPPORTED] * 3 + [{"nvml": INVALID_ARGUMENT}]
    host.gpu.links = ("0000:81:00.0", "0001:c4:00.0")
    assert nvml.ask(host, state) == [1, 1, NOT_SUPPORTED, {"nvml": INVALID_ARGUMENT}]
    assert nvml.ask(host, ends) == [["00000000:81:00.0"], ["00000001:C4:00.0"], NOT_SUPPORTED]
    assert nvml.ask(host, "nvmlDeviceGetPersistenceMode(gpus[0])") == 1


def test_a_gpu_is_found_by_bus_id_in_each_form_and_by_uuid(nvml: Nvml, host: Host) -> None:
    gpu = host.gpu
    short = gpu.pci.removeprefix("0000:")
    forms = [gpu.pci, "0000" + gpu.pci.upper(), short, gpu.pci.rpartition(".")[0]]
    code = f"[nvmlDeviceGetUUID(nvmlDeviceGetHandleByPciBusId(form)) for form in {forms}]"
    assert nvml.ask(host, code) == [gpu.uuid] * len(forms)
    assert nvml.ask(host, f"nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID({gpu.uuid!r}))") == 0


@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("nvmlDeviceGetHandleByIndex(9)", 2),
        ("nvmlDeviceGetHandleByPciBusId('0000:ff:1f.0')", 6),
        ("nvmlDeviceGetHandleByPciBusId('here')", 2),
        ("nvmlDeviceGetHandleByUUID('GPU-00000000-0000-0000-0000-000000000000')", 6),
        ("nvmlDeviceGetHandleByUUID('nobody')", 2),
        ("nvmlVgpuTypeGetName(4711)", 2),
        ("nvmlVgpuTypeGetMaxInstances(gpus[0], 4711)", 2),
        ("nvmlVgpuInstanceGetVmID(4711)", 6),
        ("nvmlVgpuInstanceGetVmID(0)", 2),
        ("nvmlDeviceGetFanSpeed(gpus[0])", 13),
    ],
)
def test_what_is_not_there_is_refused_with_nvmls_error(
    nvml: Nvml, make_host: Callable[[str], Host], call: str, number: int
) -> None:
    assert nvml.ask(make_host("mdev-vf"), call) == {"nvml": number}


def test_versions_are_the_drivers(nvml: Nvml, host: Host) -> None:
    assert nvml.ask(host, "nvmlSystemGetDriverVersion()") == host.version
    cuda = "13" if host.version.startswith("59") else "12"
    assert nvml.ask(host, "nvmlSystemGetNVMLVersion()") == f"{cuda}.{host.version}"


def test_types_are_those_of_the_board_with_all_their_properties(nvml: Nvml, host: Host) -> None:
    gpu = host.gpu
    wanted = [[kind.id, kind.name, kind.framebuffer_mib, kind.max_instances] for kind in gpu.board.types]
    code = (
        "[[t, nvmlVgpuTypeGetName(t), nvmlVgpuTypeGetFramebufferSize(t) // 2**20, nvmlVgpuTypeGetMaxInstances(gpus[0], t)]"
        " for t in nvmlDeviceGetSupportedVgpus(gpus[0])]"
    )
    assert nvml.ask(host, code) == wanted


def test_creatable_shrinks_to_types_of_the_same_size_and_then_to_none(nvml: Nvml, host: Host) -> None:
    gpu = host.gpu
    code = "[nvmlDeviceGetCreatableVgpus(gpu) for gpu in gpus]"
    first, *others = nvml.ask(host, code)
    assert first == [kind.id for kind in gpu.board.types]
    host.make_vgpu()
    after = nvml.ask(host, code)
    assert after[0] == [kind.id for kind in gpu.board.types if kind.framebuffer_mib == 4096]
    assert after[1:] == others
    most = next(kind.max_instances for kind in gpu.board.types if kind.framebuffer_mib == 4096)
    for number in range(1, most):
        host.make_vgpu(vf=number, uuid=host.mdev_uuid[:-2] + f"{number + 16:02x}")
    assert nvml.ask(host, code)[0] == []


def test_only_a_vgpu_that_a_vm_holds_is_active(nvml: Nvml, host: Host) -> None:
    key = host.make_vgpu()
    code = "[nvmlDeviceGetActiveVgpus(gpu) for gpu in gpus]"
    assert nvml.ask(host, code)[0] == []
    host.driver.hold(key, host.vm_uuid, "vm01")
    assert nvml.ask(host, code)[0] == [host.gpu.vgpus[0].instance]
    host.driver.release(host.vm_uuid)
    assert nvml.ask(host, code)[0] == []


def test_an_active_vgpu_says_whose_and_what_it_is(nvml: Nvml, host: Host) -> None:
    gpu = host.gpu
    host.start_vm()
    vgpu = gpu.vgpus[0]
    code = (
        "[[nvmlVgpuInstanceGetVmID(v), nvmlVgpuInstanceGetType(v), attempt(nvmlVgpuInstanceGetMdevUUID, v),"
        " nvmlVgpuInstanceGetFrameRateLimit(v), nvmlVgpuInstanceGetFbUsage(v), nvmlVgpuInstanceGetGpuInstanceId(v)]"
        " for v in nvmlDeviceGetActiveVgpus(gpus[0])]"
    )
    mdev = host.mdev_uuid if gpu.framework != "vendor-vfio" else NOT_SUPPORTED
    uuid_type = 1
    assert nvml.ask(host, code) == [[[host.vm_uuid, uuid_type], vgpu.type.id, mdev, 60, 0, 0xFFFFFFFF]]


def test_the_vgpus_own_uuid_is_not_the_mdevs_and_stays(nvml: Nvml, host: Host) -> None:
    host.start_vm()
    code = "nvmlVgpuInstanceGetUUID(nvmlDeviceGetActiveVgpus(gpus[0])[0])"
    seen = nvml.ask(host, code)
    assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", seen)
    assert seen != host.mdev_uuid
    assert nvml.ask(host, code) == seen


def test_a_guest_with_driver_and_licence_shows_both(nvml: Nvml, make_host: Callable[[str], Host]) -> None:
    host = make_host("mdev-vf")
    host.start_vm()
    host.driver.set_guest(host.vm_uuid, GuestDriver(version="570.133.20", license=5, expires_s=1_800_000_000))
    text = host.text.replace("vm_name=vm01", "vm_name=vm01 ecc=1")
    code = (
        "[[nvmlVgpuInstanceGetVmDriverVersion(v), nvmlVgpuInstanceGetLicenseInfo_v2(v).isLicensed,"
        " nvmlVgpuInstanceGetLicenseInfo_v2(v).currentState, nvmlVgpuInstanceGetEccMode(v)]"
        " for v in nvmlDeviceGetActiveVgpus(gpus[0])][0]"
    )
    assert nvml.ask(text, code) == ["570.133.20", 1, 5, 1]
    expiry = "nvmlVgpuInstanceGetLicenseInfo_v2(nvmlDeviceGetActiveVgpus(gpus[0])[0]).licenseExpiry"
    parts = ", ".join(f"{expiry}.{name}" for name in ("year", "month", "day", "hour", "min", "sec", "status"))
    assert nvml.ask(text, f"[{parts}]") == [2027, 1, 15, 8, 0, 0, 2]
    host.driver.release(host.vm_uuid)
    host.driver.hold(host.mdev_uuid, host.vm_uuid, "vm01")
    version = "nvmlVgpuInstanceGetVmDriverVersion(nvmlDeviceGetActiveVgpus(gpus[0])[0])"
    assert nvml.ask(host, version) == "Not Available", "the next start has none"


def test_memory_in_use_is_what_running_vgpus_have(nvml: Nvml, host: Host) -> None:
    gpu = host.gpu
    host.start_vm()
    code = "[[m.total // 2**20, m.used // 2**20, m.free // 2**20] for m in {}][0]"
    wanted = [gpu.board.framebuffer_mib, 4096, gpu.board.framebuffer_mib - 4096]
    assert nvml.ask(host, code.format("[nvmlDeviceGetMemoryInfo(gpus[0])]")) == wanted
    assert nvml.ask(host, code.format("[nvmlDeviceGetMemoryInfo(gpus[0], version=nvmlMemory_v2)]")) == wanted


# The C library's own manners, through ctypes


def test_before_init_and_after_the_last_shutdown_nothing_is_answered(
    nvml: Nvml, make_host: Callable[[str], Host]
) -> None:
    text = make_host("mdev-vf").text
    count = "lib.nvmlDeviceGetCount_v2(ctypes.byref(ctypes.c_uint()))"
    calls = f"[{count}, lib.nvmlShutdown(), lib.nvmlInit_v2(), lib.nvmlInitWithFlags(0), lib.nvmlShutdown(), {count}, lib.nvmlShutdown(), {count}]"
    assert nvml.ask(text, calls, bare=True) == [1, 1, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("function", ["nvmlDeviceGetSupportedVgpus", "nvmlDeviceGetCreatableVgpus"])
def test_a_list_too_short_is_refused_with_the_length_it_needs(
    nvml: Nvml, make_host: Callable[[str], Host], function: str
) -> None:
    host = make_host("mdev-vf")
    count = len(host.gpu.board.types)
    sized = f"(lambda n, room: [lib.{function}(gpus[0], ctypes.byref(n), room), n.value])"
    assert nvml.ask(host, f"{sized}(ctypes.c_uint(0), None)") == [INSUFFICIENT_SIZE, count]
    assert nvml.ask(host, f"{sized}(ctypes.c_uint(1), (ctypes.c_uint * 1)())") == [INSUFFICIENT_SIZE, count]
    assert nvml.ask(host, f"{sized}(ctypes.c_uint(90), (ctypes.c_uint * 90)())") == [SUCCESS, count]
    assert nvml.ask(host, f"{sized}(ctypes.c_uint(5), None)")[0] == INVALID_ARGUMENT


def test_a_text_buffer_too_small_is_refused_and_left_alone(nvml: Nvml, make_host: Callable[[str], Host]) -> None:
    code = "(lambda room, size: [lib.nvmlVgpuTypeGetName(560, room, ctypes.byref(size)), size.value, room.raw.hex()])"
    seen = nvml.ask(make_host("mdev-vf"), f"{code}(ctypes.create_string_buffer(13), ctypes.c_uint(13))")
    assert seen == [INSUFFICIENT_SIZE, len("NVIDIA A40-4Q") + 1, "00" * 13]
    seen = nvml.ask(make_host("mdev-vf"), f"{code}(ctypes.create_string_buffer(14), ctypes.c_uint(14))")
    assert seen == [SUCCESS, 14, b"NVIDIA A40-4Q\0".hex()]


def test_threads_do_not_disturb_one_another(nvml: Nvml, make_host: Callable[[str], Host]) -> None:
    """Eight threads that each begin, ask and end all get whole answers (run under a thread sanitizer by hand too)."""
    code = (
        "(lambda seen, threads: [[t.start() for t in threads], [t.join() for t in threads], sorted(seen)][2])("
        "*(lambda seen: (seen, [threading.Thread(target=lambda: [seen.add((nvmlInit(), "
        "len(nvmlDeviceGetSupportedVgpus(gpus[0])), nvmlVgpuTypeGetName(560), nvmlShutdown())[1:3]) for _ in range(40)])"
        " for _ in range(8)]))(set()))"
    )
    host = make_host("mdev-vf")
    assert nvml.ask(host, code) == [[len(host.gpu.board.types), "NVIDIA A40-4Q"]]


# Errors that the lab injects


def test_without_a_state_there_is_no_driver(nvml: Nvml, tmp_path: Path) -> None:
    assert nvml.ask_path(tmp_path / "nothing", "1") == {"nvml": 9}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 18),
        ("nvlab 2\nend\n", 18),
        ("nvlab 1\n", 999),
        ("nvlab 1\nend\n", 999),
        ("nvlab 1\ndriver\nend\n", 999),
    ],
)
def test_a_state_of_another_version_or_a_torn_one_is_an_error(nvml: Nvml, text: str, number: int) -> None:
    assert nvml.ask(text, "1") == {"nvml": number}


def test_what_follows_the_end_is_of_a_later_moment_and_not_read(nvml: Nvml, host: Host) -> None:
    text = host.text + "GPU-cut-off\ngpu index=7\nend\n"
    assert nvml.ask(text, "len(gpus)") == len(host.gpus)


def test_a_lost_gpu_does_not_take_the_others_along(nvml: Nvml, make_host: Callable[[str], Host]) -> None:
    host = make_host("mdev-vf")
    host.driver.set_fault(f"gpu-lost:{host.gpu.pci}")
    lost, healthy = nvml.ask(
        host, "[attempt(nvmlDeviceGetHandleByIndex, i) if i == 0 else nvmlDeviceGetName(gpus[i]) for i in (0, 1)]"
    )
    assert lost == {"nvml": 15}
    assert healthy == "NVIDIA A40"


def test_a_driver_that_is_down_stops_init(nvml: Nvml, host: Host) -> None:
    host.driver.set_fault("nvml-down")
    assert nvml.ask(host, "1") == {"nvml": 9}
