"""Where a new vGPU goes, and for each GPU the reason why it could not, as a person reads it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from vgpumgr import errors, wording
from vgpumgr.core import simulate
from vgpumgr.core.driver import profiles
from vgpumgr.core.explain import remedies
from vgpumgr.core.model import domain_xml
from vgpumgr.core.model.guest import Guest
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FrameworkName
from vgpumgr.core.model.vgpu import Vf
from vgpumgr.core.placing import fits, placement, resolve, room
from vgpumgr.core.policies import known
from vgpumgr.core.slot import attach
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.policies.policy import Candidate, Fleet


def profile(text: str) -> profiles.Profile:
    return profiles.parse_profile(text)


def place(view: HostView, text: str) -> placement.Placed | placement.NoPlace:
    return placement.place(view.snapshot, replace(builders.asking(text), policy=view.policy))


def placed(view: HostView, text: str = "4Q") -> placement.Placed:
    found = place(view, text)
    assert isinstance(found, placement.Placed)
    return found


def reasons(view: HostView, text: str = "4Q") -> list[str]:
    found = place(view, text)
    assert isinstance(found, placement.NoPlace)
    return [refusal.text for _, _, refusal in found.reasons]


def refusal(view: HostView, vm: str, text: str) -> str:
    """The error as it is printed: message, details, hint."""
    with pytest.raises(errors.NoCapacity) as caught:
        builders.plan_attach(view, vm, text)
    found = remedies.explained(caught.value)
    return "\n".join([found.message, *(f"  {line}" for line in found.details), f"hint: {found.hint}"])


def test_spread_takes_the_emptier_gpu_and_says_so() -> None:
    view = builders.spreading(builders.host_of(MDEV_VF))
    assert (placed(view).gpu.pci, placed(view).why) == (
        "0000:41:00.0",
        "spread: 0% of it is allocated, the first of 2 such GPUs",
    )
    view = builders.attached(view)
    assert (placed(view).gpu.pci, placed(view).why) == ("0000:81:00.0", "spread: 0% of it is allocated")
    assert (placed(view).ordinal, placed(view).maximum) == (1, 12)
    three = builders.spreading(builders.host_of(MDEV_VF, gpus=3))
    assert placed(builders.attached(three)).why == "spread: 0% of it is allocated, the first of 2 such GPUs"
    three = builders.attached(builders.attached(three), "vm02")
    assert placed(three).why == "spread: 0% of it is allocated"


def test_one_gpu_is_taken_because_it_is_the_only_one() -> None:
    view = builders.with_foreign(builders.host_of(MDEV_VF), "8Q")
    assert (placed(view).gpu.pci, placed(view).why) == ("0000:81:00.0", "the only GPU that can take it")


@pytest.mark.parametrize(
    ("gpus", "why"),
    [([1], "the GPU that was asked for"), ([0, 1], "the only GPU of those asked for that can take it")],
)
def test_a_gpu_that_was_asked_for_is_not_said_to_be_the_only_one(gpus: list[int], why: str) -> None:
    """The third could take it as well."""
    view = builders.with_foreign(builders.host_of(MDEV_VF, gpus=3), "8Q")
    among = [view.snapshot.gpus[at] for at in gpus]
    found = placement.place(view.snapshot, builders.asking("4Q"), among=among)
    assert isinstance(found, placement.Placed)
    assert (found.gpu.pci, found.why) == ("0000:81:00.0", why)


def test_emptiness_is_the_share_of_the_maximum_not_mib() -> None:
    view = builders.with_foreign(builders.host_of(MDEV_VF), "12Q")
    assert room.share_allocated(view.snapshot, view.snapshot.gpus[0]) == Fraction(1, 4)
    unknown = builders.change_gpus(view, lambda gpu: replace(gpu, types={}))
    assert room.share_allocated(unknown.snapshot, unknown.snapshot.gpus[0]) == 1


def gpus_of(view: HostView) -> list[str]:
    return [entry.vgpu.gpu for entry in sorted(view.snapshot.entries, key=lambda one: one.vgpu.vm_name)]


@pytest.mark.parametrize(
    ("policy", "gpus", "left"),
    [("least-fragmentation", ["41", "41", "81"], ["8Q"]), ("spread", ["41", "81"], [])],
)
def test_same_sized_vgpus_share_a_gpu_so_that_another_is_left_for_other_sizes(
    policy: str, gpus: list[str], left: list[str]
) -> None:
    """Unless the policy is spread: then each GPU is bound to the first size that comes (found: anchors A1)."""
    view = builders.host_of(MDEV_VF, vms=3)
    for vm, profile in (("vm01", "4Q"), ("vm02", "4Q"), ("vm03", "8Q")):
        try:
            made = attach.plan_attach(view, replace(builders.ask(vm, profile), policy=known.find(policy)))
        except errors.NoCapacity:
            break
        view = simulate.apply(view, made.steps)
    assert [pci[5:7] for pci in gpus_of(view)] == gpus
    assert [entry.vgpu.type_name[4:] for entry in view.snapshot.entries][2:] == left


class NeverTheFirst:
    """A site's own policy: it leaves out the card at the lowest address, and takes the highest first."""

    name = "never-the-first"

    def order(self, candidates: Sequence[Candidate], _fleet: Fleet) -> Sequence[Candidate]:
        return [one for one in reversed(candidates) if one.place]

    def why(self, candidate: Candidate) -> str:
        return "is kept for nobody" if candidate.place == 0 else f"card {candidate.place}"


