"""MIG through NVML: pynvml asks the mock, the mock the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab.driver.migs import MIG_BOARDS, cut
from vgpumgr.lab.driver.boards import board

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.nvml.conftest import Host, Live, Nvml

pytestmark = pytest.mark.lab

INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = ({"nvml": code} for code in (2, 3, 6, 7))
FUNCTION_NOT_FOUND, IN_USE, INSUFFICIENT_RESOURCES, VERSION_MISMATCH = ({"nvml": code} for code in (13, 19, 23, 25))
RESET_REQUIRED = 16
MODE = "attempt(nvmlDeviceGetMigMode, gpus[0])"


def set_mode(on: int) -> str:
    return f"attempt(nvmlDeviceSetMigMode, gpus[0], {on})"


def profile(number: int, version: int = 2, gpu: int = 0) -> str:
    ask = f"attempt(nvmlDeviceGetGpuInstanceProfileInfo, gpus[{gpu}], {number}, {version})"
    return f"told({ask}, 'id', 'sliceCount', 'instanceCount', 'memorySizeMB')"


def places(profile_id: int, gpu: int = 0) -> str:
    return f"attempt(starts, gpus[{gpu}], {profile_id})"


def create(profile_id: int, start: int | None = None, size: int = 1, then: str = "0") -> str:
    """`then` is asked of the new instance, `i`."""
    if start is None:
        made = f"attempt(nvmlDeviceCreateGpuInstance, gpus[0], {profile_id})"
    else:
        place = f"placement({start}, {size})"
        made = f"attempt(nvmlDeviceCreateGpuInstanceWithPlacement, gpus[0], {profile_id}, {place})"
    return f"[i if isinstance(i, dict) else {then} for i in [{made}]][0]"


WHOLE = "placed(nvmlGpuInstanceGetInfo(i))"


def of_profile(profile_id: int, then: str = WHOLE, gpu: int = 0) -> str:
    """`then` of each instance, `i`."""
    return f"[[{then} for i in instances(gpus[{gpu}], {profile_id})]][0]"


def computes(profile_id: int, then: str) -> str:
    """Of the instance `i`; `then` of each `c`."""
    return f"[{then} for c in computes(i, {profile_id})]"


# the mode


def test_the_mode_changes_with_a_reset_on_an_a100(live: Callable[..., Live]) -> None:
    one = live("mig")
    assert one.ask(MODE) == [1, 1]
    assert one.ask(set_mode(0)) == IN_USE  # it has VFs
    assert one.ask(MODE) == [1, 1]
    one.host.driver.set_vfs(one.host.gpu.pci, on=False)
    assert [one.ask(set_mode(0)), one.ask(MODE)] == [RESET_REQUIRED, [1, 0]]
    assert [one.ask(set_mode(1)), one.ask(MODE)] == [0, [1, 1]]
    assert one.ask(set_mode(2)) == INVALID_ARGUMENT


def test_a_board_without_mig_knows_none_of_it(live: Callable[..., Live]) -> None:
    one = live("mdev-vf")
    calls = (MODE, set_mode(1), profile(0), profile(0, 1), places(19), create(19), create(19, 0), of_profile(19))
    assert [one.ask(code) for code in calls] == [NOT_SUPPORTED] * len(calls)


# profiles and places


@pytest.mark.parametrize("code", MIG_BOARDS)
def test_every_profile_is_found_under_its_number_with_its_places(
    nvml: Nvml, make_host: Callable[..., Host], code: str
) -> None:
    host = make_host("mig", "kvm02")
    host.gpu.board = board(code, "test")
    assert host.gpu.board.mig is not None
    seen = nvml.ask(host, f"[{', '.join(profile(number) for number in range(0x12))}]")
    wanted = {one.number: [one.id, one.slices, one.maximum, one.memory_mib] for one in host.gpu.board.mig.profiles}
    assert seen == [wanted.get(number, NOT_SUPPORTED) for number in range(0x12)]
    for one in host.gpu.board.mig.profiles:
        assert nvml.ask(host, places(one.id)) == [[start, one.size] for start in one.starts]


def test_a_profile_has_its_name_and_an_unknown_one_is_refused(nvml: Nvml, make_host: Callable[..., Host]) -> None:
    host = make_host("mig")
    name = "nvmlDeviceGetGpuInstanceProfileInfo(gpus[0], 7).name"
    assert nvml.ask(host, name) == "MIG 1g.5gb+me"
    assert nvml.ask(host, profile(0x12)) == INVALID_ARGUMENT
    assert nvml.ask(host, places(77)) == INVALID_ARGUMENT
    assert nvml.ask(host, "attempt(nvmlDeviceGetGpuInstanceRemainingCapacity, gpus[0], 77)") == INVALID_ARGUMENT
    by_id = "attempt(nvmlDeviceGetGpuInstanceProfileInfoById, gpus[0], 14)"
    assert nvml.ask(host, by_id) == FUNCTION_NOT_FOUND  # before R580
    newer = make_host("mig", "kvm02")
    assert nvml.ask(newer, "nvmlDeviceGetGpuInstanceProfileInfoById(gpus[0], 14).name") == "MIG 2g.20gb"


def test_profiles_have_versioned_structs(nvml: Nvml, make_host: Callable[..., Host]) -> None:
    host = make_host("mig", "kvm02")
    host.gpu.board = board("RTXPRO6000", "test")
    size = 152  # of the second and of the third version
    call = "lib.nvmlDeviceGetGpuInstanceProfileInfoV(gpus[0], 0xA, ctypes.byref(p))"
    code = f"[[{call}, p[1], bytes(p)[48:60].decode(), p[36]] for p in [(c_uint * 38)({size} | {{version}} << 24)]][0]"
    assert nvml.ask(host, code.format(version=1))[0] == 25
    assert nvml.ask(host, code.format(version=3)) == [0, 47, "MIG 1g.24gb+", 2]  # 2: with graphics
    second = code.replace("[48:60]", "[56:68]").replace("p[36]", "p[2]")
    assert nvml.ask(host, second.format(version=2)) == [0, 47, "MIG 1g.24gb+", 0]


def test_with_mig_off_profiles_are_told_from_r580_on_and_places_always(
    nvml: Nvml, make_host: Callable[..., Host]
) -> None:
    host = make_host("mig")  # R570; the second GPU is not in MIG mode
    newer = host.text.replace(f"version={host.version}", "version=580.105.06")
    assert nvml.ask(host, profile(0, gpu=1)) == NOT_SUPPORTED
    assert nvml.ask(host, profile(0, 1, gpu=1)) == [19, 1, 7, 4864]
    assert nvml.ask(newer, profile(0, gpu=1)) == [19, 1, 7, 4864]
    assert nvml.ask(host, places(14, gpu=1)) == [[0, 2], [2, 2], [4, 2]]
    left = "attempt(nvmlDeviceGetGpuInstanceRemainingCapacity, gpus[1], 19)"
    assert nvml.ask(host, left) == NOT_SUPPORTED
    assert nvml.ask(host, of_profile(19, gpu=1)) == NOT_SUPPORTED
    assert nvml.ask(host, "attempt(nvmlDeviceGetGpuInstanceById, gpus[1], 7)") == NOT_SUPPORTED


def test_a_list_of_places_too_short_is_refused_with_its_length(nvml: Nvml, make_host: Callable[..., Host]) -> None:
    code = (
        "[[attempt(nvmlDeviceGetGpuInstancePossiblePlacements, gpus[0], 19, room, ctypes.byref(n)), n.value]"
        " for n in [c_uint(2)] for room in [(c_nvmlGpuInstancePlacement_t * 2)()]][0]"
    )
    assert nvml.ask(make_host("mig"), code) == [INSUFFICIENT_SIZE, 7]


# instances


def test_an_instance_is_made_at_its_place_read_back_and_destroyed(live: Callable[..., Live]) -> None:
    one = live("mig")
    made = one.ask(create(14, 2, 2, then=WHOLE))
    assert made[1:] == [14, 2, 2]
    assert one.ask(of_profile(14)) == [made]
    assert one.ask(of_profile(19)) == []
    by_id = f"[{WHOLE} for i in [nvmlDeviceGetGpuInstanceById(gpus[0], {made[0]})]][0]"
    assert one.ask(by_id) == made
    assert one.ask("attempt(nvmlDeviceGetGpuInstanceById, gpus[0], 0)") == NOT_FOUND
    assert one.ask("nvmlDeviceGetGpuInstanceRemainingCapacity(gpus[0], 14)") == 2
    assert one.ask(create(14, 2, 2)) == INSUFFICIENT_RESOURCES
    assert [one.ask(create(14, 1, 2)), one.ask(create(14, 0, 1)), one.ask(create(77))] == [INVALID_ARGUMENT] * 3
    destroyed = of_profile(14, then="[nvmlGpuInstanceDestroy(i), attempt(nvmlGpuInstanceGetInfo, i)]")
    assert one.ask(destroyed) == [[0, INVALID_ARGUMENT]]
    assert one.host.gpu.instances == []


def test_a_handle_dies_with_its_instance_though_the_id_be_used_again(live: Callable[..., Live]) -> None:
    one = live("mig")
    again = "nvmlGpuInstanceGetInfo(nvmlDeviceCreateGpuInstance(gpus[0], 0)).id"
    then = f"[nvmlGpuInstanceGetInfo(i).id, nvmlGpuInstanceDestroy(i), {again}, attempt(nvmlGpuInstanceGetInfo, i)]"
    assert one.ask(create(0, then=then)) == [0, 0, 0, INVALID_ARGUMENT]


def test_instances_of_two_gpus_are_told_apart(live: Callable[..., Live]) -> None:
    one = live("mig")
    second = one.host.gpus[1]
    one.host.driver.set_vfs(second.pci, on=False)
    one.host.driver.set_mig(second.pci, on=True)
    one.host.driver.reset(second.pci)
    cut(one.host.driver, second, "1g.5gb", 3)
    assert one.ask(of_profile(19)) == []
    assert [row[1:] for row in one.ask(of_profile(19, gpu=1))] == [[19, 3, 1]]
    assert one.ask(create(19, 0, 1, then="nvmlGpuInstanceGetInfo(i).placement.start")) == 0


def test_a_compute_instance_is_made_over_the_whole_instance_and_keeps_it(live: Callable[..., Live]) -> None:
    one = live("mig")
    one.ask(create(9, 4, 4))
    name = "nvmlGpuInstanceGetComputeInstanceProfileInfo(i, {}, 0)"
    whole = f"[[p.id, p.sliceCount, p.instanceCount, p.name] for p in [{name.format(2)}]][0]"
    part = f"[[p.id, p.sliceCount, p.instanceCount, p.name] for p in [{name.format(0)}]][0]"
    assert one.ask(of_profile(9, then=f"[{whole}, {part}]")) == [
        [[2, 3, 1, "MIG 3g.20gb"], [0, 1, 3, "MIG 1c.3g.20gb"]]
    ]
    unknown = "[attempt(nvmlGpuInstanceGetComputeInstanceProfileInfo, i, n, 0) for n in (4, 9)]"
    assert one.ask(of_profile(9, then=unknown)) == [[NOT_SUPPORTED, INVALID_ARGUMENT]]
    info = "placed(nvmlComputeInstanceGetInfo(c))"
    made = "[" + info + " for c in [nvmlGpuInstanceCreateComputeInstance(i, 2)]][0]"
    assert one.ask(of_profile(9, then=made)) == [[0, 2, 0, 3]]
    assert one.ask(of_profile(9, then="attempt(nvmlGpuInstanceCreateComputeInstance, i, 0)")) == [
        INSUFFICIENT_RESOURCES
    ]
    assert one.ask(of_profile(9, then="attempt(nvmlGpuInstanceCreateComputeInstance, i, 4)")) == [NOT_SUPPORTED]
    assert one.ask(of_profile(9, then=computes(2, info))) == [[[0, 2, 0, 3]]]
    assert one.ask(of_profile(9, then=computes(0, info))) == [[]]
    assert one.ask(of_profile(9, then="attempt(nvmlGpuInstanceDestroy, i)")) == [IN_USE]
    assert one.ask(
        of_profile(9, then=computes(2, "[nvmlComputeInstanceDestroy(c), attempt(nvmlComputeInstanceDestroy, c)]"))
    ) == [[[0, INVALID_ARGUMENT]]]
    assert one.ask(of_profile(9, then="nvmlGpuInstanceDestroy(i)")) == [0]


# types and vGPUs


def test_types_of_both_modes_are_supported_and_only_those_of_the_mode_creatable(
    nvml: Nvml, make_host: Callable[..., Host]
) -> None:
    host = make_host("mig")
    code = "[[nvmlVgpuTypeGetName(t) for t in {}(gpu)] for gpu in gpus]"
    both = [[kind.name for kind in host.gpu.board.all_types]] * 2
    sliced = [kind.name for kind in host.gpu.board.types]
    assert nvml.ask(host, code.format("nvmlDeviceGetSupportedVgpus")) == both
    creatable = code.format("nvmlDeviceGetCreatableVgpus")
    assert nvml.ask(host, creatable) == [[], sliced]
    cut(host.driver, host.gpu, "2g.10gb")
    assert nvml.ask(host, creatable) == [["GRID A100-2-10C"], sliced]
    host.make_vgpu("2-10C")
    assert nvml.ask(host, creatable) == [[], sliced]


def test_a_mig_backed_type_names_its_profile_and_how_many_share_an_instance(
    nvml: Nvml, make_host: Callable[..., Host]
) -> None:
    host = make_host("mig", "kvm02")
    profile_ids = "[nvmlVgpuTypeGetGpuInstanceProfileId(t) for t in (821, 822, 993, 1059, 60114)]"
    assert nvml.ask(host, profile_ids) == [19, 14, 20, 15, 0xFFFFFFFF]
    host.gpu.board = board("RTXPRO6000", "test")
    shared = "[attempt(nvmlVgpuTypeGetMaxInstancesPerGpuInstance, t) for t in (1546, 1561, 1519, 4711)]"
    assert nvml.ask(host, shared) == [12, 1, NOT_SUPPORTED, INVALID_ARGUMENT]
    old = host.text.replace(f"version={host.version}", "version=570.172.07")
    assert nvml.ask(old, shared) == [FUNCTION_NOT_FOUND] * 4


def test_an_active_vgpu_names_its_instance_and_has_no_utilization(nvml: Nvml, make_host: Callable[..., Host]) -> None:
    host = make_host("mig")
    instance = cut(host.driver, host.gpu, "1g.5gb")
    host.start_vm(short="1-5C")
    host.clock_us += 2_000_000
    vgpu = "nvmlDeviceGetActiveVgpus(gpus[0])[0]"
    assert nvml.ask(host, f"nvmlVgpuInstanceGetGpuInstanceId({vgpu})") == instance.id
    assert nvml.ask(host, "attempt(nvmlDeviceGetVgpuUtilization, gpus[0], 0)") == NOT_SUPPORTED
    assert nvml.ask(host, "attempt(nvmlDeviceGetUtilizationRates, gpus[0])") == NOT_SUPPORTED
    assert nvml.ask(host, "attempt(nvmlDeviceGetVgpuSchedulerState, gpus[0])") == NOT_SUPPORTED
    assert nvml.ask(host, "attempt(nvmlDeviceGetVgpuHeterogeneousMode, gpus[0])") == NOT_SUPPORTED
    assert nvml.ask(host, "nvmlDeviceGetVgpuHeterogeneousMode(gpus[1])") == 0
    kind = 476  # 3-20C, which has the size and the maximum of a time-sliced type
    places_of = "attempt(nvmlDeviceGetVgpuTypeSupportedPlacements, gpus[{}], {}, 0, 2)"
    assert nvml.ask(host, places_of.format(0, kind)) == NOT_SUPPORTED
    assert nvml.ask(host, places_of.format(1, kind)) == NOT_SUPPORTED
