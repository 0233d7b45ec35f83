"""What certify asks by reading: each question is answered by what a host shows, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from tests.unit import captures, reports
from tests.unit.host import fakehost
from tests.unit.host.fakehost import GPU_A, MDEV_VF, VENDOR, FakeHost
from tests.unit.host.fakenvml import FakeNvml
from vgpumgr.core.certify import beliefs, questions
from vgpumgr.core.certify.beliefs import EMPTY_GPU, PERSON, READ, Answer
from vgpumgr.core.certify.capture import Call
from vgpumgr.core.driver import profiles
from vgpumgr.core.model.functions import Vgpu
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vgpumgr.core.certify.capture import Capture, Function

Change: TypeAlias = "Callable[[Capture], Capture]"


def host_of(framework: str, folder: Path) -> FakeHost:
    host = FakeHost.build(folder, framework)
    for vf in range(3):
        top = host.function(f"{GPU_A[:-1]}{4 + vf}")
        host.path(f"/sys/kernel/iommu_groups/{0x41 * 10 + vf}/devices/vf").mkdir(parents=True)
        if framework == VENDOR:
            for name in ("placement_id", "gpu_instance_id"):
                host.put(f"{top}/nvidia/{name}", "0")
            host.put(f"{top}/nvidia/vgpu_params", "")
            host.put(f"{top}/nvidia/warm_update", "0")
        for kind in fakehost.TYPES if framework == MDEV_VF else ():
            host.put(f"{top}/mdev_supported_types/nvidia-{kind}/device_api", "vfio-pci")
            host.path(f"{top}/mdev_supported_types/nvidia-{kind}/devices").mkdir()
    return host


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Capture]:
    """A host of each framework, whose driver answers as is believed; ENXIO is no answer of a plain file."""
    found: dict[str, Capture] = {}
    for framework in (VENDOR, MDEV_VF):
        capture = reports.capture_of(host_of(framework, tmp_path_factory.mktemp("host")), FakeNvml)
        versions = {**capture.snapshot.versions, "driver": "580.105.06"}
        idle = {f"nvidia/{name}": "!ENXIO" for name in ("placement_id", "gpu_instance_id")}
        functions = tuple(
            one if one.vf_index is None or framework == MDEV_VF else replace(one, files={**one.files, **idle})
            for one in capture.functions
        )
        found[framework] = replace(capture, snapshot=replace(capture.snapshot, versions=versions), functions=functions)
    return found


def verdicts(capture: Capture) -> dict[str, Answer]:
    return {one.belief: one for one in reports.answers_of(capture) if one.gpu == GPU_A}


def with_file(name: str, text: str | None, *, at: int | None = 1) -> Change:
    """The file of one VF, or of the physical function, is otherwise; None: it is not there."""

    def change(one: Function) -> Function:
        files = {path: told for path, told in one.files.items() if path != name}
        return replace(one, files=files if text is None else {**files, name: text}) if one.vf_index == at else one

    return lambda capture: replace(capture, functions=tuple(map(change, capture.functions)))


def with_vfs(**fields: object) -> Change:
    return lambda capture: replace(
        capture,
        functions=tuple(one if one.vf_index is None else replace(one, **fields) for one in capture.functions),  # type: ignore[arg-type]
    )


def with_gpu(**fields: object) -> Change:
    def change(capture: Capture) -> Capture:
        gpus = tuple(replace(gpu, **fields) for gpu in capture.snapshot.gpus)  # type: ignore[arg-type]
        return replace(capture, snapshot=replace(capture.snapshot, gpus=gpus))

    return change


def with_host(path: str, text: str) -> Change:
    return lambda capture: replace(capture, host={**capture.host, path: text})


def with_call(name: str, code: int, answer: str = "null") -> Change:
    row = Call(gpu=PciAddress(GPU_A), call=name, of="[]", answer=answer, code=code)
    return lambda capture: replace(capture, calls=(*capture.calls, row))


def without_type(capture: Capture) -> Capture:
    parents = tuple(
        replace(one, creatable={kind: left for kind, left in (one.creatable or {}).items() if kind != 560})
        for one in capture.snapshot.gpus[0].parents
    )
    return with_gpu(parents=parents)(capture)


def with_type(**fields: Any) -> Change:
    def change(capture: Capture) -> Capture:
        types = dict(capture.snapshot.gpus[0].types or {})
        types[560] = replace(types[560], **fields)
        return with_gpu(types=types)(capture)

    return change


def with_caps(**fields: Any) -> Change:
    def change(capture: Capture) -> Capture:
        state = capture.snapshot.gpus[0].scheduler
        assert state is not None
        return with_gpu(scheduler=replace(state, caps=replace(state.caps, **fields)))(capture)

    return change


_560 = "mdev_supported_types/nvidia-560"
CHANGES: dict[str, tuple[str, Change]] = {
    "driver-files": (VENDOR, with_file("nvidia/warm_update", None)),
    "list-header": (VENDOR, with_file("nvidia/creatable_vgpu_types", "560 : NVIDIA A40-4Q\n")),
    "list-rows": (VENDOR, with_file("nvidia/creatable_vgpu_types", "ID    : vGPU Name\nNVIDIA A40-4Q  560\n")),
    "list-complete": (VENDOR, without_type),
    "idle-placement": (VENDOR, with_file("nvidia/placement_id", "0\n")),
    "idle-instance": (VENDOR, with_file("nvidia/gpu_instance_id", "!ENOENT")),
    "idle-params": (VENDOR, with_file("nvidia/vgpu_params", "!ENXIO")),
    "idle-warm-update": (VENDOR, with_file("nvidia/warm_update", "1\n")),
    "type-files": (MDEV_VF, with_file(f"{_560}/create", None)),
    "description": (MDEV_VF, with_file(f"{_560}/description", "framebuffer=4096M, max_instance=12\n")),
    "device-api": (MDEV_VF, with_file(f"{_560}/device_api", "vfio-mdev\n")),
    "pf-files": (VENDOR, with_file("nvidia/creatable_vgpu_types", "", at=None)),
    "vf-driver": (VENDOR, with_vfs(driver=None)),
    "vf-group": (VENDOR, with_vfs(group=2)),
    "vfio-dev": (VENDOR, with_vfs(vfio_devs=0)),
    "vf-count": (VENDOR, with_file("sriov_totalvfs", "16\n", at=None)),
    "gpu-uuid": (VENDOR, with_host(f"/proc/driver/nvidia/gpus/{GPU_A}/information", "Model: NVIDIA A40\n")),
    "module-params": (VENDOR, with_host("/proc/driver/nvidia/params", "EnableMSI: 1\n")),
    "type-names": (VENDOR, with_type(parsed=profiles.other_name("NVIDIA 9"))),
    "type-figures": (VENDOR, with_type(max=11, listed=False)),
    "scheduler-range": (VENDOR, with_caps(max_frequency_hz=1000)),
    "scheduler-engines": (VENDOR, with_call("nvmlDeviceGetVgpuSchedulerState_v2", 999)),
    "running-uuid": (VENDOR, with_call("nvmlVgpuInstanceGetMdevUUID", 0, f'"{fakehost.MDEV}"')),
    "gpm-instance": (VENDOR, with_call("nvmlGpmMigSampleGet", 0)),
    "instance-scheduler": (VENDOR, with_call("nvmlGpuInstanceGetVgpuSchedulerState_v2", 0)),
}


def test_a_driver_that_answers_as_is_believed_differs_in_nothing(read: Mapping[str, Capture]) -> None:
    for capture in read.values():
        assert {one.belief: one.seen for one in verdicts(capture).values() if one.verdict == "differs"} == {}


@pytest.mark.parametrize("belief", CHANGES)
def test_what_one_function_or_call_answers_otherwise_is_seen_and_nothing_else(
    belief: str, read: Mapping[str, Capture]
) -> None:
    framework, change = CHANGES[belief]
    before, after = verdicts(read[framework]), verdicts(change(read[framework]))
    assert after[belief].verdict == "differs", after[belief]
    assert {name for name in after if after[name].seen != before[name].seen} <= {belief, "list-header", "list-rows"}


def test_a_function_that_holds_a_vgpu_is_not_asked_what_an_idle_one_shows(read: Mapping[str, Capture]) -> None:
    capture = with_file("nvidia/placement_id", "0\n")(read[VENDOR])
    first, second, *others = capture.snapshot.gpus[0].parents
    vgpu = Vgpu(parent=second.pci, vf_index=1, uuid=None, type_id=560, type_name=None, placement_id=0, vfio=())
    held = with_gpu(parents=(first, replace(second, vgpus=(vgpu,)), *others))(capture)
    assert [verdicts(one)["idle-placement"].verdict for one in (capture, held)] == ["differs", "holds"]


def test_running_vgpus_without_a_uuid_are_as_believed(read: Mapping[str, Capture]) -> None:
    for code, answer in ((3, "null"), (0, '"00000000-0000-0000-0000-000000000000"'), (0, '"N/A"')):
        capture = with_call("nvmlVgpuInstanceGetMdevUUID", code, answer)(read[VENDOR])
        assert verdicts(capture)["running-uuid"].verdict == "holds"


def test_what_cannot_be_told_is_not_answered(read: Mapping[str, Capture]) -> None:
    """A list is compared with NVML's only on a GPU without vGPUs, and if NVML spoke."""
    for change in (
        with_gpu(mode="mig"),
        lambda capture: replace(capture, calls=()),
        with_gpu(scheduler=None),
    ):
        told = verdicts(change(without_type(read[VENDOR])))
        assert (told["list-complete"].verdict == "unanswered") != (told["scheduler-range"].seen is None)
    assert verdicts(replace(read[VENDOR], functions=()))["driver-files"].verdict == "unanswered"


