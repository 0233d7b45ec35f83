"""GPU instances of ours are created and destroyed at their place, and nothing else is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from tests.unit.host.fakehost import (
    GPU_A,
    OTHER_VM,
    VENDOR,
    FakeHost,
    execute,
    make_entry,
    make_instance,
    make_instance_step,
    make_mig_step,
)
from tests.unit.host.fakemig import FakeMig

if TYPE_CHECKING:
    from pathlib import Path

PLACE = {"profile": "2g.10gb", "profile_id": 14, "start": 2}
OLD_BOOT = "b7000000-0000-4000-8000-000000000000"


class Mig:
    """A host with a GPU in MIG mode, and steps carried out on it."""

    def __init__(self, root: Path, **nvml: Any) -> None:
        self.host = FakeHost.build(root, VENDOR)
        self.host.put_mig(on=True, pending=True)
        self.nvml: dict[str, Any] = nvml

    def run(self, step: dict[str, Any]) -> dict[str, Any]:
        return execute(self.host, step, nvml=FakeMig(self.host, **self.nvml))

    def ok(self, step: dict[str, Any]) -> Any:
        answer = self.run(step)
        assert "ok" in answer, answer
        return answer["ok"]["note"]

    def refused(self, step: dict[str, Any]) -> dict[str, Any]:
        before = self.host.tree()
        answer = self.run(step)
        assert "err" in answer, answer
        after = self.host.tree()
        assert self.host.instances() == json.loads(before.get("var/lib/vgpumgr/ledger.json", "{}")).get("instances", [])
        assert after["proc/driver/fake-mig"] == before["proc/driver/fake-mig"]
        error: dict[str, Any] = answer["err"]
        return error

    def places(self) -> list[tuple[int, int, int]]:
        """Each instance as (profile, start, compute instances)."""
        return [(each["profile"], each["start"], each["computes"]) for each in self.host.mig()["instances"]]


@pytest.fixture
def mig(tmp_path: Path) -> Mig:
    return Mig(tmp_path)


# creating


def test_an_instance_is_made_where_it_is_wanted_with_a_compute_instance_of_its_size_and_is_ours(mig: Mig) -> None:
    assert mig.ok(make_instance_step(start=4)) is None
    assert mig.places() == [(14, 4, 1)]
    assert mig.host.instances() == [make_instance(start=4)]


def test_an_instance_that_is_there_is_entered_and_stays_as_it_is(mig: Mig) -> None:
    number = mig.host.put_instance(14, 2, 2, computes=0)
    mig.ok(make_instance_step(expect="same"))
    assert (mig.places(), mig.host.mig()["instances"][0]["id"]) == ([(14, 2, 0)], number)
    assert mig.host.instances() == [make_instance()]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"start": 1}, "at any of"),
        ({"profile": "2g.20gb"}, "at any of"),
        ({"size": 4}, "at any of"),
        ({"profile_id": 77}, "no profile of that id"),
        ({"expect": "same"}, "no such GPU instance"),
        ({"gpu_uuid": "GPU-cccccccc-0000-4000-8000-000000000003"}, "found GPU-aaaaaaaa"),
    ],
)
def test_what_the_board_does_not_have_or_the_host_does_not_show_is_refused(
    mig: Mig, change: dict[str, Any], why: str
) -> None:
    refused = mig.refused(make_instance_step(**change))
    assert refused["kind"] == "Changed"
    assert why in refused["message"]


def test_nothing_is_made_over_another_instance(mig: Mig) -> None:
    mig.host.put_instance(9, 0, 4)
    refused = mig.refused(make_instance_step())
    assert (refused["kind"], refused["found"]) == ("Changed", "3g.20gb at 0 (id 1)")


def test_with_mig_off_nothing_is_made(mig: Mig) -> None:
    mig.host.put_mig(on=False)
    assert mig.refused(make_instance_step())["found"] == "MIG is off"


def test_slices_that_a_vgpus_instance_is_to_have_again_are_not_given_away(mig: Mig) -> None:
    """After a reboot its instance is gone, and its entry stays, since the vGPU's entry names it."""
    mig.host.put_ledger(make_entry(VENDOR, mig=PLACE), instances=[make_instance(boot=OLD_BOOT)])
    smaller = make_instance_step(profile="1g.5gb", profile_id=19, size=1, start=3)
    assert mig.refused(smaller)["found"] == "one for 2g.10gb at 2"
    mig.ok(make_instance_step())
    assert mig.host.instances() == [make_instance()]