def test_a_policy_of_the_sites_own_decides_and_says_why_also_of_a_gpu_that_it_leaves_out() -> None:
    view = replace(builders.host_of(MDEV_VF, gpus=3), policy=NeverTheFirst())
    assert (placed(view).gpu.pci, placed(view).why) == ("0000:c1:00.0", "never-the-first: card 2")
    (only,) = [gpu for gpu in view.snapshot.gpus if gpu.pci == "0000:41:00.0"]
    named = placement.place(view.snapshot, replace(builders.asking("4Q"), policy=view.policy), among=[only])
    assert isinstance(named, placement.Placed)  # an operator who names a GPU asks no policy
    with pytest.raises(errors.NoCapacity) as caught:
        builders.plan_attach(replace(view, snapshot=replace(view.snapshot, gpus=(only,))))
    assert caught.value.details == ("0000:41:00.0  A40  never-the-first: is kept for nobody",)


def test_of_gpus_with_the_same_size_the_fullest_comes_first() -> None:
    view = builders.host_of(MDEV_VF, vms=3)
    for vm, gpu in (("vm01", 0), ("vm02", 1)):
        only = view.snapshot.gpus[gpu].uuid
        made = attach.plan_attach(view, replace(builders.ask(vm, "4Q"), gpus=(only,) if only else None))
        view = simulate.apply(view, made.steps)
    made = attach.plan_attach(view, builders.ask("vm03", "4Q"))
    assert made.placed is not None
    assert (made.placed.gpu.pci, made.placed.why) == (
        "0000:41:00.0",
        "it has 1 of this size, the first of 2 such GPUs",
    )


def test_what_fits_on_many_gpus_alike_is_said_once() -> None:
    view = builders.host(*(builders.gpu(pci=f"0000:{number:02x}:00.0") for number in range(1, 9)))
    for number in range(8):
        view = builders.with_foreign(view, "8Q" if number < 6 else "6Q", gpu_at=number, number=number)
    assert (
        "fits now: A40-8Q on each of 6 GPUs (5 left); A40-6Q on 0000:07:00.0 (7 left); A40-6Q on 0000:08:00.0 (7 left). "
        in refusal(view, "vm01", "12Q")
    )


def test_a_full_host_is_refused_as_the_design_shows_it() -> None:
    view = builders.host_of(MDEV_VF, vms=40)
    view = builders.attached(view, "vm40", "8Q")
    for number in range(1, 13):
        view = builders.attached(view, f"vm{number:02}")
    assert refusal(view, "vm13", "4Q") == (
        "no GPU of kvm01 can take a 4 GiB vGPU for vm13\n"
        "  0000:41:00.0  A40  holds 8Q (vm40): equal-size mode takes only 8 GiB types until it is empty\n"
        "  0000:81:00.0  A40  full: 12 of 12 (vm01 vm02 … vm12)\n"
        "hint: fits now: A40-8Q on 0000:41:00.0 (5 left). It would fit on 0000:41:00.0 in mixed-size mode: "
        "`vgpumgr mode set mixed-size --on kvm01 --gpu-id 0000:41:00.0`. See `vgpumgr capacity`"
    )


