"""What keeps a VM from starting with a vGPU is refused before anything is made; what only may is a finding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.model.guest import Guest
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.core.reconcile import host_plan
from vgpumgr.core.reconcile.tasks import Author
from vgpumgr.core.report import findings
from vgpumgr.core.slot import attach

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.snapshot import FrameworkName
    from vgpumgr.core.model.view import HostView

EVERY_FRAMEWORK = pytest.mark.parametrize("framework", [name for name, _ in builders.FRAMEWORKS])
GIB = 1024 * 1024
OTHERWISE = "--even-if-it-will-not-start attaches anyway (in an inventory: vgpumgr_even_if_it_will_not_start: true)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A host on which vm01 cannot start with a vGPU, and what the refusal says."""

    frameworks: tuple[FrameworkName, ...]
    spoilt: Callable[[HostView], HostView]
    why: str
    fix: str


def parents(view: HostView, change: Callable[[Parent], Parent]) -> HostView:
    return builders.change_gpus(view, lambda gpu: replace(gpu, parents=tuple(map(change, gpu.parents))))


def vfio(view: HostView, *, there: bool | None) -> HostView:
    return replace(view, snapshot=replace(view.snapshot, vfio=there))


def guest(view: HostView, **said: int | bool | None) -> HostView:
    facts = {"memory_kib": 4 * GIB, "hard_limit_kib": None, "efi": True, **said}
    return builders.change_domain(view, "vm01", lambda found: replace(found, guest=Guest(**facts)))  # type: ignore[arg-type]  # each has its field's type


ALL: tuple[FrameworkName, ...] = (MDEV_PF, MDEV_VF, VENDOR_VFIO)
CASES = {
    "libvirt": Case(
        frameworks=(VENDOR_VFIO,),
        spoilt=lambda view: replace(view, libvirt_version=9_006_012),
        why="on libvirt 9.6.12, needs 9.7 or newer: older ones refuse a virtual function that stays bound to nvidia",
        fix="upgrade kvm01 to libvirt 9.7 and Linux 6.1 or newer",
    ),
    "kernel": Case(
        frameworks=(VENDOR_VFIO,),
        spoilt=lambda view: parents(view, lambda parent: replace(parent, vfio_dev=False)),
        why="on this kernel: 0000:41:00.4 has no vfio-dev directory, by which libvirt knows that a virtual function may stay "
        "bound to nvidia (Linux 6.1 and newer make it)",
        fix="upgrade kvm01 to libvirt 9.7 and Linux 6.1 or newer",
    ),
    "IOMMU": Case(
        frameworks=(VENDOR_VFIO,),
        spoilt=lambda view: parents(view, lambda parent: replace(parent, iommu_group=False)),
        why="with 0000:41:00.4: it has no IOMMU group, so the host's IOMMU is off",
        fix="turn it on in the firmware of kvm01 and on its kernel command line (intel_iommu=on; AMD: on by default), and reboot",
    ),
    "VFIO": Case(
        frameworks=ALL,
        spoilt=lambda view: vfio(view, there=False),
        why="on this host: it has no /dev/vfio/vfio, without which libvirt starts no VM with a vGPU",
        fix="load VFIO on kvm01 (modprobe vfio-pci)",
    ),
    "memtune": Case(
        frameworks=(VENDOR_VFIO,),
        spoilt=lambda view: guest(view, hard_limit_kib=65536),
        why="with its <memtune>: a hard_limit of 65536 KiB does not let VFIO lock its 4194304 KiB of memory",
        fix="set the hard_limit of vm01 to at least 5242880 KiB, or remove it (`virsh edit`)",
    ),
}
TABLE = pytest.mark.parametrize(
    ("name", "framework"), [(name, framework) for name, case in CASES.items() for framework in case.frameworks]
)


@TABLE
def test_what_cannot_start_is_refused_before_anything_is_made(name: str, framework: FrameworkName) -> None:
    case = CASES[name]
    with pytest.raises(errors.WillNotStart) as caught:
        builders.plan_attach(case.spoilt(builders.host_of(framework)))
    error = caught.value
    assert (error.exit_code, error.outcome, error.details) == (5, errors.Outcome.REFUSED, ())
    assert error.message == f"vm01 would not start {case.why}; nothing was created"
    assert error.hint == f"{case.fix}; {OTHERWISE}"


@TABLE
@pytest.mark.parametrize("where", ["option", "inventory"])
def test_whoever_wants_it_gets_it_with_a_finding_that_stays(name: str, framework: FrameworkName, where: str) -> None:
    view = replace(CASES[name].spoilt(builders.host_of(framework)), even_if_it_will_not_start=where == "inventory")
    plan = attach.plan_attach(view, replace(builders.ask(), even_if_it_will_not_start=where == "option"))
    told = [(one.kind, one.vm, one.slot, one.text) for one in plan.findings]
    assert told == [("will-not-start", "vm01", "vgpu0", f"vm01 will not start {CASES[name].why}")]
    after = simulate.apply(view, plan.steps)
    assert [one.text for one in findings.of_host(after)] == [told[0][3]]
    for later in (after, builders.rebooted(after)):
        again = builders.plan_attach(replace(later, even_if_it_will_not_start=False))
        assert [one.text for one in again.findings] == [told[0][3]], (
            "it is said again, and not refused, once it is there"
        )


