"""reconcile as a use case: what it tells of a host that fails half way, and of a plan that is refused whole."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import libvirt
import pytest

from tests.dose import dose
from tests.model.fleet import Fleet
from tests.model.libvirt_double import Libvirt
from tests.model.wiring import Trouble
from vgpumgr import errors
from vgpumgr.cli.main import run
from vgpumgr.cli.text import fleet_text
from vgpumgr.controller.results import FleetResult
from vgpumgr.core.reconcile import destroy_guard
from vgpumgr.documents import change
from vgpumgr.host.libvirt.binding import LibvirtError
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.model.pool import Pool
    from vgpumgr.controller.results import HostResult
    from vgpumgr.names import VmUuid

CALLS = 60  # more than a run over two VMs makes


def fleet_of(pool: Pool, vms: int, *hosts: str) -> Fleet:
    """Hosts with so many VMs each, all declared."""
    fleet = Fleet.install({host: pool.machine(host, "mdev-vf") for host in hosts}, dict.fromkeys(hosts, vms))
    for host in hosts:
        for vm in fleet.vms(host):
            fleet.declared[host, vm.name] = {DEFAULT_SLOT: "4Q"}
    return fleet


def result_of(
    fleet: Fleet,
    *,
    check: bool = False,
    trouble: Trouble | None = None,
    confirms: bool = True,
    strict: bool = False,
) -> FleetResult:
    result = fleet.reconcile(check=check, trouble=trouble, confirms=confirms, strict=strict).result
    assert isinstance(result, FleetResult)
    return result


def vms_of(host: HostResult, *outcomes: str) -> set[str | None]:
    return {task_result.planned.task.vm for task_result in host.tasks if task_result.outcome in outcomes}


def test_what_was_done_is_told_wherever_the_host_was_lost(pool: Pool) -> None:
    """Its connection goes before and after each call inside the lock; each VM that is as wanted then was named before."""
    finished = 0
    for at in range(0, CALLS, dose(3, 1)):
        fleet = fleet_of(pool, 2, "kvm01")
        trouble = Trouble("kvm01", at=at, inside=True)
        (host,) = result_of(fleet, trouble=trouble).hosts
        (found,) = result_of(fleet, check=True).hosts
        named = {task_result.planned.task.vm for task_result in host.tasks}
        assert vms_of(found, "unchanged") <= named, f"call {at}"
        finished += bool(vms_of(host, "done") and host.error)
        if not trouble.done:
            assert (vms_of(host, "done"), host.error) == ({"1vm01", "1vm02"}, None)
            break
    else:
        pytest.fail(f"a run makes more than {CALLS} calls")
    assert finished


def test_a_host_without_work_is_only_read(pool: Pool) -> None:
    fleet = fleet_of(pool, 1, "kvm01", "kvm02")
    del fleet.declared["kvm02", "2vm01"]
    told = fleet.reconcile().told
    verbs = Counter(json.loads(line)["do"] for line in told)
    assert (verbs["observe"], verbs["lock"], verbs["unlock"]) == (2, 1, 1)


def test_what_would_be_taken_away_beyond_what_was_agreed_stays_and_the_rest_is_done(pool: Pool) -> None:
    """1vm02 runs while the plan is made, so nothing of it goes; it stops before the host is locked, and nobody was asked."""
    fleet = fleet_of(pool, 3, "kvm01")
    del fleet.declared["kvm01", "1vm03"]
    result_of(fleet)
    running = next(vm for vm in fleet.vms("kvm01") if vm.name == "1vm02")
    assert fleet.start("kvm01", running)
    before = fleet.machines["kvm01"].hardware()
    del fleet.declared["kvm01", "1vm02"]
    fleet.declared["kvm01", "1vm03"] = {DEFAULT_SLOT: "4Q"}
    stops = Trouble("kvm01", at=0, inside=True, act=lambda: fleet.stop("kvm01", running))
    (host,) = result_of(fleet, trouble=stops).hosts
    assert stops.done
    assert [(one.planned.task.vm, type(one.error)) for one in host.tasks if one.error] == [("1vm02", errors.StalePlan)]
    assert vms_of(host, "done") == {"1vm03"}
    assert all(vgpu in fleet.machines["kvm01"].hardware() for vgpu in before)
    assert vms_of(result_of(fleet).hosts[0], "done") == {"1vm02"}


@pytest.mark.parametrize("check", [True, False])
def test_what_waits_for_the_end_of_a_use_is_told_and_fails_only_a_strict_run(pool: Pool, check: bool) -> None:
    """1vm01 runs and is no longer declared, 1vm02 is new: that one is served, the other one waits."""
    fleet = fleet_of(pool, 2, "kvm01")
    del fleet.declared["kvm01", "1vm02"]
    result_of(fleet)
    assert fleet.start("kvm01", fleet.vms("kvm01")[0])
    del fleet.declared["kvm01", "1vm01"]
    fleet.declared["kvm01", "1vm02"] = {DEFAULT_SLOT: "4Q"}
    before = fleet.machines["kvm01"].hardware()

    strict = result_of(fleet, check=True, strict=True)
    assert [type(error) for error in strict.problems] == [errors.InUse]
    assert strict.waiting == ()

    result = result_of(fleet, check=check)
    assert result.problems == ()
    assert set(result.outcomes) == {"waiting", "would_change" if check else "done"}
    (told,) = result.waiting
    assert (told.kind, told.host, told.vm, told.slot) == ("waiting", "kvm01", "1vm01", DEFAULT_SLOT)
    assert told.text.endswith(", waits until 1vm01 is shut down")
    document = json.loads(json.dumps(change.of_fleet(result)))
    units = [unit for unit in document["result"]["hosts"][0]["units"] if unit["vm"] == "1vm01"]
    assert [(unit["outcome"], unit["error"]) for unit in units] == [("waiting", None)]
    assert [row["text"] for row in document["findings"] if row["kind"] == "waiting"] == [told.text]
    assert set(before) <= set(fleet.machines["kvm01"].hardware())

    last = result_of(fleet)
    assert set(last.outcomes) == {"waiting"} if not check else {"waiting", "done"}
    (line,) = fleet_text.closing(result_of(fleet), 0.1)
    assert line == "1 host: 1 vGPU in sync; 1 waits for a GPU or VM in use."
    fleet.stop("kvm01", fleet.vms("kvm01")[0])
    assert vms_of(result_of(fleet).hosts[0], "done") == {"1vm01"}


def test_a_guard_that_refuses_the_whole_plan_leaves_the_dead_host_named_beside_it(pool: Pool) -> None:
    fleet = fleet_of(pool, destroy_guard.COUNTS_FROM // 2, "kvm01", "kvm02", "kvm03")
    assert result_of(fleet).problems == ()
    before = fleet.machines["kvm01"].hardware()
    fleet.declared.clear()
    result = result_of(fleet, trouble=Trouble("kvm03", at=0), confirms=False)
    assert isinstance(result.guard, errors.TooManyDestroys)
    assert [host for host, _ in result.errors] == ["kvm03"]
    assert {error.exit_code for error in result.problems} == {4, 5}
    assert set(result.outcomes) == {"would_change", "refused", "unreached"}
    assert fleet.machines["kvm01"].hardware() == before


@pytest.mark.parametrize("limit", ["", ",", " , "])
def test_a_limit_that_names_no_host_is_not_taken_for_all_of_them(
    limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `--limit "$HOSTS"` with nothing in it. One that is spelt with blanks is read."""
    (tmp_path / "hosts.yml").write_text("hypervisors: {hosts: {kvm01: {}}}\n", encoding="utf-8")
    assert run(["plan", "-i", str(tmp_path), "--limit", limit]) == 2
    assert "no host is named" in capsys.readouterr().err
    assert run(["plan", "-i", str(tmp_path), "--limit", "kvm09, kvm01"]) == 2
    assert "no host 'kvm09'" in capsys.readouterr().err


