"""A plan's steps on the wire: each says what it means in the protocol's keys, and the host program takes it for a step."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.core import builders, step_kinds
from vgpumgr.core import step as steps
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIXED_SIZE
from vgpumgr.core.driver.scheduler import Setting
from vgpumgr.core.model.mig import MigPlace, OurInstance
from vgpumgr.core.model.reservation import Terms
from vgpumgr.core.model.snapshot import Cordon
from vgpumgr.host.steps.executor import parse_step
from vgpumgr.link.values.steps import wire_step
from vgpumgr.names import GpuUuid, PciAddress

if TYPE_CHECKING:
    from vgpumgr.core.model.vgpu import VgpuSpec

PCI = PciAddress("0000:41:00.0")
UUID = GpuUuid("GPU-1")
OF_GPU: dict[str, Any] = {"host": builders.HOST, "gpu_uuid": UUID, "gpu": PCI}
GPU: dict[str, Any] = {"gpu_uuid": UUID, "gpu": PCI}
VGPU = builders.entry_of(builders.attached(builders.host())).vgpu
MIG = MigPlace(profile="2g.10gb", profile_id=14, start=2)
INSTANCE = OurInstance(**GPU, profile="2g.10gb", profile_id=14, start=2, size=2)
SETTING = Setting(policy="fixed-share", arr=False, time_slice_ns=2_000_000)
CONF = "/etc/modprobe.d/vgpumgr.conf"
TERMS = Terms(owner="cfd", by="anna", at="2026-11-21T12:00:00Z", left_s=60)
CORDON = Cordon(gpu_uuid=UUID, gpu=PCI, reason="a fan", by="anna", at="2026-11-21T12:00:00Z")


UNSAID = {"param": None, "replaces": None, "runs": False, "listed": False}


def of_vgpu(spec: VgpuSpec = VGPU, *, unsaid: dict[str, Any] = UNSAID, **said: Any) -> dict[str, Any]:
    fields = asdict(spec)
    return {"vm_uuid": fields.pop("vm"), **fields, **unsaid, **said}


CASES: list[tuple[steps.HostStep, dict[str, Any]]] = [
    (
        steps.CreateVgpu(host=builders.HOST, vgpu=VGPU, expect="same", param="frame_rate_limiter=0", replaces=3),
        of_vgpu(verb="create_vgpu", expect="same", param="frame_rate_limiter=0", replaces=3),
    ),
    (
        steps.CreateVgpu(host=builders.HOST, vgpu=replace(VGPU, mig=MIG), expect="empty", runs=True),
        of_vgpu(
            verb="create_vgpu", expect="empty", runs=True, mig={"profile": "2g.10gb", "profile_id": 14, "start": 2}
        ),
    ),
    (steps.EnterVgpu(host=builders.HOST, vgpu=VGPU), of_vgpu(verb="create_vgpu", expect="same")),
    (
        steps.DestroyVgpu(host=builders.HOST, vgpu=VGPU, expect="absent", listed=True),
        of_vgpu(verb="destroy_vgpu", expect="absent", listed=True),
    ),
    (
        steps.EvacuateVgpu(host=builders.HOST, vgpu=VGPU, runs=True),
        of_vgpu(verb="evacuate_vgpu", expect="present", runs=True),
    ),
    (
        steps.DeferVgpu(host=builders.HOST, vgpu=VGPU, param="frame_rate_limiter=0", replaces=2),
        of_vgpu(verb="defer_vgpu", expect="absent", param="frame_rate_limiter=0", replaces=2),
    ),
    (
        steps.CreateInstance(host=builders.HOST, instance=INSTANCE, expect="same"),
        {"verb": "create_instance", **asdict(INSTANCE), "expect": "same"},
    ),
    (
        steps.DestroyInstance(host=builders.HOST, instance=INSTANCE, expect="absent"),
        {"verb": "destroy_instance", **asdict(INSTANCE), "expect": "absent"},
    ),
    (
        steps.SetMode(**OF_GPU, mode=MIXED_SIZE, expect=EQUAL_SIZE),
        {"verb": "set_mode", **GPU, "mode": "mixed-size", "expect": "equal-size"},
    ),
    (steps.SetVfs(**OF_GPU, on=True, framework=None), {"verb": "set_vfs", **GPU, "on": True, "expect": False}),
    (
        steps.SetMig(**OF_GPU, on=True, expect=True, profiles=()),
        {"verb": "set_mig", **GPU, "on": True, "expect": True},
    ),
    (steps.ResetGpu(**OF_GPU, profiles=()), {"verb": "reset_gpu", **GPU}),
    (
        steps.SetCordon(**OF_GPU, cordon=CORDON, expect=None),
        {"verb": "set_cordon", **GPU, "vf_index": None, "vf": None, "expect": None}
        | {"cordon": {"reason": "a fan", "by": "anna", "at": "2026-11-21T12:00:00Z"}},
    ),
    (
        steps.SetCordon(**OF_GPU, vf_index=1, vf=PciAddress("0000:41:00.5"), cordon=None, expect=CORDON),
        {"verb": "set_cordon", **GPU, "vf_index": 1, "vf": "0000:41:00.5", "cordon": None}
        | {"expect": {"reason": "a fan", "by": "anna", "at": "2026-11-21T12:00:00Z"}},
    ),
    (
        steps.SetScheduler(**OF_GPU, api=1, setting=SETTING, before=SETTING, expect={"graphics": None}),
        {"verb": "set_scheduler", **GPU, "api": 1, "setting": asdict(SETTING), "expect": {"graphics": None}},
    ),
    (
        steps.WriteModprobe(host=builders.HOST, path=CONF, text="options nvidia\n", expect=None),
        {"verb": "write_modprobe", "path": CONF, "text": "options nvidia\n", "expect": None},
    ),
    (
        steps.SetReservation(host=builders.HOST, vgpu=VGPU, terms=TERMS, before=None),
        of_vgpu(unsaid={}, verb="set_reservation", terms=asdict(TERMS)),
    ),
]


@pytest.mark.parametrize(
    ("step", "wire"),
    CASES,
    ids=lambda value: value.verb if isinstance(value, steps.AnyStep) else "",
)
def test_a_step_says_what_it_means_and_the_host_program_takes_it(step: steps.HostStep, wire: dict[str, Any]) -> None:
    assert wire_step(step) == wire
    assert parse_step(wire_step(step)) == wire


def test_every_step_that_the_host_program_carries_out_is_tried_above() -> None:
    assert {type(step) for step, _ in CASES} == step_kinds.OF_HOST_PROGRAM


def test_a_full_disk_holds_up_every_step_but_those_that_leave_the_ledger_as_it_is() -> None:
    unwritten = {step.verb for step, _ in CASES if not step.writes_ledger}
    assert unwritten == {"set_scheduler", "set_mode", "set_mig", "reset_gpu", "write_modprobe"}