def test_entries_of_instances_that_are_gone_and_that_no_vgpu_names_go_with_the_next_step_there(mig: Mig) -> None:
    mig.host.put_ledger(
        instances=[make_instance(boot=OLD_BOOT), make_instance(start=0), make_instance(start=4, gpu_uuid="GPU-b")]
    )
    mig.ok(make_instance_step(start=4))
    assert mig.host.instances() == [make_instance(start=4, gpu_uuid="GPU-b"), make_instance(start=4)]


@pytest.mark.parametrize("call", ["nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"])
def test_what_nvml_refuses_leaves_nothing_behind(mig: Mig, call: str) -> None:
    mig.nvml = {call: pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES}
    answer = mig.run(make_instance_step())["err"]
    assert (answer["kind"], answer["function"], answer["code"]) == ("NvmlRefused", call, 23)
    assert (mig.places(), mig.host.instances()) == ([], [])


def test_what_cannot_be_taken_back_keeps_its_entry(mig: Mig) -> None:
    mig.nvml = {
        "nvmlGpuInstanceCreateComputeInstance": pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES,
        "nvmlGpuInstanceDestroy": pynvml.NVML_ERROR_UNKNOWN,
    }
    assert mig.run(make_instance_step())["err"]["kind"] == "NvmlRefused"
    assert (mig.places(), mig.host.instances()) == ([(14, 2, 0)], [make_instance(state="planned")])
    mig.nvml = {}
    mig.ok(make_instance_step(expect="same"))
    assert (mig.places(), mig.host.instances()) == ([(14, 2, 1)], [make_instance()])


# destroying


def test_an_instance_of_ours_goes_with_its_entry_and_the_others_stay(mig: Mig) -> None:
    for start in (0, 2, 4):
        mig.ok(make_instance_step(start=start))
    mig.ok(make_instance_step("destroy_instance"))
    assert mig.places() == [(14, 0, 1), (14, 4, 1)]
    assert mig.host.instances() == [make_instance(start=0), make_instance(start=4)]


@pytest.mark.parametrize("expect", ["present", "absent"])
def test_a_foreign_instance_is_never_destroyed(mig: Mig, expect: str) -> None:
    mig.host.put_instance(14, 2, 2)
    before = mig.places()
    refused = mig.refused(make_instance_step("destroy_instance", expect=expect))
    assert refused["kind"] == "Changed"
    assert refused["found"] == "no entry" if expect == "present" else refused["found"].startswith("2g.10gb at 2")
    assert mig.places() == before


ELSEWHERE: dict[str, Any] = {"gpu": "0000:42:00.0", "gpu_uuid": "GPU-c"}


@pytest.mark.parametrize(
    ("entries", "where"),
    [([], {}), ([make_instance(boot=OLD_BOOT)], {}), ([make_instance(**ELSEWHERE)], ELSEWHERE)],
    ids=["dropped as stale", "its instance is gone", "its card is gone"],
)
def test_an_entry_whose_instance_is_gone_goes_and_none_is_no_error(
    mig: Mig, entries: list[dict[str, Any]], where: dict[str, Any]
) -> None:
    mig.host.put_ledger(instances=entries)
    mig.ok(make_instance_step("destroy_instance", expect="absent", **where))
    assert mig.host.instances() == []


def test_one_at_the_place_of_an_earlier_boots_is_foreign(mig: Mig) -> None:
    mig.host.put_instance(14, 2, 2)
    mig.host.put_ledger(instances=[make_instance(boot=OLD_BOOT)])
    assert "somebody else made this one" in mig.refused(make_instance_step("destroy_instance"))["found"]


def test_an_entry_whose_instance_is_there_stays(mig: Mig) -> None:
    mig.ok(make_instance_step())
    assert mig.refused(make_instance_step("destroy_instance", expect="absent"))["found"] == "2g.10gb at 2 (id 1)"


def with_vgpu(mig: Mig) -> None:
    """An instance of ours with somebody's vGPU in it."""
    mig.ok(make_instance_step())
    vf = mig.host.path(f"{mig.host.function(GPU_A[:-1] + '6')}/nvidia")
    mig.host.driver_write(str(vf / "current_vgpu_type"), b"700\n")


def test_an_instance_with_a_vgpu_is_never_destroyed_whosever_it_is(mig: Mig) -> None:
    with_vgpu(mig)
    refused = mig.refused(make_instance_step("destroy_instance"))
    assert (refused["kind"], refused["holders"]) == ("InUse", ["a vGPU on 0000:41:00.6 is in it"])


def test_while_it_is_unknown_where_a_vgpu_is_no_instance_is_destroyed(mig: Mig) -> None:
    with_vgpu(mig)
    mig.ok(make_instance_step(start=4))
    mig.host.path(f"{mig.host.function(GPU_A[:-1] + '6')}/nvidia/gpu_instance_id").unlink()
    refused = mig.refused(make_instance_step("destroy_instance", start=4))
    assert refused["kind"] == "InUse"
    assert refused["holders"][0].startswith(
        "cannot tell: it is unknown which GPU instance a vGPU on 0000:41:00.6 is in"
    )


