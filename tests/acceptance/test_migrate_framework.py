"""migrate-framework: after another kernel each VM has the same vGPU on the same GPU, as that kernel makes it, and back again."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import near
from tests.acceptance.near import document
from tests.model.fleet import vm_uuid
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO
from vgpumgr.host.protocol.session import TOOL_REFUSED
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.steps.executor import Executor
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.upgrade import Upgrade

if TYPE_CHECKING:
    from tests.acceptance.near import Near, Sites

VMS = tuple(f"vm{number:02}" for number in range(1, 6))
KEPT = ("vm_name", "slot", "gpu_uuid", "vf_index", "type_name")
MIGRATE = ("migrate-framework", "kvm01")


@pytest.fixture
def one(near_site: Sites) -> Near:
    """vm01 has two vGPUs, vm02 one by its amount, with its plugin's parameters; vm03's is declared."""
    host = near_site({"kvm01": near.NearHost(vms=VMS, vfs=4)})
    host.declare("kvm01", vgpumgr_vms={"vm03": {"vgpu0": {"profile": "8Q"}}})
    document(host, "attach", "vm01", "--profile", "4Q", "--count", "2")
    document(host, "attach", "vm02", "--gpu-memory", "4G", "--param", "frame_rate_limiter=0")
    document(host, "attach", "vm03", "--profile", "8Q")
    return host


def boots(host: Near, framework: str, *, renumber: bool = False) -> None:
    host.machines["kvm01"].reboot(Upgrade(framework=framework, renumber=renumber))


def entries(host: Near) -> list[tuple[object, ...]]:
    """What has to be the same of each vGPU."""
    return sorted(tuple(row[key] for key in KEPT) for row in host.machines["kvm01"].ledger())


def params(host: Near) -> dict[str, str]:
    """VM → its vGPU's parameters, as the driver has them."""
    machine = host.machines["kvm01"]
    there = {place.uuid or (place.gpu, place.vf): vgpu.params for place, vgpu in machine.hardware().items()}
    return {row["vm_name"]: there[row["uuid"] or (row["gpu_uuid"], row["vf_index"])] for row in machine.ledger()}


def claims(host: Near) -> list[object]:
    """What each claim says beside its binding and generation."""
    left = ("uuid", "parent", "type_id", "generation", "vf", "binding")
    vms = [document(host, "show", vm)["vm"]["claims"] for vm in VMS[:3]]
    return [{key: value for key, value in claim.items() if key not in left} for vm in vms for claim in vm]


def definitions(host: Near) -> list[tuple[str, int, int]]:
    """How many mdevs and how many functions each definition has."""
    found = ((vm, host.xml("kvm01", vm)) for vm in VMS)
    return [(vm, xml.count("type='mdev'") + xml.count('type="mdev"'), xml.count("<hostdev")) for vm, xml in found]


def test_each_slot_has_the_same_again_under_the_other_framework_and_back(one: Near) -> None:
    """Also if the new driver gives the types other ids. What it was asked for, by whom and when stays in the claim."""
    before, said = entries(one), claims(one)
    for framework, mdevs in ((VENDOR_VFIO, 0), (MDEV_VF, 1)):
        boots(one, framework, renumber=True)
        assert "`vgpumgr migrate-framework kvm01` re-creates each" in one.run("doctor").stdout
        assert "`vgpumgr migrate-framework kvm01` makes it again" in one.run("list").stderr
        trace = one.trace("kvm01")
        assert document(one, *MIGRATE, "--check", code=3)["changed"]
        assert one.trace("kvm01") == trace
        document(one, *MIGRATE, "--yes")
        assert (entries(one), claims(one)) == (before, said)
        assert definitions(one) == [
            ("vm01", 2 * mdevs, 2),
            ("vm02", mdevs, 1),
            ("vm03", mdevs, 1),
            *((vm, 0, 0) for vm in VMS[3:]),
        ]
        assert params(one)["vm02"] == "frame_rate_limiter=0"
        again = one.run(*MIGRATE)
        assert (again.returncode, again.stdout) == (
            0,
            "kvm01: every vGPU of vgpumgr has the framework of its GPU. Nothing to do.\n",
        )
        document(one, "plan")


def refused(host: Near, *said: str) -> None:
    """None of the host's slots is touched, and the message says all of this."""
    trace = host.trace("kvm01")
    done = host.run(*MIGRATE, "--yes")
    assert (done.returncode, host.trace("kvm01")) == (5, trace), done.stderr
    for text in said:
        assert text in done.stderr


def test_nothing_is_changed_where_a_vm_runs_or_has_a_saved_image_and_each_is_named(one: Near) -> None:
    boots(one, VENDOR_VFIO)
    for vm in ("vm01", "vm03"):
        found = one.machines["kvm01"].libvirt.vms[vm_uuid("kvm01", vm)]
        found.live = found.inactive
    saved = one.machines["kvm01"].libvirt.vms[vm_uuid("kvm01", "vm02")]
    saved.image = saved.inactive
    refused(one, "managed-save image", "vm01 runs, so its vGPU stays where it is", "vm03 runs", "shut it down first")


