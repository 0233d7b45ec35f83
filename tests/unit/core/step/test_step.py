"""Steps as values: their inverses, their JSON, and what simulate finds impossible; the snapshot's own laws."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.driver import profiles
from vgpumgr.core.model import snapshot
from vgpumgr.core.model.snapshot import MDEV_VF, VENDOR_VFIO, Active, Gpu
from vgpumgr.link.values import snapshot_facts
from vgpumgr.names import VmName, VmUuid

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView
    from vgpumgr.host.protocol.snapshot import Observed

GOLDEN = """\
{"verb": "put_claim", "vm": "vm01", "slot": "vgpu0", "requested": "--profile 4Q", "asked_mib": 4096, "framebuffer_mib": 4096, "guest_mib": 3557, "waste_pct": 0.0, "inverse": "drop_claim"}
{"verb": "create_vgpu", "host": "kvm01", "vm": "vm01", "slot": "vgpu0", "gpu": "0000:41:00.0", \
"parent": "0000:41:00.4", "type_id": 560, "type_name": "A40-4Q", \
"uuid": "1ddfb5ce-0a64-5612-978e-e86b28662399", "placement_id": null, "mig": null, "inverse": "destroy_vgpu"}
{"verb": "attach_hostdev", "vm": "vm01", "slot": "vgpu0", "alias": "ua-vgpu0", "where": ["inactive"], \
"inverse": "detach_hostdev"}
{"verb": "bind_claim", "vm": "vm01", "slot": "vgpu0", "requested": "--profile 4Q", "asked_mib": 4096, "framebuffer_mib": 4096, "guest_mib": 3557, "waste_pct": 0.0, "inverse": "put_claim"}
{"verb": "leave_claim", "vm": "vm01", "slot": "vgpu0", "requested": "--profile 4Q", "asked_mib": 4096, "framebuffer_mib": 4096, "guest_mib": 3557, "waste_pct": 0.0, "inverse": "bind_claim"}
{"verb": "detach_hostdev", "vm": "vm01", "slot": "vgpu0", "alias": "ua-vgpu0", "where": ["inactive"], \
"inverse": "attach_hostdev"}
{"verb": "destroy_vgpu", "host": "kvm01", "vm": "vm01", "slot": "vgpu0", "gpu": "0000:41:00.0", \
"parent": "0000:41:00.4", "type_id": 560, "type_name": "A40-4Q", \
"uuid": "1ddfb5ce-0a64-5612-978e-e86b28662399", "placement_id": null, "mig": null, "inverse": "create_vgpu"}
{"verb": "drop_claim", "vm": "vm01", "slot": "vgpu0", "inverse": "leave_claim"}"""

CORDON = snapshot.Cordon(gpu_uuid=None, gpu=None, reason="a fan", by="anna", at="2026-11-21T12:00:00Z")


def test_the_steps_are_printed_as_the_design_shows_them() -> None:
    view = builders.host()
    steps = [*builders.plan_attach(view).steps, *builders.plan_detach(builders.attached(view)).steps]
    assert "\n".join(json.dumps(step.record()) for step in steps) == GOLDEN


def impossible(view: HostView, step: plan_steps.Step) -> str:
    with pytest.raises(simulate.ImpossibleStepError) as caught:
        simulate.apply_one(view, step)
    return str(caught.value)


def test_no_step_can_be_done_twice_in_a_row() -> None:
    view = builders.host()
    for made in (builders.plan_attach(view), builders.plan_detach(builders.attached(view))):
        now = view if made.placed else builders.attached(view)
        for step in made.steps:
            now = simulate.apply_one(now, step)
            impossible(now, step)


@pytest.mark.parametrize(
    "step",
    [
        plan_steps.SetCordon(host=builders.HOST, gpu_uuid=None, gpu=None, cordon=CORDON, expect=None),
        plan_steps.WriteModprobe(host=builders.HOST, path="/etc/modprobe.d/x.conf", text="#", expect=None),
        plan_steps.StartVm(vm=builders.vm_uuid("vm01"), vm_name=VmName("vm01")),
    ],
    ids=lambda step: step.verb,
)
def test_nor_can_a_step_whose_effect_is_there(step: plan_steps.Step) -> None:
    view = replace(builders.host(), snapshot=replace(builders.host().snapshot, ledger_file=False))
    after = simulate.apply_one(view, step)
    assert after.snapshot.ledger_file == step.writes_ledger
    impossible(after, step)


def test_a_step_for_a_vm_that_is_not_there_is_impossible() -> None:
    step = builders.plan_attach(builders.host()).steps[0]
    assert impossible(replace(builders.host(), domains=()), step) == f"no VM {builders.vm_uuid('vm01')}"


def test_a_place_that_is_not_there_is_refused() -> None:
    step = builders.created(builders.plan_attach(builders.host()))
    assert impossible(builders.with_snapshot(builders.host(), gpus=()), step) == "0000:41:00.4 does not take type 560"
    same = replace(step, expect=plan_steps.SAME)
    assert impossible(builders.host(), same) == "there is nothing to enter"


def test_what_is_there_is_not_taken_out_as_absent_nor_the_other_way_round() -> None:
    view = builders.attached(builders.host())
    step = next(step for step in builders.plan_detach(view).steps if isinstance(step, plan_steps.DestroyVgpu))
    assert impossible(view, replace(step, expect=plan_steps.ABSENT)) == "expected absent"
    assert impossible(builders.rebooted(view), step) == "expected present"


# The snapshot


def test_what_is_unknown_stays_unknown() -> None:
    facts = builders.facts_of(builders.host().snapshot)
    blind: Observed = {
        **facts,
        "handles": None,
        "qemus": None,
        "active": None,
        "ledger": None,
        "machine": None,
        "unknown": [{"gpu": None, "what": "handles", "why": "EACCES"}],
    }
    found = snapshot_facts.parse(builders.HOST, blind)
    assert (found.handles, found.active, found.ledger, found.machine) == (None, None, None, None)
    assert [(row.what, row.why) for row in found.unknown] == [("handles", "EACCES")]


def test_a_type_outside_the_grammar_is_kept_by_its_driver_name() -> None:
    facts = builders.facts_of(builders.with_snapshot(builders.host(), gpus=(odd(builders.gpu()),)).snapshot)
    gpu = snapshot_facts.parse(builders.HOST, facts).gpus[0]
    vgpu_type = (gpu.types or {})[7]
    assert (vgpu_type.type_name, vgpu_type.short, vgpu_type.size_mib) == ("Odd", "NVIDIA Odd", None)
    assert (vgpu_type.board, vgpu_type.parsed.series, vgpu_type.mig_backed) == (None, "", False)
    assert profiles.parse_profile(vgpu_type.short).short == vgpu_type.parsed.short
    assert gpu.board == "A40"
    assert replace(gpu, types={7: vgpu_type}).board is None


def odd(gpu: Gpu) -> Gpu:
    name = "NVIDIA Odd"
    vgpu_type = snapshot.VgpuType(
        id=7, name=name, type_name="Odd", parsed=profiles.name_of(name), framebuffer_mib=None, max=None
    )
    return replace(gpu, types={**(gpu.types or {}), 7: vgpu_type})


def test_a_size_the_host_does_not_state_is_the_names() -> None:
    vgpu_type = builders.type_of(builders.gpu(), "4Q")
    assert replace(vgpu_type, framebuffer_mib=None).size_mib == 4096
    assert replace(vgpu_type, framebuffer_mib=3999).size_mib == 3999


def test_a_partial_snapshot_renews_its_gpus_and_leaves_the_others() -> None:
    before = builders.attached(builders.spreading(builders.host_of(MDEV_VF)))
    after = builders.attached(before, "vm02")
    touched = after.snapshot.gpus[1]
    merged = before.snapshot.with_gpus(replace(after.snapshot, gpus=(touched,)))
    assert merged == after.snapshot


def test_what_runs_on_gpus_that_a_partial_snapshot_left_out_still_runs() -> None:
    view = builders.host_of(MDEV_VF)
    first, second = view.snapshot.gpus
    rows = tuple(
        Active(gpu=gpu.pci, vm_uuid=VmUuid(f"{number}"), vm_name=None, device=None)
        for number, gpu in enumerate((first, second))
    )
    whole = replace(view.snapshot, active=rows)
    part = replace(view.snapshot, gpus=(second,), active=())
    assert whole.with_gpus(part).active == rows[:1]
    assert whole.with_gpus(replace(part, active=None)).active is None
    blind = replace(whole, silent={first.pci: "lost", second.pci: "lost"})
    assert blind.with_gpus(part).silent == {first.pci: "lost"}
    assert replace(whole, active=None).with_gpus(part).active is None
    assert whole.with_gpus(replace(part, ledger=None)).ledger is None


def test_an_entry_without_uuid_never_means_an_mdev() -> None:
    """A host that went back to an mdev kernel: the mdev on that VF is somebody else's."""
    ours = builders.attached(builders.host(builders.gpu(VENDOR_VFIO, "L40S")))
    theirs = builders.with_foreign(builders.host(builders.gpu(MDEV_VF, "L40S")))
    view = builders.with_snapshot(ours, gpus=theirs.snapshot.gpus)
    assert view.snapshot.vgpu_of(builders.entry_of(view).vgpu) is None
    assert len(builders.foreign_of(view)) == 1


def test_a_gpu_in_a_mode_whose_rules_are_not_simulated_is_an_impossible_step_and_no_crash() -> None:
    """A reconcile looks at the host again then, instead of ending with a bug."""
    with pytest.raises(simulate.ImpossibleStepError):
        simulate.with_creatable(replace(builders.gpu(), mode="mixed-size"))
