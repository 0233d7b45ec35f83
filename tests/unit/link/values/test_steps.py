"""A plan's steps on the wire: each says what it means in the protocol's keys, and the host program takes it for a step."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.core import builders
from vgpumgr.core import step as steps
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIXED_SIZE
from vgpumgr.core.model.mig import MigPlace, OurInstance
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
CORDON = Cordon(gpu_uuid=UUID, gpu=PCI, reason="a fan", by="anna", at="2026-11-21T12:00:00Z")


def of_vgpu(spec: VgpuSpec = VGPU, **said: Any) -> dict[str, Any]:
    fields = asdict(spec)
    unsaid = {"param": None, "replaces": None, "runs": False, "listed": False}
    return {"vm_uuid": fields.pop("vm"), **fields, **unsaid, **said}


@pytest.mark.parametrize(
    ("step", "wire"),
    [
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
            steps.CreateInstance(host=builders.HOST, instance=INSTANCE, expect="same"),
            {"verb": "create_instance", **GPU, "profile": "2g.10gb", "profile_id": 14, "start": 2, "size": 2}
            | {"expect": "same"},
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
            {"verb": "set_cordon", **GPU, "expect": None}
            | {"cordon": {"reason": "a fan", "by": "anna", "at": "2026-11-21T12:00:00Z"}},
        ),
        (
            steps.SetCordon(**OF_GPU, cordon=None, expect=CORDON),
            {"verb": "set_cordon", **GPU, "cordon": None}
            | {"expect": {"reason": "a fan", "by": "anna", "at": "2026-11-21T12:00:00Z"}},
        ),
    ],
    ids=lambda value: value.verb if isinstance(value, steps.AnyStep) else "",
)
def test_a_step_says_what_it_means_and_the_host_program_takes_it(step: steps.HostStep, wire: dict[str, Any]) -> None:
    assert wire_step(step) == wire
    assert parse_step(wire_step(step)) == wire