def test_where_a_hand_made_another_type_on_the_function_of_a_vgpu_of_ours_its_size_is_still_reserved() -> None:
    """Otherwise ours could not come back once that one is freed (found by soak: 7219)."""
    had = builders.attached(builders.host_of(VENDOR_VFIO, gpus=1), profile="8Q")
    taken = builders.with_foreign(builders.rebooted(had), "4Q")
    assert "holds 8Q (vm01)" in refusal(taken, "vm02", "4Q")
    assert "holds 4Q (foreign)" in refusal(taken, "vm02", "8Q")


def test_what_a_hand_made_on_the_function_of_a_vgpu_of_ours_takes_its_room_and_no_more() -> None:
    """The two are never there together."""
    had = builders.attached(
        builders.attached(builders.host_of(VENDOR_VFIO, gpus=1, vms=4), profile="16Q"), "vm02", "16Q"
    )
    taken = builders.with_foreign(builders.attached(builders.rebooted(had), "vm02", "16Q"), "16C")
    assert builders.entry_of(builders.attached(taken, "vm03", "16Q"), "vm03").vgpu.type_name == "L40S-16Q"
    assert "full: 3 of 3" in refusal(builders.attached(taken, "vm03", "16Q"), "vm04", "16Q")


def test_what_fits_now_is_the_same_series_at_the_next_size_up() -> None:
    view = builders.with_foreign(builders.host_of(MDEV_VF, gpus=1), "2B")
    found = place(view, "1B4")
    assert isinstance(found, placement.NoPlace)
    assert not found.unknown_profile or found.fits
    assert found.fits == ("A40-2B on 0000:41:00.0 (23 left)",)
    mig = place(builders.host(builders.gpu(MDEV_PF, "T4")), "1-5CME")
    assert isinstance(mig, placement.NoPlace)
    assert mig.fits == ("T4-8C on 0000:41:00.0 (2 left)",)


def test_the_size_of_a_profile_with_a_suffix_is_not_read_out_of_the_suffix() -> None:
    """At 14 GB the nearest to 1B4 would be T4-2B; it is 1 GB."""
    view = builders.host(builders.gpu(MDEV_PF, "T4"))
    vgpu_types = {
        key: vgpu_type for key, vgpu_type in (view.snapshot.gpus[0].types or {}).items() if vgpu_type.short != "1B4"
    }
    view = builders.change_gpus(view, lambda gpu: simulate.with_creatable(replace(gpu, types=vgpu_types)))
    found = place(view, "1B4")
    assert isinstance(found, placement.NoPlace)
    assert found.fits == ("T4-1B on 0000:41:00.0 (16 left)",)


def test_a_profile_that_no_gpu_there_has_names_the_nearest() -> None:
    view = builders.host_of(MDEV_VF, gpus=1)
    with pytest.raises(errors.ProfileNotHere) as caught:
        builders.plan_attach(view, "vm01", "5Q")
    assert caught.value.message == "no GPU of kvm01 has 5Q, requested for vm01"
    assert caught.value.details == ("0000:41:00.0  A40  has no 5Q",)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("`vgpumgr profiles kvm01` lists the profiles that it has")
    with pytest.raises(errors.ProfileNotHere) as caught:
        builders.plan_attach(view, "vm01", "L40S-4Q")
    assert caught.value.details == ("0000:41:00.0  A40  has no L40S-4Q",)
    assert caught.value.hint == "`vgpumgr profiles kvm01` lists the profiles that it has"
    with pytest.raises(errors.ProfileNotHere) as caught:
        builders.plan_attach(view, "vm01", "A40-5Q")
    assert caught.value.details == ("0000:41:00.0  A40  has no 5Q",)