@pytest.mark.parametrize(("running", "used"), [(1, True), (0xFFFFFFFF, True), (9, False)])
def test_a_vgpu_that_only_nvml_still_lists_keeps_its_instance(mig: Mig, running: int, used: bool) -> None:
    mig.ok(make_instance_step())
    mig.nvml = {"running": (running,)}
    step = make_instance_step("destroy_instance")
    if used:
        assert mig.refused(step)["kind"] == "InUse"
    else:
        mig.ok(step)


@pytest.mark.parametrize("call", ["nvmlDeviceGetActiveVgpus", "nvmlVgpuInstanceGetGpuInstanceId"])
def test_while_nvml_cannot_say_what_runs_no_instance_is_destroyed(mig: Mig, call: str) -> None:
    mig.ok(make_instance_step())
    mig.nvml = {"running": (9,), call: pynvml.NVML_ERROR_UNKNOWN}
    refused = mig.refused(make_instance_step("destroy_instance"))
    assert refused["kind"] == "InUse"
    assert refused["holders"][0].startswith("cannot tell")


@pytest.mark.parametrize("call", ["nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"])
def test_an_instance_that_the_driver_keeps_is_as_before(mig: Mig, call: str) -> None:
    mig.ok(make_instance_step())
    mig.nvml = {call: pynvml.NVML_ERROR_IN_USE}
    refused = mig.refused(make_instance_step("destroy_instance"))
    assert (refused["kind"], refused["code"]) == ("NvmlRefused", pynvml.NVML_ERROR_IN_USE)
    assert (mig.places(), mig.host.instances()) == ([(14, 2, 1)], [make_instance()])


def test_an_instance_that_the_driver_keeps_though_it_accepted_is_as_before(mig: Mig) -> None:
    mig.ok(make_instance_step())
    mig.nvml = {"nvmlGpuInstanceDestroy": pynvml.NVML_SUCCESS}
    refused = mig.refused(make_instance_step("destroy_instance"))
    assert refused["message"] == "nvmlGpuInstanceDestroy: accepted, but without effect: 2g.10gb at 2 (id 1)"


# vGPUs in them


def test_a_mig_backed_vgpu_is_made_in_the_instance_that_it_is_meant_for_and_its_entry_says_so(mig: Mig) -> None:
    mig.ok(make_instance_step())
    assert mig.ok(make_mig_step()) is None
    assert mig.host.in_instances() == [1]
    assert mig.host.entries() == [make_entry(VENDOR, type_id=700, type_name="NVIDIA A100-2-10C", mig=PLACE)]


def test_it_needs_an_instance_of_ours_that_is_there_and_free(mig: Mig) -> None:
    number = mig.host.put_instance(14, 2, 2)
    assert mig.refused(make_mig_step())["found"] == "no entry"
    mig.ok(make_instance_step(expect="same"))
    with_other = {**make_mig_step(vf_index=1, parent=f"{GPU_A[:-1]}5", vm_uuid=OTHER_VM, vm_name="vm02")}
    mig.ok(with_other)
    assert (mig.refused(make_mig_step())["found"], number) == ("NVIDIA A100-2-10C", 1)
    mig.host.put_mig(instances=[])
    assert mig.refused(make_mig_step())["found"] == "no such GPU instance"


def test_where_the_driver_took_another_instance_the_vgpu_goes_again_and_it_says_which(mig: Mig) -> None:
    mig.ok(make_instance_step(start=4))
    mig.ok(make_instance_step(start=2))
    refused = mig.refused(make_mig_step(start=2))
    assert (refused["kind"], refused["found"]) == ("Changed", "it in 2g.10gb at 4 (id 1)")
    assert refused["expected"] == "NVIDIA A100-2-10C in GPU instance 2g.10gb at 2 (id 2)"
    assert (mig.host.in_instances(), mig.host.entries()) == ([], [])


def test_where_the_driver_does_not_say_which_instance_it_took_that_is_a_note(mig: Mig) -> None:
    mig.ok(make_instance_step())
    write = mig.host.driver_write

    def without_instance(path: str, data: bytes) -> None:
        write(path, data)
        for file in mig.host.root.glob("sys/devices/*/*/nvidia/gpu_instance_id"):
            file.unlink()

    mig.host.driver_write = without_instance  # type: ignore[method-assign]
    assert "does not say which GPU instance" in mig.ok(make_mig_step())