def test_a_job_that_has_no_room_and_whose_driver_refuses_is_not_tried_for_ever(pool: Pool) -> None:
    """vm01 keeps what it had while its new profile has no room; that this fails is no change that could have made any."""
    fleet = fleet_of(pool, 2, "kvm01")
    assert result_of(fleet).problems == ()
    fleet.reboot("kvm01")
    fleet.machines["kvm01"].fail_creates(True)
    fleet.declared["kvm01", "1vm01"] = {DEFAULT_SLOT: "8Q"}
    refused = fleet.reconcile()
    fleet.machines["kvm01"].fail_creates(False)
    assert isinstance(refused.result, FleetResult)
    (host,) = refused.result.hosts
    assert host.error is None
    assert vms_of(host, "failed") == {"1vm01", "1vm02"}


def test_a_vm_whose_wait_cannot_be_noted_leaves_the_others_theirs(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs, four VMs that want one each: libvirt takes no metadata for the third."""
    fleet = fleet_of(pool, 4, "kvm01")
    fleet.declared = {key: {DEFAULT_SLOT: "16Q"} for key in fleet.declared}
    third, put = fleet.vms("kvm01")[2], Libvirt.set_metadata

    def refuse(self: Libvirt, uuid: VmUuid, xml: str | None, **rest: str) -> None:
        if uuid == third.uuid:
            raise LibvirtError(libvirt.VIR_ERR_OPERATION_INVALID, "not now")
        put(self, uuid, xml, **rest)

    monkeypatch.setattr(Libvirt, "set_metadata", refuse)
    (host,) = result_of(fleet).hosts
    assert host.error is None
    assert {one.planned.task.vm: type(one.error) for one in host.tasks if one.error} == {
        "1vm03": errors.HypervisorError,
        "1vm04": errors.NoCapacity,
    }
    assert "<wait " in str(fleet.vms("kvm01")[3].inactive) or ":wait " in str(fleet.vms("kvm01")[3].inactive)


def test_a_vm_that_is_saved_while_the_host_is_worked_at_keeps_what_its_image_names(pool: Pool) -> None:
    """Every VM's declaration is gone; 1vm03, the last in turn, is started and saved at each call before its own turn."""
    seen = 0
    for at in range(0, CALLS, dose(3, 1)):
        fleet = fleet_of(pool, 3, "kvm01")
        assert result_of(fleet).problems == ()
        machine, saved = fleet.machines["kvm01"], fleet.vms("kvm01")[2]
        (device,) = [str(item.source) for item in saved.hostdevs(saved.inactive)]

        def save(fleet: Fleet = fleet) -> None:
            vms = fleet.vms("kvm01")
            if vms[1].hostdevs(vms[1].inactive):  # 1vm02 has not been served yet
                assert fleet.start("kvm01", vms[2])
                fleet.stop("kvm01", vms[2], save=True)

        fleet.declared.clear()
        trouble = Trouble("kvm01", at=at, inside=True, act=save)
        (host,) = result_of(fleet, trouble=trouble).hosts
        if saved.image is not None:
            seen += 1
            assert device in {each.uuid for each in machine.hardware()}, f"call {at}"
            assert [type(one.error) for one in host.tasks if one.planned.task.vm == saved.name] == [errors.SavedImage]
        elif trouble.done:
            break
    assert seen > 5 / dose(3, 1)


@pytest.mark.parametrize("framework", ["mdev-pf", "mdev-vf", "vendor-vfio"])
def test_each_vm_more_is_four_requests_more(pool: Pool, framework: str) -> None:
    """Attached and freed: the host and its VMs are read as often for four VMs as for two."""

    def calls(vms: int) -> tuple[Counter[str], Counter[str]]:
        fleet = Fleet.install({"kvm01": pool.machine("kvm01", framework)}, {"kvm01": vms})
        counts = []
        for wanted in ({DEFAULT_SLOT: "4Q"}, None):
            for vm in fleet.vms("kvm01"):
                if wanted is None:
                    del fleet.declared["kvm01", vm.name]
                else:
                    fleet.declared["kvm01", vm.name] = wanted
            end = fleet.reconcile()
            assert isinstance(end.result, FleetResult)
            assert len(vms_of(end.result.hosts[0], "done")) == vms
            counts.append(Counter(json.loads(line)["do"] for line in end.told))
        attached, freed = counts
        return attached, freed

    (attached_two, freed_two), (attached_four, freed_four) = calls(2), calls(4)
    attached_four.subtract(attached_two)
    assert +attached_four == {"execute": 2 * 4}
    freed_four.subtract(freed_two)
    # Before each further VM's is freed, images and snapshots are looked for: some may have been made meanwhile.
    assert +freed_four == {"execute": 2 * 4, "libvirt": 2}