def test_a_profile_that_another_gpu_of_the_host_has_is_here_although_the_chosen_gpu_lacks_it() -> None:
    t4, a40 = builders.gpu(MDEV_PF, "T4"), builders.gpu(MDEV_VF, "A40", "0000:81:00.0")
    with pytest.raises(errors.NoCapacity) as caught:
        builders.plan_attach(builders.host(t4, a40), "vm01", "6Q", gpus=(t4.uuid or "",))
    assert not isinstance(caught.value, errors.ProfileNotHere)
    assert caught.value.message == "the GPU of kvm01 that was asked for cannot take a 6 GiB vGPU for vm01"


def test_a_host_without_gpus_says_so() -> None:
    view = builders.with_snapshot(builders.host(), gpus=())
    assert (
        refusal(view, "vm01", "4Q") == "kvm01 has no NVIDIA GPU for vm01\nhint: `vgpumgr discover kvm01` shows its GPUs"
    )


def test_a_gpu_that_offers_nothing_says_what_the_host_says_of_it_and_nothing_else() -> None:
    off = builders.without_vgpus(builders.host(), "the GPU is bound to vfio-pci, not to nvidia")
    assert reasons(off) == ["offers no vGPUs: the GPU is bound to vfio-pci, not to nvidia"]
    with pytest.raises(errors.NoCapacity) as caught:
        builders.plan_attach(off)
    assert not isinstance(caught.value, errors.ProfileNotHere)
    assert caught.value.details[0].startswith("0000:41:00.0  NVIDIA A40  offers no vGPUs")
    assert caught.value.hint == "once one is ready, run the same command again"


def offering(gpu: Gpu, offers: dict[int, int] | None) -> Gpu:
    """Each of its functions offers this; None: that could not be read."""
    return replace(gpu, parents=tuple(replace(parent, creatable=offers) for parent in gpu.parents))


FOUR = builders.gpu(vfs=4)


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        (replace(FOUR, uuid=None), "its GPU UUID cannot be read, so nothing is written to it"),
        (replace(FOUR, mode="mig"), "4Q is time-sliced, and the GPU is in MIG mode"),
        (replace(FOUR, types=None), "its vGPU types cannot be read"),
        (replace(FOUR, parents=()), "has no virtual function"),
        (offering(FOUR, None), "the types that 0000:41:00.7 offers could not be read"),
        (offering(FOUR, {}), "the driver offers no A40-4Q on 0000:41:00.7 now (likely another size, or full)"),
    ],
)
def test_each_gpu_that_cannot_says_why(gpu: Gpu, reason: str) -> None:
    assert reasons(builders.host(gpu)) == [reason]


def test_a_mode_that_could_not_be_read_leaves_the_judgement_to_the_driver() -> None:
    view = builders.change_gpus(builders.host(), lambda gpu: replace(gpu, mode=None))
    assert placed(view).gpu.pci == "0000:41:00.0"


def test_a_size_of_which_nothing_is_known_keeps_a_gpu_closed() -> None:
    view = builders.with_foreign(builders.host_of(VENDOR_VFIO, gpus=1), "4Q")
    view = builders.change_gpus(view, lambda gpu: builders.with_vgpus(gpu, type_id=None, type_name=None))
    assert reasons(view) == ["holds ? (foreign), whose size is unknown"]


def test_sizes_that_are_no_whole_gib_are_said_in_mib() -> None:
    view = builders.with_foreign(builders.host(builders.gpu(MDEV_PF, "M10")), "0Q")
    assert reasons(view, "1Q") == ["holds 0Q (foreign): equal-size mode takes only 512 MiB types until it is empty"]


def test_an_entry_whose_hardware_is_gone_keeps_its_place_and_size() -> None:
    view = builders.rebooted(builders.attached(builders.host_of(MDEV_VF, gpus=1)))
    assert placed(view).parent.pci == "0000:41:00.5"
    assert reasons(view, "8Q") == ["holds 4Q (vm01): equal-size mode takes only 4 GiB types until it is empty"]


def test_on_a_pf_entries_without_hardware_count_against_what_the_driver_offers() -> None:
    """After a reboot the driver offers all four of a T4 again, and three of them are spoken for."""
    view = builders.host_of(MDEV_PF, gpus=1, vms=5)
    for vm in ("vm01", "vm02", "vm03"):
        view = builders.attached(view, vm)
    view = builders.rebooted(view)
    assert placed(view).ordinal == 4
    view = builders.attached(view, "vm04")
    assert reasons(view) == ["full: 4 of 4 (vm01 vm02 … vm04)"]


