"""So many vGPUs as are counted can be attached, one after the other, and not one more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from tests.unit.core.slot.test_laws import PROFILE, story
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver import asking
from vgpumgr.core.driver.modes import MIXED_SIZE
from vgpumgr.core.evidence import sharing
from vgpumgr.core.model.snapshot import MDEV_PF, VENDOR_VFIO, Unknown
from vgpumgr.core.placing import resolve
from vgpumgr.core.placing.no_place import Cause
from vgpumgr.core.slot import attach, how_many
from vgpumgr.names import Slot

if TYPE_CHECKING:
    from vgpumgr.core.driver.asking import Conditions
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.how_many import HowMany

BY_PROFILE = st.builds(lambda profile: {"profile": profile}, PROFILE)
ASKED = st.one_of(
    BY_PROFILE,
    BY_PROFILE,
    st.builds(
        lambda size, series, waste: {"gpu_memory": size, "series": series, "max_waste": waste},
        st.sampled_from(["1G", "3G", "5G", "9G"]),
        st.sampled_from(["B", "C", "Q"]),
        st.sampled_from([None, "20", "50"]),
    ),
    st.builds(lambda share: {"gpu": share}, st.sampled_from(["0.1", "0.25", "0.6"])),
)


def read(asked: dict[str, str | bool | None]) -> tuple[Wish, Conditions]:
    return asking.read(asked, about="vm01", spelt=str)


def count(view: HostView, gpu: Gpu, /, **asked: str | bool | None) -> HowMany:
    wish, conditions = read(asked)
    ask = resolve.Ask(wish=wish, conditions=conditions, units=view.fgpu_per_gpu)
    return how_many.how_many(view, gpu, ask, sharing.barred_functions(view))


def attached(view: HostView, gpus: tuple[str, ...] | None, asked: dict[str, str | bool | None]) -> Counter[str]:
    """What one VM gets, a slot at a time, until the host has no capacity for it."""
    wish, conditions = read(asked)
    found: Counter[str] = Counter()
    while True:
        slot = Slot(f"more{found.total()}")
        wanted = replace(builders.ask("vm01", slot=slot, gpus=gpus), wish=wish, conditions=conditions)
        try:
            plan = attach.plan_attach(view, wanted)
        except errors.NoCapacity:
            return found
        assert plan.target is not None
        found[plan.target.type_name] += 1
        view = simulate.apply(view, plan.steps)


@LAW
@given(story(), ASKED, st.booleans(), st.dictionaries(PROFILE, st.integers(1, 99), max_size=3))
def test_so_many_attaches_are_granted_as_are_counted(
    view: HostView, asked: dict[str, str | bool | None], whole: bool, usual: dict[str, int]
) -> None:
    """On one GPU, type by type; on the whole host, as the sum of its GPUs; whatever was attached lately."""
    view = replace(view, usual={builders.wish(profile): number for profile, number in usual.items()})
    found = [(gpu, count(view, gpu, **asked)) for gpu in view.snapshot.gpus]
    if whole:
        assert attached(view, None, asked).total() == sum(one.count or 0 for _, one in found)
        return
    gpu, one = found[-1]
    assert {kind.type_name: kind.count for kind in one.granted} == attached(view, (gpu.uuid or "",), asked)
    assert one.count == sum(kind.count for kind in one.granted)
    assert (one.why is None) == (one.count != 0)


@LAW
@given(story())
def test_each_type_alone_is_counted_as_a_wish_for_it_is(view: HostView) -> None:
    """The overview of all types, and the answer to one."""
    barred = sharing.barred_functions(view)
    for gpu in view.snapshot.gpus:
        left = how_many.of_types(view, gpu, barred)
        assert left == {kind.id: count(view, gpu, profile=kind.type_name).count for kind in (gpu.types or {}).values()}


def test_where_the_closest_type_has_no_place_any_more_the_next_larger_one_is_counted_too() -> None:
    """In mixed-size mode a hole can be of use to a larger type alone: places of 4 GB begin where none of 3 GB does."""
    card = simulate.in_mode(builders.gpu(VENDOR_VFIO, "RTXPRO6000"), MIXED_SIZE)
    view = builders.attached(builders.attached(builders.host(card), "vm01", "4Q"), "vm02", "8Q")
    found = count(view, view.snapshot.gpus[0], gpu_memory="3G", series="Q")
    assert [(kind.type_name, kind.count) for kind in found.granted] == [("DC-3Q", 26), ("DC-4Q", 1)]


def test_a_host_on_which_no_vm_would_start_takes_none_unless_it_may() -> None:
    """libvirt 9.0 starts no VM with a vendor-vfio vGPU, and attach refuses it."""
    view = replace(builders.host_of(VENDOR_VFIO, gpus=1), libvirt_version=9_000_000)
    (gpu,) = view.snapshot.gpus
    found = count(view, gpu, profile="4Q")
    assert found.count == 0
    assert (found.why or "").startswith("no VM would start on libvirt 9.0.0, needs 9.7 or newer")
    with pytest.raises(errors.WillNotStart):
        builders.plan_attach(view, "vm01", "4Q")
    assert count(replace(view, even_if_it_will_not_start=True), gpu, profile="4Q").count == 12


def test_a_host_without_a_machine_id_takes_none() -> None:
    view = builders.host_of(MDEV_PF, gpus=1)
    nameless = replace(view, snapshot=replace(view.snapshot, machine=None))
    with pytest.raises(errors.Unsure, match="has no machine-id"):
        builders.plan_attach(nameless, "vm01", "4Q")
    found = count(nameless, view.snapshot.gpus[0], profile="4Q")
    assert (found.count, found.why) == (0, "the host has no machine-id, by which a claim names its host")


def test_what_could_not_be_read_is_unknown_and_not_0() -> None:
    view = builders.host_of(MDEV_PF, gpus=1)
    (gpu,) = view.snapshot.gpus
    bare = builders.change_gpus(view, lambda one: replace(one, types=None))
    assert count(bare, bare.snapshot.gpus[0], profile="4Q").count is None
    (parent,) = gpu.parents
    blind = replace(gpu, parents=(replace(parent, creatable=None),))
    found = count(builders.change_gpus(view, lambda _: blind), blind, profile="4Q")
    assert (found.count, found.cause) == (None, Cause.UNREADABLE)
    why = (Unknown(what="ledger", why="it is not JSON"),)
    broken = replace(view, snapshot=replace(view.snapshot, ledger=None, unknown=why))
    assert count(broken, gpu, profile="4Q").count is None
    assert how_many.closed(broken, gpu, sharing.none_barred) == how_many.HowMany(
        count=None, why="the ledger cannot be read: it is not JSON"
    )


def test_a_gpu_that_lost_an_instance_has_one_fewer_beside_what_is_awaited() -> None:
    """On a physical function: 4 of a T4's 4Q, of which one is lost, and one comes back after a reboot."""
    view = builders.rebooted(builders.attached(builders.host_of(MDEV_PF, gpus=1), "vm01", "4Q"))
    (gpu,) = view.snapshot.gpus
    (parent,) = gpu.parents
    fewer = {type_id: left - 1 for type_id, left in (parent.creatable or {}).items()}
    view = builders.change_gpus(view, lambda one: replace(one, parents=(replace(parent, creatable=fewer),)))
    (gpu,) = view.snapshot.gpus
    assert count(view, gpu, profile="4Q").count == 2
