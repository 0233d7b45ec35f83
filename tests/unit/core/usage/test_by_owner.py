"""The hours of owners: a hand-made bill, and that they add up however the VMs are divided among them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr import resources
from vgpumgr.core.driver import catalogue
from vgpumgr.core.usage.by_owner import by_owner
from vgpumgr.core.usage.usage_rows import EngineUse, UsageRow
from vgpumgr.core.usage.usage_window import window
from vgpumgr.names import HostName, OwnerName, PciAddress

if TYPE_CHECKING:
    from vgpumgr.core.usage.by_owner import OwnerUse

NVIDIA = catalogue.parse(resources.catalogue_text())
DAY = window(0, 24 * 3600 * 1_000_000)
HOURS = ("hours", "gpu_hours", "used", "gib_hours")
NO_LOAD = EngineUse(mean=None, p50=None, p95=None, max=None, series=(), coverage=0)


def row(vm: str | None, **told: object) -> UsageRow:
    """A quarter of an A40, measured for half of the day at 40 % of the GPU."""
    sm = EngineUse(mean=40.0, p50=40, p95=40, max=40, series=(), coverage=0.5)
    fields: dict[str, object] = {
        "type_name": "A40-12Q", "entitled": 0.5, "coverage": 0.5, "off": 0.0, "engines": {"sm": sm},
        "framebuffer_size_bytes": 12 << 30,
    }  # fmt: skip
    nothing = dict.fromkeys(
        ("vm_uuid", "slot", "origin", "used_of_share", "framebuffer_used_bytes", "framebuffer_max_bytes")
    )
    return UsageRow(
        vm=vm, host=HostName("kvm01"), gpu=PciAddress("0000:41:00.0"), state="running", samples=1,
        framebuffer_headroom_bytes=None, framebuffer_series=(), last_us=None, **nothing, **(fields | told),  # type: ignore[arg-type]
    )  # fmt: skip


def bill(*rows: UsageRow, owners: dict[str | None, str] | None = None) -> tuple[OwnerUse, ...]:
    named = {vm: OwnerName(owner) for vm, owner in (owners or {}).items()}
    return by_owner(rows, DAY, lambda _host, vm: named.get(vm), NVIDIA)


def test_a_bill_by_hand() -> None:
    """Twelve hours at a quarter of the GPU, by the type and not by the share; then the same vGPU off for the other twelve."""
    (one,) = bill(row("vm01"))
    assert (one.owner, len(one.vms), one.vgpus) == (None, 1, 1)
    assert [getattr(one, name) for name in HOURS] == pytest.approx([12, 3, 4.8, 144])
    (one,) = bill(row("vm01", off=0.5), row("vm01"))
    assert (len(one.vms), one.vgpus) == (1, 2)
    assert [getattr(one, name) for name in HOURS] == pytest.approx([36, 9, 9.6, 432])


def test_what_is_unknown_is_in_no_sum_and_nothing_is_made_of_it() -> None:
    (one,) = bill(row("vm01", type_name=None, entitled=None, framebuffer_size_bytes=None, engines={"sm": NO_LOAD}))
    assert [getattr(one, name) for name in HOURS] == [12, None, None, None]
    (one,) = bill(row("vm01", engines={"sm": NO_LOAD}), row("vm02"))
    assert one.used == pytest.approx(4.8)
    (one,) = bill(row("vm01", type_name="X1-4Q"))
    assert one.gpu_hours == pytest.approx(6)  # what it is entitled to


PART = st.floats(0, 1, allow_nan=False)


@LAW
@given(st.lists(st.tuples(st.sampled_from(["vm01", "vm02", "vm03", None]), PART, PART), min_size=1), st.data())
def test_the_hours_of_all_owners_are_those_of_all_vms(
    parts: list[tuple[str | None, float, float]], data: st.DataObject
) -> None:
    rows = [row(vm, coverage=measured, off=off) for vm, measured, off in parts]
    owners = data.draw(st.dictionaries(st.sampled_from(["vm01", "vm02", None]), st.sampled_from(["a", "b"])))
    (whole,) = bill(*rows)
    found = bill(*rows, owners=owners)
    assert [one.owner for one in found] == sorted({*owners.values()} & {one.owner for one in found}) + [None] * any(
        owners.get(one.vm) is None for one in rows
    )
    for name in HOURS:
        assert sum(getattr(one, name) for one in found) == pytest.approx(getattr(whole, name))
    assert all(asdict(one)["hours"] <= 24 * one.vgpus + 1e-9 for one in found)