def test_a_gpus_line_keeps_apart_what_is_that_gpus_own() -> None:
    """So that lines which say the same of many GPUs are told once."""
    view = builders.host_of(MDEV_PF, gpus=1, vms=5)
    for vm in ("vm01", "vm02", "vm03", "vm04"):
        view = builders.attached(view, vm)
    pci, run = "0000:41:00.0", "SR-IOV is off; run sriov-manage -e "
    off = builders.without_vgpus(view, f"{run}{pci}, then try again")
    for host, expected in (
        (view, ["", pci, "  T4  full: 4 of 4 ", "(vm01 vm02 … vm04)", ""]),
        (off, ["", pci, f"  Tesla T4  offers no vGPUs: {run}", pci, ", then try again"]),
    ):
        with pytest.raises(errors.NoCapacity) as caught:
            builders.plan_attach(host, "vm05", "4Q")
        (line,) = caught.value.details
        assert wording.cut(line, (pci,)) == expected


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_a_vf_that_another_vms_definition_names_is_not_given_away(framework: FrameworkName) -> None:
    """Somebody's own VM waits for that VF, its type set by a script of theirs at each boot."""
    view = builders.host_of(framework, gpus=1)
    vf = view.snapshot.gpus[0].parents[0].pci
    device = domain_xml.Hostdev(source=Vf(vf), alias=None, managed=False)
    view = builders.give(view, "vm03", device)
    assert builders.created(builders.plan_attach(view)).vgpu.parent == "0000:41:00.5"
    small = builders.give(builders.host_of(framework, gpus=1, vfs=1), "vm03", device)
    assert "every virtual function is taken (1; 0000:41:00.4 in the definition of vm03)" in refusal(small, "vm01", "4Q")


def test_a_vf_that_another_slots_hostdev_names_is_not_given_to_this_slot() -> None:
    """A snapshot brought the hostdev of a freed slot back: one VM cannot have one VF twice."""
    view = builders.attached(builders.host_of(VENDOR_VFIO, gpus=1), slot="vgpu1")
    view = builders.with_snapshot(builders.rebooted(view), ledger=())
    assert builders.created(builders.plan_attach(view)).vgpu.parent == "0000:41:00.5"


def test_equal_type_names_of_two_ids_go_to_the_lower_one() -> None:
    view = builders.host()
    vgpu_type = builders.type_of(view.snapshot.gpus[0], "4Q")
    twice = builders.change_gpus(
        view, lambda gpu: replace(gpu, types={**(gpu.types or {}), 9999: replace(vgpu_type, id=9999)})
    )
    found = resolve.find_type(twice.snapshot.gpus[0], profile("A40-4Q"))
    assert found is not None
    assert found.id == 560
    assert resolve.find_type(view.snapshot.gpus[0], profile("L40S-4Q")) is None


def test_fits_counts_what_is_left_and_leaves_an_unknown_maximum_to_the_driver() -> None:
    view = builders.attached(builders.host_of(MDEV_VF, gpus=1))
    gpu = view.snapshot.gpus[0]
    assert {fit.type.type_name: fit.left for fit in fits.fits(view.snapshot, gpu)} == {
        "A40-4A": 11,
        "A40-4C": 11,
        "A40-4Q": 11,
    }
    open_ended = {key: replace(vgpu_type, max=None) for key, vgpu_type in (gpu.types or {}).items()}
    view = builders.change_gpus(view, lambda item: replace(item, types=open_ended))
    assert {fit.left for fit in fits.fits(view.snapshot, view.snapshot.gpus[0])} == {31}
    assert gpu.creatable_now(560) == 11
    assert view.snapshot.gpus[0].creatable_now(560) == 31


def test_what_a_gpu_would_take_is_unknown_where_one_function_does_not_tell() -> None:
    gpu = builders.gpu()
    assert offering(gpu, None).creatable_now(560) is None
    assert replace(gpu, parents=()).creatable_now(560) is None
    assert gpu.creatable_now(1) == 0


