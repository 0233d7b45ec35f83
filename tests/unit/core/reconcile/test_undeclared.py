"""A setting whose declaration went stays, and is told with the command that ends it; the command ends the finding, too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import HERE, declares
from tests.unit.core.gpu.test_mig_mode import time_sliced
from tests.unit.core.placing.test_instances import a100, given_to
from tests.unit.core.reconcile.host_plans import after
from vgpumgr.core import simulate
from vgpumgr.core.driver.modes import MIXED_SIZE
from vgpumgr.core.driver.scheduler import SchedulerWish
from vgpumgr.core.gpu import scheduler
from vgpumgr.core.inventory.model import BoardDeclaration, GpuDeclaration, SchedulerDeclaration
from vgpumgr.core.model.view import STANDING
from vgpumgr.core.reconcile import host_plan, undeclared
from vgpumgr.core.reconcile.tasks import Author
from vgpumgr.names import GpuUuid

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView

PCI = "0000:41:00.0"
FIXED = SchedulerWish(policy="fixed-share", time_slice_ns=2_000_000)
RUN = Author(by="root@ctl1", at="2026-11-22T02:30:00Z")


def told(view: HostView, declared: HostDeclaration | None = None) -> list[str]:
    return [one.text for one in undeclared.findings(view.snapshot, declared or declares())]


def fixed(*gpus: str) -> HostView:
    """A host on which a declared scheduler was set."""
    view = builders.host(*(builders.gpu(pci=pci) for pci in gpus))
    return simulate.apply(view, host_plan.plan_host(view, declares(dict.fromkeys(gpus, FIXED)), RUN).steps)


def test_a_scheduler_whose_declaration_went_is_told_until_best_effort_is_set() -> None:
    view = fixed(PCI)
    assert told(view, declares({PCI: FIXED})) == []
    (text,) = told(view)
    assert f"GPU {PCI} keeps fixed-share, time slice 2 ms (/etc/modprobe.d/vgpumgr.conf), which is not declared" in text
    assert f"`vgpumgr scheduler set --on kvm01 --gpu-id {PCI} --policy best-effort` ends it" in text
    uuid = view.snapshot.gpus[0].uuid
    assert uuid is not None
    request = scheduler.SchedulerRequest(gpu_uuid=GpuUuid(uuid), wish=SchedulerWish(policy="best-effort"))
    assert told(simulate.apply(view, scheduler.plan_scheduler(view, request).steps)) == []


def test_gpus_that_keep_the_same_are_one_finding_which_is_no_news_every_night() -> None:
    view = fixed(PCI, "0000:81:00.0")
    (text,) = told(view)
    assert f"GPUs {PCI}, 0000:81:00.0 keep fixed-share" in text
    assert "--gpu-id GPU --policy" in text
    board = BoardDeclaration(board="A40", mode=None, scheduler=SchedulerDeclaration(wish=FIXED, where=HERE), where=HERE)
    assert told(view, replace(declares(), boards=(board,))) == []
    (finding,) = host_plan.plan_host(view, declares(), RUN).findings
    assert finding.kind in STANDING


def mixed() -> HostView:
    view = builders.host()
    declared = replace(
        declares(), gpus=(GpuDeclaration(gpu_id=builders.gpu().pci, mode=MIXED_SIZE, scheduler=None, where=HERE),)
    )
    view = simulate.apply(view, host_plan.plan_host(view, declared, RUN).steps)
    assert told(view, declared) == []
    return view


@pytest.mark.parametrize(
    ("view", "keeps", "ends"),
    [
        (mixed(), "mixed-size mode", "mode set equal-size --on kvm01 --gpu-id 0000:41:00.0`"),
        (a100(), "MIG mode", "--gpu-id 0000:41:00.0 --allow-reset`"),
        (
            builders.detached(given_to(a100(), "vm01", mig_profile="2g.10gb"), "vm01"),
            "MIG mode, with 1 cached GPU instance",
            "--allow-reset`",
        ),
    ],
)
def test_a_mode_that_nothing_declares_is_told_with_what_ends_it(view: HostView, keeps: str, ends: str) -> None:
    (text,) = told(view)
    assert f"keeps {keeps}, which is not declared" in text
    assert ends in text


def test_a_host_as_it_comes_keeps_nothing() -> None:
    assert told(after(builders.host(), vm01="4Q")) == []
    assert told(time_sliced()) == []
