"""What `mig show` reports of a GPU in MIG mode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.core import builders
from tests.unit.core.plan.test_instances import BLIND, a100, blinded, given_to
from tests.unit.core.plan.test_mig_mode import time_sliced
from vgpumgr.core.plan import cached
from vgpumgr.core.report import instances

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.snapshot import Gpu


def test_each_instance_says_whose_it_is_and_who_is_in_it() -> None:
    view = builders.with_foreign_instance(a100(), "2g.10gb", 0)
    view = given_to(view, "vm01", mig_profile="3g.20gb")
    view = builders.detached(given_to(view, "vm02", mig_profile="1g.5gb"), "vm02")
    (gpu,) = instances.of_host(view).gpus
    assert (gpu.board, gpu.slices, gpu.problem) == ("A100", 8, None)
    assert [(one.profile, one.start, one.state, one.ours, one.vms) for one in gpu.instances] == [
        ("2g.10gb", 0, "foreign", False, ()),
        ("1g.5gb", 3, "cached", True, ()),
        ("3g.20gb", 4, "used", True, ("vm01",)),
    ]
    assert gpu.fits == ("1g.5gb+me", "1g.5gb")


def test_an_instance_to_which_a_missing_vgpu_comes_back_is_used_since_nothing_gives_it_back() -> None:
    view = given_to(a100(), "vm01", mig_profile="3g.20gb")
    view = builders.change_gpus(view, without_vgpus)
    (gpu,) = instances.of_host(view).gpus
    assert [(one.profile, one.state, one.vms) for one in gpu.instances] == [("3g.20gb", "used", ("vm01",))]
    assert cached.plan_giving_back(view, gpu.pci).steps == ()


def without_vgpus(gpu: Gpu) -> Gpu:
    return replace(gpu, parents=tuple(replace(parent, vgpus=()) for parent in gpu.parents))


def test_a_gpu_that_is_time_sliced_is_left_out() -> None:
    assert instances.of_host(time_sliced()).gpus == ()


@BLIND
def test_instances_that_cannot_be_read_are_one_unknown_row_with_the_reason_and_never_none(
    unread: Callable[[Gpu], Gpu], what: str
) -> None:
    view = given_to(a100(), "vm01", mig_profile="3g.20gb")
    (gpu,) = instances.of_host(blinded(view, unread, what)).gpus
    assert gpu.problem == "NVML: Unknown Error"
    assert [(one.state, one.profile, one.vms) for one in gpu.instances] == [("unknown", None, None)]
    assert gpu.fits == ()


def test_one_gpu_is_chosen_by_its_address_or_its_uuid() -> None:
    view = builders.host(builders.mig_gpu(), builders.mig_gpu(pci="0000:81:00.0"))
    for gpu in view.snapshot.gpus:
        assert gpu.uuid is not None
        for gpu_id in (gpu.pci, gpu.uuid):
            assert [one.pci for one in instances.of_host(view, gpu_id).gpus] == [gpu.pci]