def test_the_hint_leaves_the_count_out_where_it_is_unknown() -> None:
    view = builders.host_of(MDEV_PF, gpus=1)

    def open_ended(gpu: Gpu) -> Gpu:
        vgpu_types = {key: replace(vgpu_type, max=None) for key, vgpu_type in (gpu.types or {}).items()}
        return replace(offering(gpu, {232: 4}), types=vgpu_types)

    found = place(builders.change_gpus(view, open_ended), "5Q")
    assert isinstance(found, placement.NoPlace)
    assert found.fits == ("T4-4Q on 0000:41:00.0 (4 left)",)


def test_a_type_that_is_mig_backed_says_that_it_needs_mig_mode() -> None:
    """NVML lists such types with MIG off, and so do mdev directories."""

    def with_mig_type(gpu: Gpu) -> Gpu:
        name = "NVIDIA A40-1-4C"
        vgpu_type = replace(
            builders.type_of(gpu, "4C"), id=9999, name=name, type_name="A40-1-4C", parsed=profiles.parse_type_name(name)
        )
        return replace(gpu, types={**(gpu.types or {}), 9999: vgpu_type})

    view = builders.change_gpus(builders.host(), with_mig_type)
    assert reasons(view, "1-4C") == ["1-4C needs MIG mode, and the GPU is in equal-size mode"]


def vf_of(view: HostView, vm: str) -> int | None:
    return builders.entry_of(view, vm).vgpu.vf_index


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_the_next_vgpu_goes_to_the_function_after_the_newest_ones_and_at_the_end_to_the_first_free_one(
    framework: FrameworkName,
) -> None:
    """A function that fails every VM which is put there, and is freed each time, must not get the next one."""
    view = builders.host_of(framework, gpus=1, vms=5, vfs=4)
    for vm in ("vm01", "vm02"):
        view = builders.attached(view, vm)
    view = builders.detached(view, "vm01")
    for vm in ("vm03", "vm04", "vm05"):
        view = builders.attached(view, vm)
    assert [vf_of(view, vm) for vm in ("vm02", "vm03", "vm04", "vm05")] == [1, 2, 3, 0]


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_a_function_that_the_inventory_leaves_out_is_not_used(framework: FrameworkName) -> None:
    view = builders.host_of(framework, gpus=1, vfs=2)
    first, second = (parent.pci for parent in view.snapshot.gpus[0].parents)
    some = replace(view, excluded_vfs=frozenset({first}))
    assert builders.created(builders.plan_attach(some)).vgpu.parent == second
    none = replace(view, excluded_vfs=frozenset({first, second}))
    with pytest.raises(errors.NoCapacity) as caught:
        builders.plan_attach(none)
    board = view.snapshot.gpus[0].board
    why = f"every virtual function is taken (2; {first} in the inventory's exclude_vfs)"
    assert caught.value.details == (f"0000:41:00.0  {board}  {why}",)
    assert builders.plan_attach(replace(builders.attached(view), excluded_vfs=frozenset({first}))).steps == ()


def test_a_place_that_the_driver_has_lost_is_not_used() -> None:
    def lose_first(gpu: Gpu) -> Gpu:
        return replace(gpu, parents=(replace(gpu.parents[0], creatable={}), *gpu.parents[1:]))

    view = builders.change_gpus(builders.host_of(VENDOR_VFIO, gpus=1, vfs=2), lose_first)
    assert builders.created(builders.plan_attach(view)).vgpu.vf_index == 1


