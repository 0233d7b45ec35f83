"""What a restore waits for, where the driver or NVML is not ready; what it then does: test_restore.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.unit.host.fakehost import BOOT, GPU_A, MDEV_PF, MDEV_VF, UUID_A, VENDOR, make_entry
from vgpumgr.host.protocol.steps import CREATE_INSTANCE, CREATE_VGPU, SAME, SET_MIG, SET_MODE, SET_VFS
from vgpumgr.host.restoring.plan import Plan, name_of, plan

if TYPE_CHECKING:
    from vgpumgr.host.protocol.snapshot import Snapshot

_PLACE = {"profile": "2g.10gb", "profile_id": 14, "start": 2}
_PROFILE = {"id": 14, "name": "2g.10gb", "slices": 2, "size": 2, "starts": [0, 2, 4], "memory_mib": 9856, "max": 3}


def entry(framework: str, **more: Any) -> dict[str, Any]:
    return {**make_entry(framework, boot="an earlier one", mig=None, lazy=None), **more}


def seen(named: str | None, *entries: dict[str, Any], instances: Any = (), **gpu: Any) -> Snapshot:
    """One GPU with one empty function that offers the entry's type."""
    on_pf = named in (MDEV_PF, None)
    parent: dict[str, Any] = {
        "pci": GPU_A if on_pf else f"{GPU_A[:-1]}4",
        "vf_index": None if on_pf else 0,
        "vgpus": [],
    }
    fact = {
        "pci": GPU_A,
        "uuid": UUID_A,
        "framework": named,
        "problem": None,
        "mode": "equal-size",
        "mig": None,
        "types": [{"id": 560, "name": "NVIDIA A40-4Q"}],
        "parents": [parent],
        **gpu,
    }
    return cast("Snapshot", {"boot": BOOT, "ledger": list(entries), "instances": list(instances), "gpus": [fact]})


def verbs(found: Plan) -> list[str]:
    return [step["verb"] for step in found.steps]


def why(found: Plan) -> str:
    (text,) = {**found.waits, **found.lost}.values()
    return text


def test_a_vgpu_is_made_where_its_entry_has_it_with_the_id_that_its_type_has_now() -> None:
    found = plan(seen(MDEV_VF, entry(MDEV_VF), types=[{"id": 700, "name": "GRID A40-4Q"}]), {GPU_A: 8}, {})
    (step,) = found.steps
    assert {**step, "verb": "", "type_id": 560}.items() >= {
        key: value for key, value in entry(MDEV_VF).items() if key not in ("boot", "state", "lazy")
    }.items()
    assert (step["verb"], cast("dict[str, Any]", step)["type_id"]) == (CREATE_VGPU, 700)


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        ({"types": []}, "the driver offers no NVIDIA A40-4Q"),
        ({"parents": []}, "has no VF 0"),
        ({"framework": None, "problem": "SR-IOV is on, but no"}, "SR-IOV is on, but no"),
        ({"uuid": None}, "the UUID of the one at"),
    ],
)
def test_what_the_driver_does_not_show_yet_is_waited_for(gpu: dict[str, Any], text: str) -> None:
    found = plan(seen(MDEV_VF, entry(MDEV_VF), **gpu), {GPU_A: 8}, {})
    assert (verbs(found), found.lost) == ([], {})
    assert text in why(found)


def test_a_function_that_moved_gets_nothing() -> None:
    """The VM's definition names the address, at which another function may be now."""
    row = entry(MDEV_VF)
    found = plan(seen(MDEV_VF, {**row, "parent": f"{GPU_A[:-1]}7"}), {GPU_A: 8}, {})
    assert (found.steps, found.waits) == ([], {})
    assert why(found) == f"VF 0 was at {GPU_A[:-1]}7, and is now at {row['parent']}"


def test_a_mode_that_cannot_be_read_is_waited_for_unless_it_is_the_default() -> None:
    """A host may lack NVML."""
    assert verbs(plan(seen(MDEV_VF, entry(MDEV_VF), mode=None), {GPU_A: 8}, {})) == [CREATE_VGPU]
    found = plan(seen(MDEV_VF, entry(MDEV_VF, placement_id=4), mode=None), {GPU_A: 8}, {})
    assert (verbs(found), found.lost) == ([], {})
    assert "cannot be read" in why(found)


@pytest.mark.parametrize(
    ("row", "vfs", "expected"),
    [
        (entry(VENDOR), 0, [SET_VFS]),
        (entry(VENDOR), 8, []),
        (entry(VENDOR, mig=_PLACE), 0, [SET_MIG, SET_VFS]),
        (entry(MDEV_PF), 0, []),
    ],
)
def test_functions_are_made_only_where_there_are_none_and_after_the_mode_that_needs_it(
    row: dict[str, Any], vfs: int, expected: list[str]
) -> None:
    assert verbs(plan(seen(None, row), {GPU_A: vfs}, {})) == expected


