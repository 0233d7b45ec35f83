"""How every case ends: nobody disturbs any more, one reconcile runs, then everything is freed.

After the reconcile there is nothing left to do, and whatever is not as declared has been said; after the freeing nothing of
ours is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model import promises
from vgpumgr import errors
from vgpumgr.controller.results import FleetResult
from vgpumgr.core.reconcile.tasks import EnsureSlot
from vgpumgr.names import VmName, VmUuid

if TYPE_CHECKING:
    from tests.model.fleet import Fleet, Outcome


def check(fleet: Fleet) -> None:
    """Quiet; reconcile: all is served or said; detach: an empty ledger, no vGPU but the foreign ones, as they were."""
    _quiet(fleet)
    outcome = fleet.reconcile()
    promises.check_always(fleet)
    _check_all_said(fleet, outcome)
    check_residual(fleet, outcome)
    _free_all(fleet)


def check_residual(fleet: Fleet, outcome: Outcome, *limit: str) -> None:
    """After a reconcile that nobody disturbed there is nothing left to do, but for what failed under its hands."""
    result = outcome.result
    assert isinstance(result, FleetResult), outcome.error
    for host in result.hosts:
        assert host.error is None, f"{host.host}: {host.error}"
        if any(task_result.error is not task_result.planned.refused for task_result in host.tasks):
            return
    again = fleet.reconcile(*limit, check=True).result
    assert isinstance(again, FleetResult)
    left = [
        f"{step.verb} {planned.task.subject}"
        for plan in again.fleet.plans
        for planned in plan.tasks
        for step in planned.steps
    ]
    assert not left, f"after a reconcile ({outcome.word}) there is still to do: {left}"


def _check_all_said(fleet: Fleet, outcome: Outcome) -> None:
    """Every declared slot is served or refused with a reason, and nothing else waits; every ledger entry belongs to one that is served, or is named."""
    result = outcome.result
    assert isinstance(result, FleetResult), outcome.error
    assert not result.errors, result.errors
    for plan, host in zip(result.fleet.plans, result.hosts, strict=True):
        machine = fleet.machines[plan.host]
        now = promises.truth(machine)
        named = {domain.name: uuid for uuid, domain in now.domains.items()}
        served, refused, waiting = set(), set(), set()
        for task_result in host.tasks:
            task = task_result.planned.task
            if task_result.error is not None:
                assert isinstance(task_result.error, (errors.RequestError, errors.RefusedPlan)), task_result.error
                refused.add((task.vm, task.slot))
            elif task_result.outcome == errors.Outcome.WAITING:
                waiting.add((task.vm, task.slot))
            elif isinstance(task, EnsureSlot):
                served.add((task.vm, task.slot))
        for (where, vm), slots in fleet.declared.items():
            for slot, profile in slots.items():
                if where != plan.host or (vm, slot) in refused:
                    continue
                assert (vm, slot) in served, f"{vm} {slot} is declared, and nothing is said of it"
                why = promises.unserved(machine, now, named[VmName(vm)], slot, profile)
                assert why is None, why
        still = {(one.name, wait.slot) for one in now.domains.values() for wait in one.waits}
        assert still <= refused | waiting, f"{plan.host}: {still - refused - waiting} was served, and still waits"
        said = {(finding.vm, finding.slot) for finding in plan.findings}
        for entry in now.entries:
            domain = now.domains.get(VmUuid(entry.vm))
            name = domain.name if domain else VmName(entry.vm_name)
            known = (name, entry.slot) in served | refused | said or (name, None) in said
            known = known or any(f"{name} {entry.slot}" in found.text for found in plan.findings if found.vm is None)
            assert known, f"{plan.host}: {entry} is in the ledger, and neither served nor named: a leak"


def _quiet(fleet: Fleet) -> None:
    """Faults end, writes return, VMs are shut off, saved images are dropped."""
    for host, machine in fleet.machines.items():
        machine.fail_creates(fail=False)
        machine.let_go()
        for vm in fleet.vms(host):
            if vm.active:
                fleet.stop(host, vm)
            vm.image = None


def _free_all(fleet: Fleet) -> None:
    for host, machine in fleet.machines.items():
        _free_by_hand(fleet, host)
        now = promises.truth(machine)
        copies = [uuid for uuid, domain in now.domains.items() if domain.copied]
        others = [uuid for uuid in now.domains if uuid not in copies]
        gone = {entry.vm for entry in now.entries} - set(now.domains)
        for uuid in (*copies, *others, *sorted(gone)):
            outcome = fleet.detach(host, uuid, keep_snapshots=True)
            assert outcome.error is None, (
                f"{uuid} cannot be freed: {outcome.error} {getattr(outcome.error, 'details', '')}"
            )
        for name in {one.name for one in now.kept}:
            outcome = fleet.cancel(name, host)
            assert outcome.word == "done", f"{name} cannot be given up: {outcome.error}"
            promises.check_given_up(machine, name)
        promises.check_always(fleet)
        left = promises.truth(machine)
        assert not left.entries, f"{host}: left in the ledger: {left.entries}"
        assert left.hardware == {**fleet.handmade[host], **machine.orphans}, (
            f"{host}: left in hardware: {left.hardware}"
        )
        assert not left.kept, f"{host}: still reserved: {left.kept}"
        said = [domain.claims for domain in left.domains.values() if domain.claims]
        assert not [one for one in said if one.claims or one.waits], f"{host}: definitions still say {said}"


def _free_by_hand(fleet: Fleet, host: str) -> None:
    """What a person must do first, as the refusals say: drift on a VF is freed, stray hostdevs are edited out."""
    machine = fleet.machines[host]
    now = promises.truth(machine)
    for entry in now.entries:
        if entry.place in fleet.handmade[host] and entry.place.uuid is None:
            machine.driver.set_vf_type(promises.device_name(machine, entry), 0)
            del fleet.handmade[host][entry.place]
    machine.show()
    for uuid, domain in now.domains.items():
        own = {promises.device_name(machine, entry) for entry in now.entries if entry.vm == uuid}
        claims = domain.claims.claims if domain.claims else ()
        # What a copy's claims name, its detach takes out.
        named = {str(claim.binding.device) for claim in claims} if domain.copied else set()
        stray = [device for device in domain.inactive if str(device.source) not in own | named]
        others = {promises.device_name(machine, entry) for entry in now.entries if entry.vm != uuid}
        shared = any(str(device.source) in others for device in stray)
        if stray and (domain.copied or not claims or shared):
            machine.libvirt.redefine(machine.libvirt.vms[uuid], metadata=False, hostdevs=True)
