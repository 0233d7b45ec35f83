"""Each rule says something where it should, and nothing of a healthy host or of what could not be read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.captures import Capture, build, captures
from tests.unit.core import builders
from tests.unit.host.fakehost import Asker, no_nvml
from vgpumgr import resources
from vgpumgr.core.doctor import claims, diagnosis, driver, firmware, libvirt, services
from vgpumgr.core.doctor.case import Case
from vgpumgr.core.driver import catalogue
from vgpumgr.core.model.installation import Installation, Login, State
from vgpumgr.core.model.snapshot import MDEV_VF, VENDOR_VFIO, FrameworkName
from vgpumgr.core.model.symptoms import Client, Function, ModuleVersion, OnShutdown, Symptoms, Unit
from vgpumgr.host.files import Root
from vgpumgr.host.server import Server
from vgpumgr.host.symptoms.symptoms import read_symptoms
from vgpumgr.link.values import snapshot_facts, symptom_facts
from vgpumgr.names import HostName, PciAddress

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.view import HostView

GPU, VF = PciAddress("0000:41:00.0"), PciAddress("0000:41:00.4")
CATALOGUE = catalogue.parse(resources.catalogue_text())
INSTALLED = Installation(
    host=builders.HOST,
    login=Login.ROOT,
    user="root",
    state=State.ABSENT,
    pinned=False,
    programs=(),
    problems=(),
    cordons=(),
)


def function(pci: PciAddress = GPU, physfn: PciAddress | None = None) -> Function:
    vfs = None if physfn else 32
    return Function(pci=pci, pci_id="10de:2235", physfn=physfn, driver="nvidia", total_vfs=vfs, iommu_group=True)


HEALTHY = Symptoms(functions=(function(), function(VF, GPU)), modules=(ModuleVersion(name="nvidia", version="570.1"),))


def case(symptoms: Symptoms = HEALTHY, view: HostView | None = None) -> Case:
    found = builders.host(builders.gpu()) if view is None else view
    return Case(
        facts=found.snapshot, symptoms=symptoms, installation=INSTALLED, catalogue=CATALOGUE, domains=found.domains
    )


def test_a_healthy_host_has_no_illness() -> None:
    assert [illness for rule in diagnosis.RULES for illness in rule(case())] == []


def test_of_what_could_not_be_read_nothing_is_guessed() -> None:
    unknown = replace(HEALTHY, modules=None, units=None, clients=None, definitions=None)
    assert [illness for rule in diagnosis.RULES for illness in rule(case(unknown))] == []


def test_a_plain_gpu_without_functions_is_not_ill_where_the_host_driver_is_not_installed() -> None:
    bare = Symptoms(functions=(function(),))
    assert [one.kind for one in driver.without_functions(case(bare))] == ["no-functions"]
    assert not [*driver.without_functions(case(replace(bare, host_driver=False)))]


def test_only_a_foreign_process_is_to_be_stopped() -> None:
    ours = Client(path="/dev/nvidia0", pid=1, command="nvidia-vgpu-mgr")
    other = Client(path=f"/proc/driver/nvidia/gpus/{VF}/unbindLock", pid=2, command="elsewhere")
    (one,) = driver.without_functions(case(Symptoms(functions=(function(),), clients=(ours, other))))
    assert "stop" not in one.mend


@pytest.mark.parametrize(
    ("pci_id", "total", "ill"),
    [("10de:2235", None, True), ("10de:2235", 0, True), ("10de:1eb8", None, False), ("10de:2204", None, False)],
    ids=["A40", "A40 without room", "T4", "GeForce"],
)
def test_only_boards_that_need_sr_iov_lack_it(pci_id: str, total: int | None, ill: bool) -> None:
    found = firmware.sriov(case(Symptoms(functions=(replace(function(), pci_id=pci_id, total_vfs=total),))))
    assert bool([*found]) == ill


def test_a_gpu_without_sr_iov_needs_no_iommu() -> None:
    without = replace(function(), iommu_group=False)
    assert [*firmware.iommu(case(Symptoms(functions=(without,))))]
    assert not [*firmware.iommu(case(Symptoms(functions=(replace(without, total_vfs=None),))))]


def test_versions_that_are_equal_or_unknown_go_together() -> None:
    assert not [*driver.versions(case(replace(HEALTHY, library="570.1")))]
    assert [*driver.versions(case(replace(HEALTHY, library="570.2")))]
    others = (ModuleVersion(name="nvidia", version="570.1"), ModuleVersion(name="nvidia_vgpu_vfio", version="560.1"))
    assert [*driver.versions(case(replace(HEALTHY, modules=others)))]


@pytest.mark.parametrize(
    ("unit", "kinds"),
    [
        (Unit(name="nvidia-vgpud", active="inactive", file="enabled"), []),
        (Unit(name="nvidia-vgpu-mgr", active="inactive", file="enabled"), ["unit"]),
        (Unit(name="nvidia-vgpu-mgr", active="active", file="masked-runtime"), ["unit-off"]),
        (Unit(name="nvidia-fabricmanager", active="failed", file="masked"), []),
        (Unit(name="libvirt-guests", active="failed", file="disabled"), []),
    ],
)
def test_a_unit_that_vgpus_need_runs_and_is_enabled(unit: Unit, kinds: list[str]) -> None:
    assert [one.kind for one in services.units(case(replace(HEALTHY, units=(unit,))))] == kinds


@pytest.mark.parametrize(
    ("active", "file", "mend"),
    [
        ("inactive", "masked", "`systemctl unmask {0}` and `systemctl restart {0}`"),
        ("inactive", "masked-runtime", "`systemctl unmask --runtime {0}` and `systemctl restart {0}`"),
        ("active", "masked-runtime", "`systemctl unmask --runtime {0}`"),
        ("failed", "enabled", "`systemctl restart {0}`"),
    ],
)
def test_what_mends_a_unit_takes_its_mask_away_and_starts_it(active: str, file: str, mend: str) -> None:
    unit = Unit(name="nvidia-vgpu-mgr", active=active, file=file)
    (found,) = services.units(case(replace(HEALTHY, units=(unit,))))
    assert found.mend.split(" on kvm01")[0] == mend.format("nvidia-vgpu-mgr")


def test_fabric_manager_counts_where_there_is_a_fabric() -> None:
    view = builders.host(replace(builders.gpu(), fabric=True))
    failed = Unit(name="nvidia-fabricmanager", active="failed", file="enabled")
    assert [one.kind for one in services.units(case(replace(HEALTHY, units=(failed,)), view))] == ["unit"]


@pytest.mark.parametrize("active", ["active", "inactive"])
def test_the_default_of_libvirt_guests_counts_where_it_runs(active: str) -> None:
    symptoms = replace(
        HEALTHY,
        on_shutdown=OnShutdown(path="/usr/libexec/libvirt-guests.sh", action="suspend"),
        units=(Unit(name="libvirt-guests", active=active, file="enabled"),),
    )
    assert [one.certainty for one in libvirt.saves_guests(case(symptoms))] == ["likely"] * (active == "active")


@pytest.mark.parametrize(("pci_id", "severity"), [("10de:2235", "critical"), ("10de:128b", "notice")])
@pytest.mark.parametrize("bound_to", ["nouveau", None])
def test_the_console_of_a_host_may_have_any_driver(pci_id: str, severity: str, bound_to: str | None) -> None:
    (one,) = driver.bound(case(Symptoms(functions=(replace(function(), pci_id=pci_id, driver=bound_to),))))
    assert one.severity == severity


def test_one_mdev_for_two_vms_is_named() -> None:
    first = builders.attached(builders.host(builders.gpu()))
    both = builders.attached(first, "vm02")
    assert not [*claims.twice(case(view=both))]
    device = builders.claim_of(both).binding

    def same(claim: Claim) -> Claim:
        return replace(claim, binding=device)

    (one,) = claims.twice(case(view=builders.change_claim(both, same, "vm02")))
    assert one.command == "vgpumgr detach vm02 --on kvm01"


@pytest.mark.parametrize(
    ("states", "ill"),
    [
        (["Unlicensed (Unrestricted)", "Licensed"], False),
        (["Unlicensed (Unrestricted)"], False),
        (["Licensed", "Unlicensed (Restricted)"], True),
        (["Unlicensed (Restricted)", "Licensed"], False),
    ],
)
def test_a_guest_is_unlicensed_by_the_last_that_its_plugin_logged(states: list[str], ill: bool) -> None:
    lines = [f"nvidia-vgpu-mgr[4260]: notice: vmiop_log: (0x0): vGPU license state: {state}" for state in states]
    other = "nvidia-vgpu-mgr[77]: notice: vmiop_log: (0x0): vGPU license state: Licensed"
    found = [one.what for one in driver.unlicensed(case(replace(HEALTHY, log=(*lines, other))))]
    assert found == (["a guest of kvm01 has no licence (its nvidia-vgpu-mgr has pid 4260)"] if ill else [])


def test_an_mdev_on_two_hosts_is_a_doubt_that_says_who_runs_with_it() -> None:
    here = builders.attached(builders.host(builders.gpu()))
    there = replace(here, snapshot=replace(here.snapshot, host=HostName("kvm02")))
    alone = case(view=here)
    assert diagnosis.of_fleet([(alone, ()), (case(), ())]) == ((), ())
    shown = diagnosis.of_fleet([(alone, ()), (case(view=builders.running(there)), ())])
    assert [[one.kind for one in found] for found in shown] == [[], ["uuid-on-two-hosts"]]
    (one,) = shown[1]
    assert "is on kvm01 and kvm02: vm01 runs with it on kvm02" in one.what
    assert not one.is_wrong


@pytest.mark.parametrize(
    ("ahead_s", "said"), [(60, None), (61, "61 s ahead of"), (-60, None), (-3600, "3600 s behind")]
)
def test_a_clock_more_than_a_minute_off_is_told(ahead_s: float, said: str | None) -> None:
    found = [one.what for one in services.clock(replace(case(), ahead_s=ahead_s))]
    assert found == ([] if said is None else [f"the clock of kvm01 is {said} the controller's"])


@pytest.mark.parametrize(("was", "now"), [(MDEV_VF, VENDOR_VFIO), (VENDOR_VFIO, MDEV_VF)])
def test_a_claim_of_the_other_framework_is_named(was: FrameworkName, now: FrameworkName) -> None:
    before = builders.attached(builders.host_of(was))
    gpus = tuple(replace(gpu, framework=now) for gpu in before.snapshot.gpus)
    assert not [*claims.other_framework(case(view=before))]
    after = replace(before, snapshot=replace(before.snapshot, gpus=gpus))
    (one,) = claims.other_framework(case(view=after))
    assert (one.vm, one.severity) == (before.domains[0].name, "critical")


@pytest.mark.parametrize("capture", captures(), ids=str)
def test_no_captured_host_is_ill(capture: Capture, tmp_path: Path) -> None:
    """What real hosts showed is no illness by itself."""
    root = build(capture, tmp_path).root
    facts = Asker(Server(root, nvml=no_nvml).answer).ask("observe", wait_s=0)["ok"]
    one = Case(
        facts=snapshot_facts.parse(builders.HOST, facts, CATALOGUE),
        symptoms=symptom_facts.parse(read_symptoms(Root(root))),
        installation=INSTALLED,
        catalogue=CATALOGUE,
        domains=(),
    )
    assert [illness for rule in diagnosis.RULES for illness in rule(one)] == []


def test_of_the_drivers_log_the_newest_line_of_each_lasting_meaning_is_told() -> None:
    """Not why one step was refused, nor a line that nobody knows."""
    xid = "kernel: NVRM: Xid (PCI:0000:41:00): 79, pid={}, GPU has fallen off the bus."
    refused = "kernel: NVRM: Failed to add vgpu create request: 0x56"
    log = (xid.format(1), refused, xid.format(2), "kernel: NVRM: loading NVIDIA UNIX")
    (found,) = driver.logged(case(replace(HEALTHY, log=log)))
    assert (found.kind, found.evidence, found.certainty) == ("logged", xid.format(2), "likely")
    assert "fallen off the bus" in found.what