@pytest.mark.parametrize(
    ("row", "gpu", "expected"),
    [
        (entry(VENDOR, placement_id=4), {}, [SET_MODE]),
        (entry(VENDOR, placement_id=4), {"mode": "mixed-size"}, [CREATE_VGPU]),
        (entry(VENDOR, mig=_PLACE), {}, [SET_VFS, SET_MIG, SET_VFS]),
        (
            entry(VENDOR, mig=_PLACE),
            {"mode": "mig", "mig": {"profiles": [_PROFILE], "instances": []}},
            [CREATE_INSTANCE],
        ),
    ],
)
def test_the_gpus_mode_comes_before_what_was_made_in_it(
    row: dict[str, Any], gpu: dict[str, Any], expected: list[str]
) -> None:
    assert verbs(plan(seen(VENDOR, row, **gpu), {GPU_A: 8}, {})) == expected


def test_a_mode_is_not_changed_under_somebodys_vgpu() -> None:
    parents = [{"pci": f"{GPU_A[:-1]}9", "vf_index": 5, "vgpus": [{"uuid": None, "type_id": 1, "type_name": "x"}]}]
    for row in (entry(VENDOR, placement_id=4), entry(VENDOR, mig=_PLACE)):
        found = plan(seen(VENDOR, row, parents=parents), {GPU_A: 8}, {})
        assert (found.steps, found.waits) == ([], {})
        assert "is in equal-size mode" in why(found)


@pytest.mark.parametrize(
    ("mig", "text"),
    [
        ({"profiles": [], "instances": []}, "the driver has no GPU instance 2g.10gb at 2"),
        ({"profiles": [_PROFILE], "instances": [{"profile_id": 14, "start": 2, "size": 2}]}, "vgpumgr did not make"),
    ],
)
def test_an_instance_of_somebody_else_is_not_used(mig: dict[str, Any], text: str) -> None:
    """Made again by another tool at the boot: our entry of it is of the boot before."""
    row = {**_PLACE, "gpu_uuid": UUID_A, "gpu": GPU_A, "size": 2, "boot": "an earlier one", "state": "made"}
    found = plan(seen(VENDOR, entry(VENDOR, mig=_PLACE), instances=[row], mode="mig", mig=mig), {GPU_A: 8}, {})
    assert (found.steps, found.waits) == ([], {})
    assert text in why(found)


def test_an_instance_whose_creation_was_cut_short_is_finished() -> None:
    row = {**_PLACE, "gpu_uuid": UUID_A, "gpu": GPU_A, "size": 2, "boot": BOOT, "state": "planned"}
    mig = {"profiles": [_PROFILE], "instances": [{"profile_id": 14, "start": 2, "size": 2}]}
    found = plan(seen(VENDOR, entry(VENDOR, mig=_PLACE), instances=[row], mode="mig", mig=mig), {GPU_A: 8}, {})
    (step,) = found.steps
    assert (step["verb"], cast("dict[str, Any]", step)["expect"]) == (CREATE_INSTANCE, SAME)


def test_an_instance_is_made_only_once_the_vgpus_of_the_one_before_it_are_there() -> None:
    """The driver puts a vGPU into the instance with the lowest id that has room, and ids do not follow the starts."""
    first, second = entry(VENDOR, mig={**_PLACE, "start": 0}), entry(VENDOR, mig=_PLACE, slot="vgpu1", vf_index=1)
    one = {"profile_id": 14, "start": 0, "size": 2}
    row = {**first["mig"], "gpu_uuid": UUID_A, "gpu": GPU_A, "size": 2, "boot": BOOT, "state": "made"}
    for instances, ours, expected in (([], [], CREATE_INSTANCE), ([one], [row], CREATE_VGPU)):
        mig = {"profiles": [_PROFILE], "instances": instances}
        found = plan(seen(VENDOR, second, first, instances=ours, mode="mig", mig=mig), {GPU_A: 8}, {})
        assert verbs(found) == [expected]
        assert "the GPU instance before it is not ready" in found.waits.values()


def test_a_step_that_is_not_tried_again_is_why_a_vgpu_is_lost() -> None:
    row = entry(VENDOR)
    (step,) = plan(seen(None, row), {GPU_A: 0}, {}).steps
    found = plan(seen(None, row), {GPU_A: 0}, {name_of(step): "no effect"})
    assert (found.steps, found.waits, why(found)) == ([], {}, "no effect")
