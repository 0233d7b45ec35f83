"""DESIRED state: what an Ansible inventory declares, from plain data with locations. Pure; inventory_files reads the files."""

from __future__ import annotations

from vgpumgr.core.inventory.build import Sources, build_inventory
from vgpumgr.core.inventory.located import Location, Member, SourceFile, Value
from vgpumgr.core.inventory.model import (
    GpuDeclaration,
    HostDeclaration,
    Inventory,
    SchedulerDeclaration,
    SlotDeclaration,
    VmDeclaration,
)
from vgpumgr.core.inventory.report import Finding, Problem

__all__ = [
    "Finding",
    "GpuDeclaration",
    "HostDeclaration",
    "Inventory",
    "Location",
    "Member",
    "Problem",
    "SchedulerDeclaration",
    "SlotDeclaration",
    "SourceFile",
    "Sources",
    "Value",
    "VmDeclaration",
    "build_inventory",
]
