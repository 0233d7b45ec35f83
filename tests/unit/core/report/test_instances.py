"""What `mig show` reports of a GPU in MIG mode."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core import builders
from tests.unit.core.plan.test_instances import a100, given_to
from tests.unit.core.plan.test_mig_mode import time_sliced
from vgpumgr.core.model.snapshot import Unknown
from vgpumgr.core.report import instances


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


def test_a_gpu_that_is_time_sliced_is_left_out() -> None:
    assert instances.of_host(time_sliced()).gpus == ()


def test_instances_that_cannot_be_read_are_a_problem_and_never_none() -> None:
    view = builders.change_gpus(a100(), lambda gpu: replace(gpu, mig=gpu.mig and replace(gpu.mig, instances=None)))
    pci = view.snapshot.gpus[0].pci
    view = replace(
        view, snapshot=replace(view.snapshot, unknown=(Unknown(what="mig", why="NVML: Unknown Error", gpu=pci),))
    )
    (gpu,) = instances.of_host(view).gpus
    assert gpu.problem == "NVML: Unknown Error"
    assert (gpu.instances, gpu.fits) == ((), ())