def test_nothing_is_changed_where_a_type_is_gone_and_the_nearest_of_its_series_is_named(one: Near) -> None:
    boots(one, VENDOR_VFIO)
    machine = one.machines["kvm01"]
    for gpu in machine.gpus():
        gpu.board = replace(gpu.board, types=tuple(kind for kind in gpu.board.types if "-8Q" not in kind.name))
    machine.reboot()
    refused(
        one, "A40-8Q, which vm03 slot vgpu0 had, is not offered any more", "; A40-6Q is", "vm01 vgpu0: others of kvm01"
    )


def test_nothing_is_changed_where_not_all_find_room_on_their_gpus(one: Near) -> None:
    """Somebody has an 8Q where our 4Q were: a GPU takes one size."""
    boots(one, VENDOR_VFIO)
    machine = one.machines["kvm01"]
    gpu = machine.gpus()[0]
    large = next(kind.id for kind in gpu.board.types if kind.name.endswith("A40-8Q"))
    machine.driver.set_vf_type(vf_pci(gpu, 3), large)
    machine.show()
    refused(one, "equal-size mode takes only 8 GiB types", "vm03 vgpu0: others of kvm01 cannot be migrated")


def test_what_no_vm_claims_is_freed_and_cordons_and_reservations_hold(one: Near) -> None:
    """One VM is gone, one has lost its claim, one is half detached. A cordon keeps away what is new, not what was there."""
    machine = one.machines["kvm01"]
    document(one, "attach", "vm04", "vm05", "--profile", "8Q")
    document(one, "reserve", "--profile", "8Q", "--name", "team", "--for", "2h")
    function = next(row["parent"] for row in machine.ledger() if row["vm_name"] == "vm03")
    document(one, "cordon", "kvm01", "--vf", function, "--reason", "its VMs fail")
    document(one, "cordon", "kvm01", "--reason", "another kernel")
    boots(one, VENDOR_VFIO)
    vms = machine.libvirt.vms
    vms.pop(vm_uuid("kvm01", "vm05"))
    without = vms[vm_uuid("kvm01", "vm04")]
    without.inactive = re.sub(r"<metadata>.*</metadata>", "", without.inactive, flags=re.DOTALL)
    leaving = vms[vm_uuid("kvm01", "vm01")]
    leaving.inactive = leaving.inactive.replace('state="bound"', 'state="leaving"', 1)
    snapped = vms[vm_uuid("kvm01", "vm03")]
    snapped.snapshots = [("monday", snapped.inactive)]
    planned = one.run(*MIGRATE, "--check")
    assert "can no longer be started: monday" in planned.stderr
    for why in ("vm05 vgpu0, its VM is gone", "vm04 vgpu0, no claim of its VM wants it", "vgpu0, its detach has begun"):
        assert why in planned.stdout
    document(one, *MIGRATE, "--yes")
    assert [(row["vm_name"], row["slot"]) for row in machine.ledger()] == [
        ("vm01", "vgpu1"),
        ("vm02", "vgpu0"),
        ("vm03", "vgpu0"),
    ]
    assert next(row["parent"] for row in machine.ledger() if row["vm_name"] == "vm03") == function
    assert "its VMs fail" in one.run("cordon").stdout
    document(one, "uncordon", "kvm01")
    document(one, "attach", "vm04", "--profile", "8Q", "--reservation", "team")


def test_a_slot_whose_step_is_refused_is_as_it_was_and_the_same_command_goes_on(
    one: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By libvirt, after its vGPU was made: that one goes again, and the others are done."""
    boots(one, VENDOR_VFIO)
    machine, vm = one.machines["kvm01"], vm_uuid("kvm01", "vm02")
    before = [row for row in machine.ledger() if row["vm_name"] == "vm02"], one.xml("kvm01", "vm02")
    real = Executor.execute

    def execute(self: Executor, step: Any, deadline_s: float) -> Any:
        if step["verb"] == "attach_device" and step["vm_uuid"] == vm and "type='pci'" in step["xml"]:
            raise Refusal(TOOL_REFUSED, "refused by the test", command="/usr/bin/test", status=1, output="")
        return real(self, step, deadline_s)

    monkeypatch.setattr(Executor, "execute", execute)
    done = one.run(*MIGRATE, "--yes")
    assert (done.returncode, "the steps before it are undone" in done.stderr) == (1, True), done.stderr
    assert before == ([row for row in machine.ledger() if row["vm_name"] == "vm02"], one.xml("kvm01", "vm02"))
    assert sorted(row["vm_name"] for row in machine.ledger() if row["uuid"] is None) == ["vm01", "vm01", "vm03"]
    monkeypatch.setattr(Executor, "execute", real)
    document(one, *MIGRATE, "--yes")
    document(one, "plan")