@TABLE
def test_reconcile_refuses_that_vm_and_serves_the_others(name: str, framework: FrameworkName) -> None:
    view = CASES[name].spoilt(builders.host_of(framework))
    plan = host_plan.plan_host(view, declares(vm01="4Q", vm02="4Q"), Author(by=builders.BY, at=builders.AT))
    refused = {one.task.vm: one.refused for one in plan.tasks if one.refused is not None}
    assert all(isinstance(error, errors.WillNotStart) for error in refused.values())
    assert set(refused) == ({"vm01"} if name == "memtune" else {"vm01", "vm02"})


def test_all_that_is_in_the_way_is_told_at_once() -> None:
    view = CASES["libvirt"].spoilt(CASES["memtune"].spoilt(builders.host_of(VENDOR_VFIO)))
    with pytest.raises(errors.WillNotStart) as caught:
        builders.plan_attach(view)
    assert "on libvirt 9.6.12" in caught.value.message
    (other,) = caught.value.details
    assert other == f"it would not start {CASES['memtune'].why}: {CASES['memtune'].fix}"


@EVERY_FRAMEWORK
def test_what_is_not_known_is_not_held_against_a_vm(framework: FrameworkName) -> None:
    """Facts that could not be read: the host program reports them as unknown, and the attach goes on."""
    view = parents(builders.host_of(framework), lambda parent: replace(parent, vfio_dev=None, iommu_group=None))
    view = guest(vfio(view, there=None), memory_kib=None, hard_limit_kib=1)
    assert builders.plan_attach(view).findings == ()


@EVERY_FRAMEWORK
@pytest.mark.parametrize(
    ("hard_limit", "doubtful"), [(None, False), (5 * GIB, False), (5 * GIB - 1, True), (4 * GIB, True)]
)
def test_a_hard_limit_needs_the_memory_and_one_gib(
    framework: FrameworkName, hard_limit: int | None, *, doubtful: bool
) -> None:
    plan = builders.plan_attach(guest(builders.host_of(framework), hard_limit_kib=hard_limit))
    assert [one.kind for one in plan.findings] == (["may-not-start"] if doubtful else [])


@pytest.mark.parametrize(("framework", "version"), [(VENDOR_VFIO, 9_007_000), (MDEV_VF, 9_000_000)])
def test_libvirt_9_7_starts_it_and_an_mdev_needs_no_such_libvirt(framework: FrameworkName, version: int) -> None:
    assert builders.plan_attach(replace(builders.host_of(framework), libvirt_version=version)).findings == ()


def test_an_mdev_pins_what_its_guest_uses_so_a_small_limit_is_a_doubt_only() -> None:
    plan = builders.plan_attach(guest(builders.host_of(MDEV_VF), hard_limit_kib=65536))
    (finding,) = plan.findings
    assert finding.text == (
        "the <memtune> hard_limit of vm01 is 65536 KiB: less than its memory and the 1 GiB that libvirt leaves for VFIO by "
        "itself; set the hard_limit of vm01 to at least 5242880 KiB, or remove it (`virsh edit`)"
    )


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("4Q", "4Q", ""),
        ("4C", "4C", ""),
        (
            "4Q",
            "4C",
            "A40-4C beside A40-4Q (slot vgpu0) in vm01: NVIDIA supports several vGPUs in a VM only if all are of one",
        ),
        (
            "4A",
            "4A",
            "A40-4A beside A40-4A (slot vgpu0) in vm01: NVIDIA supports several vGPUs in a VM only of the series Q",
        ),
    ],
)
def test_kinds_that_may_not_share_a_vm_are_a_finding(first: str, second: str, told: str) -> None:
    view = guest(builders.attached(builders.host_of(MDEV_VF), profile=first))
    texts = [one.text for one in builders.plan_attach(view, profile=second, slot="vgpu1").findings]
    assert len(texts) == (1 if told else 0)
    assert all(text.startswith(told) for text in texts)


@pytest.mark.parametrize(
    ("efi", "profile", "doubtful"),
    [(True, "48C", False), (False, "48C", True), (False, "24C", False), (False, "48Q", False)],
)
def test_a_large_bar_behind_seabios_is_a_finding(profile: str, *, efi: bool, doubtful: bool) -> None:
    plan = builders.plan_attach(guest(builders.host_of(MDEV_VF), efi=efi), profile=profile)
    assert ["boots by SeaBIOS" in one.text for one in plan.findings] == ([True] if doubtful else [])
