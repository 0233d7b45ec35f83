"""A file of VMs for one command: what `vgpumgr_vms` holds in an inventory, by itself or under that name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vgpumgr.core.inventory import asks

if TYPE_CHECKING:
    from vgpumgr.core.inventory.located import Value
    from vgpumgr.core.inventory.model import VmDeclaration
    from vgpumgr.core.inventory.report import Report
    from vgpumgr.names import VmName

_VARIABLE = "vgpumgr_vms"
_EXAMPLE = "for example vm02: {vgpu0: {profile: 4Q}}"


def read_vms_file(content: Value, report: Report) -> dict[VmName, VmDeclaration]:
    """The file's VMs by name. Unlike in an inventory, each must have a slot: an empty VM would ask for nothing."""
    if content.data is None or content.data == {}:
        report.problem(content.where, "the file names no VM", _EXAMPLE)
        return {}
    value = content
    if isinstance(content.data, Mapping) and _VARIABLE in content.data:
        value = content.data[_VARIABLE].value
        for name, member in content.data.items():
            if name != _VARIABLE:
                hint = f"a file of VMs has {_VARIABLE} alone, or only what it holds"
                report.problem(member.where, f"unknown key {name!r} beside {_VARIABLE}", hint)
    vms = asks.read_vms(value, report)
    if report.problems():
        return vms
    if not vms:
        report.problem(value.where, "the file names no VM", _EXAMPLE)
    for vm in vms.values():
        if vm.owner is not None:
            report.problem(vm.where, f"VM {vm.name!r} has an owner", "an owner stands in the inventory")
        if not vm.slots:
            report.problem(vm.where, f"VM {vm.name!r} has no slot", f"write {vm.name}: {{vgpu0: {{profile: 4Q}}}}")
    return vms
