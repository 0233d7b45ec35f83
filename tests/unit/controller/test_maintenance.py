"""cordon and uncordon, with the real host program: what one controller says, the next one hears."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model.fleet import Fleet
from tests.model.machine import GPUS
from vgpumgr import errors
from vgpumgr.controller.maintenance import CordonOptions
from vgpumgr.controller.results import ChangeResult
from vgpumgr.core.plan.cordons import CordonPlan
from vgpumgr.host.protocol import MDEV_VF
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from tests.model.pool import Pool

HOST, VM, OTHER = "kvm01", "1vm01", "1vm02"
FIRST, SECOND = GPUS
WHY = "ECC errors"


@pytest.fixture
def fleet(pool: Pool) -> Fleet:
    return Fleet.install({HOST: pool.machine(HOST, MDEV_VF)}, {HOST: 2})


def about(reason: str | None, gpu: str | None = None) -> CordonOptions:
    return CordonOptions(host=HOST, gpu_id=gpu, reason=reason)


def test_a_cordon_of_one_controller_is_honoured_and_lifted_by_another(fleet: Fleet) -> None:
    said = fleet.cordon(about(WHY))
    assert said.word == "done"
    refused = fleet.attach(HOST, VM, DEFAULT_SLOT, "4Q", by="bob@ctl2")
    assert isinstance(refused.error, errors.Cordoned)
    assert refused.error.message.startswith(f"{HOST} is cordoned: {WHY} (anna@ctl1, ")
    again = fleet.cordon(about(WHY), by="bob@ctl2")
    assert again.word == "unchanged"
    assert isinstance(again.result, ChangeResult)
    assert isinstance(again.result.planned.plan, CordonPlan)
    assert again.result.planned.plan.cordon is not None
    assert again.result.planned.plan.cordon.by == "anna@ctl1"
    assert fleet.cordon(about(None), by="bob@ctl2").word == "done"
    assert fleet.cordon(about(None)).word == "unchanged"
    assert fleet.attach(HOST, VM, DEFAULT_SLOT, "4Q").word == "done"


def test_check_writes_nothing(fleet: Fleet) -> None:
    before = fleet.machines[HOST].ledger()
    assert fleet.cordon(about(WHY), check=True).word == "would_change"
    assert fleet.machines[HOST].ledger() == before
    assert fleet.cordon(about(None)).word == "unchanged"


def test_reconcile_serves_a_declared_vm_elsewhere_or_says_why_not(fleet: Fleet) -> None:
    """The GPU that would have been first is cordoned; then the other one, too. What was made stays."""
    assert fleet.cordon(about(WHY, FIRST)).word == "done"
    fleet.declared = {(HOST, VM): {DEFAULT_SLOT: "4Q"}}
    assert fleet.reconcile(HOST).error is None
    (entry,) = fleet.machines[HOST].ledger()
    assert entry["gpu"] == SECOND
    assert fleet.cordon(about(WHY, SECOND)).word == "done"
    fleet.declared[HOST, OTHER] = {DEFAULT_SLOT: "4Q"}
    after = fleet.reconcile(HOST)
    assert after.word == "refused"
    assert len(fleet.machines[HOST].ledger()) == 1
