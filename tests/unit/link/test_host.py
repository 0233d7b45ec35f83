"""The waist: core's values in, core's values out; the wire between them is the real session's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.core import builders
from tests.unit.link.program.test_session import LOCKED, SCHEDULER, SNAPSHOT, Script, accept, render_ok, start
from tests.unit.link.real_libvirt import HOSTDEV
from vgpumgr import errors, resources
from vgpumgr.core import step as plan_steps
from vgpumgr.core.driver import catalogue, scheduler
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FrameworkName
from vgpumgr.host.protocol import gpu
from vgpumgr.host.protocol.gpu import BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE
from vgpumgr.host.protocol.steps import (
    CREATE_VGPU,
    DESTROY_VGPU,
    EVACUATE_VGPU,
    SET_MODE,
    SET_SCHEDULER,
    WRITE_MODPROBE,
    DeviceStep,
    MetadataStep,
    ModprobeStep,
    SchedulerStep,
    Step,
)
from vgpumgr.host.steps.executor import parse_step
from vgpumgr.link.host import Host, StepResult
from vgpumgr.link.program import wire
from vgpumgr.link.values import steps

if TYPE_CHECKING:
    from tests.unit.link.program.test_session import Answer

VM = builders.vm_uuid("vm01")
VIEW = builders.attached(builders.host())
GPU = VIEW.snapshot.gpus[0]
SETTING = scheduler.Setting(policy="fixed-share", arr=False, time_slice_ns=2_000_000)
SET = plan_steps.SetScheduler(
    host=builders.HOST,
    gpu_uuid=builders.gpu_uuid(GPU.pci),
    gpu=GPU.pci,
    api=1,
    setting=SETTING,
    before=replace(SETTING, policy="best-effort"),
    expect={"graphics": "best-effort"},
)
CONF = plan_steps.WriteModprobe(
    host=builders.HOST,
    path="/etc/modprobe.d/vgpumgr.conf",
    text="options nvidia NVreg_RegistryDwords=RmPVMRL=0x1\n",
    expect=None,
)


class OneHost(Host):
    """A host with nothing but the session."""

    def __init__(self, script: Script) -> None:
        super().__init__(start(script), catalogue.parse(resources.catalogue_text()), libvirt_s=40)

    def close(self) -> None:
        self.program.close()

    def abort(self) -> None: ...


def says(**ok: object) -> Answer:
    """A host that answers these verbs so, and all else as `accept` does."""
    return lambda request: render_ok(request, ok[request["do"]]) if request["do"] in ok else accept(request)


def test_a_host_is_observed_locked_and_unlocked_as_a_snapshot() -> None:
    facts = builders.facts_of(VIEW.snapshot)
    locked = {**facts, "unwritable": {"path": "/var/lib/vgpumgr", "errno": "EROFS"}}
    script = Script(says(observe=facts, lock=locked, unlock={**facts, "gpus": facts["gpus"][:1]}))
    with OneHost(script) as host:
        assert host.observe(wait_s=7).snapshot == VIEW.snapshot
        found = host.lock(by="anna@ctl1", wait_s=3)
        assert found.snapshot == VIEW.snapshot
        assert found.unwritable is not None
        assert (found.unwritable.path, found.unwritable.errno_name) == ("/var/lib/vgpumgr", "EROFS")
        assert not found.unwritable.written
        assert host.unlock((str(GPU.uuid),)).snapshot.gpus == (GPU,)
    assert [{key: request[key] for key in request if key not in {"id", "do"}} for request in script.seen] == [
        {"wait_s": 7, "libvirt": None},
        {"by": "anna@ctl1", "wait_s": 3, "libvirt": None},
        {"gpu_uuids": [GPU.uuid], "libvirt": None},
    ]


def test_a_ledger_that_can_be_written_is_nothing_to_tell() -> None:
    assert OneHost(Script(says(lock=LOCKED))).lock(by="me", wait_s=0).unwritable is None


def test_maxima_that_the_host_does_not_tell_are_the_catalogues() -> None:
    silent = builders.change_gpus(
        builders.host(),
        lambda gpu: replace(
            gpu, types={key: replace(vgpu_type, max=None) for key, vgpu_type in (gpu.types or {}).items()}
        ),
    )
    found = OneHost(Script(says(observe=builders.facts_of(silent.snapshot)))).observe(wait_s=0).snapshot
    assert {vgpu_type.short: vgpu_type.max for vgpu_type in (found.gpus[0].types or {}).values()}["4Q"] == 12


@pytest.mark.parametrize("position", [-1, 4711])
def test_a_parent_that_names_no_offer_of_its_gpu_takes_nobody_knows_what(position: int) -> None:
    facts = json.loads(json.dumps(builders.facts_of(VIEW.snapshot)))
    facts["gpus"][0]["parents"][0]["creatable"] = position
    found = OneHost(Script(says(observe=facts))).observe(wait_s=0).snapshot
    assert found.gpus[0].parents[0].creatable is None
    assert found.gpus[0].parents[1:] == VIEW.snapshot.gpus[0].parents[1:]


def test_another_shape_is_a_failed_program_that_names_the_key() -> None:
    with pytest.raises(errors.ProgramFailed, match=r"kvm01: .*snapshot\.gpus\[0\] is 'A40', not an object"):
        OneHost(Script(says(observe={**SNAPSHOT, "gpus": ["A40"]}))).observe(wait_s=0)


def test_a_sample_is_a_reading() -> None:
    report = {
        **{key: SNAPSHOT[key] for key in ("protocol", "boot", "gpus", "ledger", "unknown")},
        "now_us": 5,
        "driver": "570",
    }
    script = Script(says(sample=report))
    found = OneHost(script).sample(since={"0000:41:00.0": 3}, wait_s=1)
    assert (found.host, found.now_us, found.driver, found.gpus) == (builders.HOST, 5, "570", ())
    assert script.seen[0]["since"] == {"0000:41:00.0": 3}


def test_a_step_is_told_as_the_wire_has_it_and_its_result_is_a_value() -> None:
    ok: dict[str, Any] = {"note": "nvenc0 did not take it", "scheduler": SCHEDULER}
    script = Script(says(execute=ok))
    result = OneHost(script).execute(SET)
    assert result.note == "nvenc0 did not take it"
    assert result.scheduler is not None
    assert result.scheduler.policies == {"graphics": "fixed-share"}
    assert script.seen[0]["step"] == steps.wire_step(SET)
    assert OneHost(Script()).execute(CONF) == StepResult(note=None, scheduler=None)


def test_a_definition_is_changed_by_steps_with_the_wires_shape() -> None:
    script = Script()
    host = OneHost(script)
    host.set_metadata(VM, "<vgpumgr/>", key="v", uri="urn:vgpumgr:domain:2")
    host.set_metadata(VM, None, key="v", uri="urn:vgpumgr:domain:2")
    host.attach_device(VM, HOSTDEV)
    host.detach_device(VM, HOSTDEV)
    assert [(request["do"], request["deadline_s"]) for request in script.seen] == [("execute", 40)] * 4
    told = [
        wire.check(request["step"], MetadataStep if "key" in request["step"] else DeviceStep, "step")
        for request in script.seen
    ]
    assert told == [parse_step(request["step"]) for request in script.seen]
    assert [(step["verb"], step["xml"]) for step in told] == [
        ("set_metadata", "<vgpumgr/>"),
        ("set_metadata", None),
        ("attach_device", HOSTDEV),
        ("detach_device", HOSTDEV),
    ]


@pytest.mark.parametrize("framework", [MDEV_PF, MDEV_VF, VENDOR_VFIO])
def test_every_step_that_is_the_host_programs_has_the_wires_shape(framework: FrameworkName) -> None:
    before = builders.host_of(framework)
    create = builders.created(builders.plan_attach(before))
    vgpu = create.vgpu
    enter = plan_steps.EnterVgpu(host=create.host, vgpu=vgpu)
    destroy = plan_steps.DestroyVgpu(host=create.host, vgpu=vgpu, expect=plan_steps.ABSENT, listed=True)
    evacuation = plan_steps.EvacuateVgpu(host=create.host, vgpu=vgpu, runs=True)
    told = [wire.check(steps.wire_step(step), Step, "step") for step in (create, enter, destroy, evacuation)]
    assert [(one["verb"], one["expect"], one["runs"], one["listed"]) for one in told] == [
        ("create_vgpu", "empty", False, False),
        ("create_vgpu", "same", False, False),
        ("destroy_vgpu", "absent", False, True),
        ("evacuate_vgpu", "present", True, False),
    ]
    assert {(one["slot"], one["parent"], one["uuid"], one["type_id"]) for one in told} == {
        (vgpu.slot, vgpu.parent, vgpu.uuid, vgpu.type_id)
    }


def test_a_scheduler_and_a_file_of_modprobe_have_the_wires_shape() -> None:
    told = wire.check(steps.wire_step(SET), SchedulerStep, "step")
    assert (told["setting"]["time_slice_ns"], told["expect"]) == (2_000_000, {"graphics": "best-effort"})
    conf = wire.check(steps.wire_step(CONF), ModprobeStep, "step")
    assert (conf["path"], conf["expect"]) == ("/etc/modprobe.d/vgpumgr.conf", None)
    assert conf["text"] == "options nvidia NVreg_RegistryDwords=RmPVMRL=0x1\n"


def test_core_and_the_host_program_have_the_same_words() -> None:
    assert (MDEV_PF, MDEV_VF, VENDOR_VFIO) == (gpu.MDEV_PF, gpu.MDEV_VF, gpu.VENDOR_VFIO)
    assert scheduler.POLICIES == (BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE)
    told = (
        plan_steps.CreateVgpu,
        plan_steps.DestroyVgpu,
        plan_steps.EvacuateVgpu,
        plan_steps.SetScheduler,
        plan_steps.SetMode,
        plan_steps.WriteModprobe,
    )
    assert [step.verb for step in told] == [
        CREATE_VGPU,
        DESTROY_VGPU,
        EVACUATE_VGPU,
        SET_SCHEDULER,
        SET_MODE,
        WRITE_MODPROBE,
    ]
