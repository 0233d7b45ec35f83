"""What is tried on an empty GPU: only there, the smallest type first, and what a killed run left goes before all else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from tests.unit.core import builders
from vgpumgr.core.certify import probes
from vgpumgr.core.model.functions import Vgpu
from vgpumgr.core.model.snapshot import MDEV_VF, VENDOR_VFIO
from vgpumgr.core.model.vgpu import LedgerEntry
from vgpumgr.names import VmName

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.vgpu import VgpuSpec

Change: TypeAlias = "Callable[[HostSnapshot], HostSnapshot]"


def of_host(framework: Any = VENDOR_VFIO) -> HostSnapshot:
    """A host with one empty GPU."""
    return builders.host(builders.gpu(framework, vfs=3), vms=0).snapshot


def tries(facts: HostSnapshot) -> probes.Tries:
    found = probes.Tries.on(facts.gpus[0])
    assert found is not None
    return found


def entry(vgpu: VgpuSpec) -> LedgerEntry:
    return LedgerEntry(vgpu=vgpu, boot="b", state="made")


def with_gpu(**fields: Any) -> Change:
    return lambda facts: replace(facts, gpus=tuple(replace(gpu, **fields) for gpu in facts.gpus))


def with_entry(**fields: Any) -> Change:
    return lambda facts: replace(facts, ledger=(entry(replace(tries(facts).first, **fields)),))


NOT_EMPTY: dict[str, tuple[Change, str]] = {
    "mig": (with_gpu(mode="mig"), "its mode is mig"),
    "mode unknown": (with_gpu(mode=None), "its mode is unknown"),
    "lost": (with_gpu(fault="lost"), "lost"),
    "no UUID": (with_gpu(uuid=None), "no UUID"),
    "no ledger": (lambda facts: replace(facts, ledger=None), "ledger"),
    "nothing told": (lambda facts: replace(facts, active=None), "NVML"),
    "ours": (with_entry(vm=builders.vm_uuid("vm01"), vm_name=VmName("vm01")), "the ledger has vGPUs"),
    "silent": (lambda facts: replace(facts, silent={facts.gpus[0].pci: "NVML: 999"}), "NVML"),
}


def test_a_gpu_without_anything_is_empty() -> None:
    facts = of_host()
    assert probes.why_not_empty(facts, facts.gpus[0]) is None


@pytest.mark.parametrize("case", NOT_EMPTY)
def test_nothing_is_tried_where_anything_may_be(case: str) -> None:
    change, words = NOT_EMPTY[case]
    facts = change(of_host())
    assert words in (probes.why_not_empty(facts, facts.gpus[0]) or "")


def test_what_a_killed_run_left_is_no_hindrance_and_is_removed() -> None:
    facts = with_entry()(of_host())
    assert probes.why_not_empty(facts, facts.gpus[0]) is None
    [step] = probes.leftovers(facts, facts.gpus[0])
    assert (step.vgpu.vm, step.expect) == (probes.VM, "absent")


def test_another_tools_vgpu_is_no_leftover() -> None:
    facts = with_entry()(of_host())
    first, second, *_ = facts.gpus[0].parents
    theirs = Vgpu(parent=second.pci, vf_index=1, uuid=None, type_id=560, type_name="A40-4Q", placement_id=None, vfio=())
    facts = with_gpu(parents=(first, replace(second, vgpus=(theirs,))))(facts)
    assert probes.why_not_empty(facts, facts.gpus[0]) == "it has vGPUs"


@pytest.mark.parametrize("framework", [VENDOR_VFIO, MDEV_VF])
def test_the_smallest_type_is_made_and_another_size_is_asked_for_on_another_function(framework: Any) -> None:
    facts = of_host(framework)
    found, gpu = tries(facts), facts.gpus[0]
    sizes = {gpu.size_of(kind) for kind in gpu.types or ()}
    assert gpu.size_of(found.first.type_id) == min(size for size in sizes if size)
    other = found.beside["other-size"]
    assert gpu.size_of(other.type_id) != gpu.size_of(found.first.type_id)
    assert other.parent != found.first.parent
    assert {one.vm for one in (found.first, *found.beside.values(), *found.before.values())} == {probes.VM}
    assert len({one.slot for one in (found.first, *found.beside.values(), *found.before.values())}) >= 2
    assert ("unknown-type" in found.before) == (framework == VENDOR_VFIO)
    assert (found.empty is not None) == (framework == VENDOR_VFIO)


def test_a_type_that_the_list_hides_is_asked_for() -> None:
    facts = of_host()
    gpu = facts.gpus[0]
    hidden = max(gpu.types or ())
    parents = tuple(
        replace(one, creatable={kind: left for kind, left in (one.creatable or {}).items() if kind != hidden})
        for one in gpu.parents
    )
    assert tries(with_gpu(parents=parents)(facts)).before["hidden-type"].type_id == hidden
    assert "hidden-type" not in tries(facts).before


def test_a_gpu_that_offers_nothing_is_not_tried() -> None:
    facts = with_gpu(parents=tuple(replace(one, creatable={}) for one in of_host().gpus[0].parents))(of_host())
    assert probes.Tries.on(facts.gpus[0]) is None


def test_only_a_scheduler_without_numbers_is_set_again() -> None:
    facts = of_host()
    assert probes.same_scheduler(with_gpu(scheduler=None)(facts), with_gpu(scheduler=None)(facts).gpus[0]) is None
    policies: tuple[tuple[Policy, bool], ...] = (("best-effort", True), ("equal-share", False))
    for policy, is_set in policies:
        gpu: Gpu = replace(facts.gpus[0], scheduler=builders.scheduler_state(policy))
        step = probes.same_scheduler(facts, gpu)
        assert (step is not None) == is_set
        assert step is None or step.setting == step.before
