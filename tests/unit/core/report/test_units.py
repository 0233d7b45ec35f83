"""What units mean on each board, and vGPUs that were asked for in another one: the claim's reading and today's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders, declarations
from vgpumgr import resources
from vgpumgr.core import simulate
from vgpumgr.core.driver import asking, catalogue
from vgpumgr.core.driver.asking import FgpuMemory
from vgpumgr.core.model.snapshot import MDEV_VF
from vgpumgr.core.report import units
from vgpumgr.core.slot import attach
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from vgpumgr.core.driver.asking import FgpuUnit, FgpuUnits
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.report.units import BoardUnits, EarlierUnit, Units

CATALOGUE = catalogue.parse(resources.catalogue_text())


def site(unit: FgpuUnit | None, board: str = "A40") -> HostView:
    """A host with one board, and what the inventory makes of it."""
    view = builders.host(builders.gpu(MDEV_VF, board, "0000:41:00.0"))
    return replace(view, fgpu_per_gpu={} if unit is None else {board: unit})


def attached(view: HostView, **given: str) -> HostView:
    wish, conditions = asking.read(given, about="vm01", spelt=str)
    plan = attach.plan_attach(view, replace(builders.ask(), wish=wish, conditions=conditions))
    return simulate.apply(view, plan.steps)


def now(view: HostView, unit: FgpuUnit | None, board: str = "A40") -> HostView:
    """The same host once its inventory has another unit, or none."""
    return replace(view, fgpu_per_gpu={} if unit is None else {board: unit})


def earlier(view: HostView) -> EarlierUnit:
    (found,) = units.of_host(view).earlier
    return found


def on_paper(per_gpu: FgpuUnits) -> Units:
    """The boards of an inventory with one host."""
    return units.on_paper([replace(declarations.declares(), fgpu_per_gpu=per_gpu)], CATALOGUE)


def means(row: BoardUnits) -> list[tuple[int | None, str | None]]:
    return [(one.mib, one.type_name) for one in row.means]


def test_each_board_has_the_three_amounts() -> None:
    (row,) = units.of_host(site(2)).boards
    assert (row.board, row.framebuffer_mib, row.unit, row.hosts) == ("A40", 49152, "2 per GPU", ("kvm01",))
    assert [one.asked for one in row.means] == ["--fgpu 1", "--gpu 0.1", "--gpu-memory 4G"]
    assert means(row) == [(24576, "A40-24C"), (4916, "A40-6C"), (4096, "A40-4C")]


@pytest.mark.parametrize(
    ("then", "given", "unit", "asked_mib"),
    [
        (2, "0.5", "2 per GPU", 12288),
        (5, "1", "5 per GPU", 9831),
        (3, "0.7", "3 per GPU", 11469),
        (FgpuMemory(mib=10240), "0.5", "10G", 5120),
        (FgpuMemory(mib=24576), "0.5", "2 per GPU", 12288),  # a claim has the amount, not the unit's spelling
    ],
)
def test_a_vgpu_from_another_unit_is_shown_in_both(then: FgpuUnit, given: str, unit: str, asked_mib: int) -> None:
    found = earlier(now(attached(site(then), fgpu=given), 8))
    assert (found.unit, found.asked_mib, found.now_unit) == (unit, asked_mib, "8 per GPU")
    assert (found.vm, found.slot, found.requested) == ("vm01", "vgpu0", f"--fgpu {given}")


def test_what_it_would_be_now_is_said_with_its_type() -> None:
    view = attached(site(2), fgpu="0.5")
    assert (earlier(now(view, 4)).now_mib, earlier(now(view, 4)).now_type) == (6144, "A40-6C")
    assert earlier(now(view, None)).now_unit is None
    too_much = earlier(now(view, FgpuMemory(mib=200 * 1024)))
    assert (too_much.now_mib, too_much.now_type) == (100 * 1024, None)


def test_only_what_means_something_else_is_shown() -> None:
    """Neither another spelling of the same unit, nor what was never asked for in fGPUs."""
    view = attached(site(2), fgpu="0.5")
    assert units.of_host(view).earlier == ()
    assert units.of_host(now(view, FgpuMemory(mib=24 * 1024))).earlier == ()
    assert units.of_host(now(attached(site(2), gpu="0.25"), 4)).earlier == ()
    assert (
        units.of_host(now(attached(site(4, "H200"), fgpu="1"), 4, "H200")).earlier == ()
    )  # 35 GB are a quarter of 141


def test_boards_of_the_inventory_need_no_host() -> None:
    found = {row.board: row for row in on_paper({"A40": 2, "NVIDIA L40S": FgpuMemory(mib=12288), "X1": 3}).boards}
    assert means(found["A40"]) == [(24576, "A40-24C"), (4916, "A40-6C"), (4096, "A40-4C")]
    assert means(found["L40S"])[0] == (12288, "L40S-12C")
    assert (found["X1"].framebuffer_mib, means(found["X1"])) == (None, [(None, None), (None, None), (4096, None)])


def test_hosts_with_the_same_board_and_unit_are_one_row() -> None:
    """Each unit has its own, with what came before it there; a declared board that a host has is not shown twice."""
    one = units.of_host(now(attached(site(2), fgpu="0.5"), 4))
    other = replace(site(4), snapshot=replace(site(4).snapshot, host=HostName("kvm02")))
    third = replace(site(2), snapshot=replace(site(2).snapshot, host=HostName("kvm03")))
    found = units.together([one, units.of_host(other), units.of_host(third)], on_paper({"A40": 4, "A100": 2}))
    assert [(row.board, row.unit, row.hosts, row.before) for row in found.boards] == [
        ("A100", "2 per GPU", (), ()),
        ("A40", "4 per GPU", ("kvm01", "kvm02"), (("2 per GPU", 1),)),
        ("A40", "2 per GPU", ("kvm03",), ()),
    ]
    assert found.earlier == one.earlier