def test_the_captures_of_real_hosts_confirm_what_they_show(tmp_path: Path) -> None:
    """What differs are files that the captures lack, or that their authors made up."""
    made_up = {"type-files", "driver-files", "idle-placement", "idle-instance", "idle-warm-update", "vf-group"}
    seen: set[str] = set()
    for one in captures.captures():
        answers = reports.answers_of(reports.capture_of(captures.build(one, tmp_path / str(one))))
        assert {each.belief for each in answers if each.verdict == "differs"} <= made_up, one
        seen |= {each.belief for each in answers if each.verdict == "holds"}
    assert {"list-header", "list-rows", "description", "pf-files", "type-names", "type-figures", "vf-count"} <= seen


def test_each_belief_is_asked_in_one_way() -> None:
    of = {need: {one.id for one in reports.TABLE.values() if one.needs == need} for need in (READ, EMPTY_GPU, PERSON)}
    assert set(questions.QUESTIONS) == of[READ]
    assert set.union(*of.values()) == set(reports.TABLE)


def test_each_belief_of_a_gpus_framework_has_one_answer_in_the_tables_order(read: Mapping[str, Capture]) -> None:
    answers = reports.answers_of(read[MDEV_VF])
    why = {need: f"it needs {need}" for need in (READ, EMPTY_GPU, PERSON)}
    found = beliefs.complete(reports.TABLE, answers, {PciAddress(GPU_A): MDEV_VF}, why)
    assert [one.belief for one in found] == [one.id for one in reports.TABLE.values() if one.is_of(MDEV_VF)]
    assert {one.evidence for one in found if one.belief in ("create", "plugin-end")} == {
        "it needs empty GPU",
        "it needs person",
    }
