"""A GPU that a VM has whole is no place for a vGPU, wherever that is written down (found: field-files F1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance import near
from tests.acceptance.near import document
from tests.model.fleet import vm_uuid
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO

if TYPE_CHECKING:
    from tests.acceptance.near import Near, Sites

BOARDS = {MDEV_PF: "T4", MDEV_VF: "A40", VENDOR_VFIO: "L40S"}
GPU, OTHER = "0000:41:00.0", "0000:81:00.0"
QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
WHOLE = (
    "<hostdev mode='subsystem' type='pci' managed='yes'>"
    "<source><address domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' function='0x{function}'/></source></hostdev>"
)


@pytest.fixture(params=BOARDS)
def one(request: pytest.FixtureRequest, near_site: Sites) -> Near:
    framework = str(request.param)
    spec = near.NearHost(vms=("vm01", "vm02", "whole01"), board=BOARDS[framework], framework=framework, vfs=3)
    return near_site({"kvm01": spec})


def pass_through(one: Near, vm: str, *addresses: str) -> None:
    """Write the functions into the VM's definition, as somebody does who gave it the GPU before."""
    double = one.machines["kvm01"].libvirt.vms[vm_uuid("kvm01", vm)]
    for address in addresses:
        if "=" in address:
            argument = f"<q:commandline><q:arg value='-device'/><q:arg value='{address}'/></q:commandline></domain>"
            double.inactive = double.inactive.replace("</domain>", argument).replace(
                "<domain ", f"<domain xmlns:q='{QEMU}' ", 1
            )
            continue
        domain, bus, rest = address.split(":")
        slot, function = rest.split(".")
        hostdev = WHOLE.format(domain=domain, bus=bus, slot=slot, function=function)
        double.inactive = double.inactive.replace("</devices>", hostdev + "</devices>")


@pytest.mark.parametrize("function", ["0000:41:00.0", "0000:41:00.1", "vfio-pci,host=41:00.0,id=gpu"])
def test_no_vgpu_is_made_on_a_gpu_that_a_definition_passes_through(one: Near, function: str) -> None:
    """Neither by attach nor by several, nor for that VM itself; capacity and explain say which VM has it."""
    pass_through(one, "whole01", function)
    where = "the QEMU arguments of whole01" if "=" in function else "the definition of whole01"
    document(one, "attach", "vm01", "vm02", "--profile", "4Q")
    assert {place.gpu for place in one.machines["kvm01"].hardware()} == {one.machines["kvm01"].gpus()[1].uuid}
    for vm in ("vm01", "whole01"):
        done = one.run("attach", vm, "--slot", "vgpu1", "--profile", "4Q", "--gpu-id", GPU)
        assert (done.returncode, "passed through" in done.stderr, where in done.stderr) == (5, True, True)
    assert where in one.run("capacity", "4Q", "--on", "kvm01").stdout
    assert where in one.run("explain", "--profile", "4Q", "--on", "kvm01").stdout


def test_where_vgpus_and_a_passed_through_gpu_meet_there_is_a_finding(one: Near) -> None:
    document(one, "attach", "vm01", "--profile", "4Q", "--gpu-id", GPU)
    pass_through(one, "whole01", GPU)
    for command in ("list", "plan", "discover"):
        told = one.run(command).stderr
        assert f"{GPU} is in the definition of whole01, and the vGPUs of vm01 are on GPU {GPU}" in told, command
    pass_through(one, "vm02", OTHER)
    assert OTHER not in one.run("list").stderr


def test_a_vgpu_that_another_vms_qemu_arguments_name_is_not_removed(one: Near) -> None:
    document(one, "attach", "vm01", "--profile", "4Q")
    (device,) = (str(row.source) for row in one.machines["kvm01"].libvirt.vms[vm_uuid("kvm01", "vm01")].hostdevs())
    pass_through(one, "vm02", f"vfio-pci,sysfsdev=/sys/bus/{'pci' if ':' in device else 'mdev'}/devices/{device}")
    done = one.run("detach", "vm01", "--yes")
    assert (done.returncode, "VM vm02 has it in its QEMU arguments" in done.stderr) == (5, True)
    assert "take it out of its <qemu:commandline> (`virsh edit vm02`" in done.stderr
