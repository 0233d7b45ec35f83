"""forget asks the whole inventory before it forgets: hosts that a group leaves out, declarations, a VM's other name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.unit.core.declarations import declares
from vgpumgr import errors
from vgpumgr.controller import forget, report
from vgpumgr.controller.results import Consent, Fleet, ForgetPlan
from vgpumgr.core.inventory import Inventory
from vgpumgr.core.inventory.model import Whose
from vgpumgr.core.inventory.whose import VARIABLE
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.controller.context import Context

HOST = HostName("kvm01")
UUID = "11111111-0000-4000-8000-000000000001"
YES: Consent[ForgetPlan] = Consent(check=False, show=lambda _plan: None, ask=lambda _plan: None)


def context(whose: Whose | None = None, **vms: str) -> Context:
    inventory = Inventory(root="inventory", hosts={HOST: declares(**vms)}, findings=(), whose=whose or Whose(by="all"))
    return cast("Context", SimpleNamespace(inventory=inventory))


def views(monkeypatch: pytest.MonkeyPatch, *domains: tuple[str, str]) -> None:
    """What hosts say: these VMs, none with a vGPU."""
    view = SimpleNamespace(domains=[SimpleNamespace(name=name, uuid=uuid) for name, uuid in domains])
    monkeypatch.setattr(forget, "_has", lambda _view, _name: None)
    monkeypatch.setattr(report, "look_over", lambda _context, _hosts, keep: Fleet(views=(keep(view),), errors=()))


@pytest.mark.parametrize("name", ["kvm02", "vm05"])
def test_a_part_of_the_hosts_is_not_enough(tmp_path: Path, name: str) -> None:
    part = Whose(by="group", group="rack1", named_by="--group", left_out=(HostName("kvm02"),))
    with pytest.raises(errors.UsageError, match="--group rack1 leaves out kvm02"):
        forget.forget(context(part), tmp_path / "store.sqlite", name, YES)


def test_the_sites_own_choice_of_hypervisors_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views(monkeypatch)
    site = Whose(by="group", group="gpu", named_by=VARIABLE, left_out=(HostName("web01"),))
    assert forget.forget(context(site), tmp_path / "store.sqlite", "vm05", YES).outcome is errors.Outcome.UNCHANGED


@pytest.mark.parametrize("name", ["vm01", UUID])
def test_a_declared_vm_is_refused_by_either_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    views(monkeypatch, ("vm01", UUID))
    with pytest.raises(errors.RefusedPlan, match="vm01 is declared on kvm01"):
        forget.forget(context(vm01="4Q"), tmp_path / "store.sqlite", name, YES)