def test_functions_of_one_iommu_group_are_one_place() -> None:
    """VFIO gives a group to one VM alone, as behind a switch without ACS (found: field-hosts c18)."""

    def grouped(gpu: Gpu) -> Gpu:
        pairs = {parent.pci: str(50 + (parent.vf_index or 0) // 2) for parent in gpu.parents}
        return replace(gpu, parents=tuple(replace(parent, group=pairs[parent.pci]) for parent in gpu.parents))

    view = builders.change_gpus(builders.host_of(VENDOR_VFIO, gpus=1, vfs=4), grouped)
    for vm in ("vm01", "vm02"):
        view = builders.attached(view, vm)
    assert [entry.vgpu.vf_index for entry in view.snapshot.entries] == [0, 2]
    (why,) = reasons(view)
    assert why == "every virtual function is taken (4; 0000:41:00.5 shares IOMMU group 50 with 0000:41:00.4, vm01)"


def test_a_card_whose_driver_has_made_no_types_is_unreadable_and_not_without_the_profile() -> None:
    """nvidia-vgpud gave up: nobody can say which types it has, nor how full it is (found: field-hosts c8b)."""
    view = builders.change_gpus(builders.host_of(MDEV_VF, gpus=1), lambda gpu: replace(gpu, types={}))
    found = place(view, "4Q")
    assert isinstance(found, placement.NoPlace)
    assert not found.unknown_profile
    assert "nvidia-vgpud" in reasons(view)[0]
    assert room.known_share(view.snapshot, view.snapshot.gpus[0]) is None


def test_what_a_physical_function_offers_is_not_to_be_had_where_a_missing_vgpu_comes_back_to_it() -> None:
    view = builders.attached(builders.attached(builders.host_of(MDEV_PF, gpus=1), "vm01", "4Q"), "vm02", "4Q")
    type_id = builders.type_of(view.snapshot.gpus[0], "4Q").id
    missing = builders.rebooted(view)
    for_both = builders.change_gpus(missing, lambda gpu: offering(gpu, {type_id: 2}))
    (why,) = reasons(for_both, "4Q")
    assert "the driver offers no" in why
    for_a_third = builders.change_gpus(missing, lambda gpu: offering(gpu, {type_id: 3}))
    assert placed(for_a_third, "4Q").parent.vf_index is None


@pytest.mark.parametrize(
    ("nodes", "cpus", "node"),
    [
        ({1}, {0}, 1),
        (set(), {5, 7}, 1),
        (set(), {3, 4}, 0),
        (set(), {99}, 0),
        (set(), set(), 0),
    ],
    ids=["its memory", "its CPUs", "CPUs of both nodes", "CPUs of no GPU's node", "nothing"],
)
def test_a_vm_that_is_pinned_gets_a_gpu_of_its_node_by_the_policy_numa(
    nodes: set[int], cpus: set[int], node: int
) -> None:
    """The memory's node counts before those of the CPUs; where nothing is known, the first GPU is taken."""

    def on_its_node(gpu: Gpu) -> Gpu:
        at = int(gpu.pci == "0000:81:00.0")
        return replace(gpu, numa_node=at, local_cpus=("0-3", "4-7")[at])

    view = replace(builders.host_of(MDEV_VF), policy=known.find("numa"))
    view = builders.change_gpus(view, on_its_node)
    pinned = Guest(memory_kib=None, hard_limit_kib=None, efi=False, numa_nodes=frozenset(nodes), cpus=frozenset(cpus))
    view = builders.change_domain(view, "vm01", lambda domain: replace(domain, guest=pinned))
    made = builders.plan_attach(view, "vm01").placed
    assert made is not None
    assert (made.gpu.pci, made.why) == (("0000:41:00.0", "0000:81:00.0")[node], f"numa: NUMA node {node}; it is empty")


def test_a_declared_gpu_instance_that_stands_ready_comes_before_one_that_has_to_be_made() -> None:
    """Even where another GPU would lose less: whoever declared it wants it used."""
    view = builders.host(*(builders.mig_gpu("A100", pci) for pci in ("0000:41:00.0", "0000:81:00.0")), vms=3)
    ask = replace(builders.asking("4Q"), wish=profiles.ByMigProfile(mig_profile="3g.20gb"))
    view = builders.attached(view, "vm01", "3-20C")
    cached = builders.detached(view, "vm01")
    found = placement.place(cached.snapshot, ask)
    assert isinstance(found, placement.Placed)
    made = placement.place(cached.snapshot, replace(ask, layouts={PciAddress("0000:41:00.0"): ("3g.20gb",)}))
    assert isinstance(made, placement.Placed)
    assert made.home is not None
    assert (made.gpu.pci, made.home.is_there) == ("0000:41:00.0", True)
    assert made.why == "a GPU instance that is declared there stands ready"
