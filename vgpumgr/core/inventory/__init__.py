"""DESIRED state: what an Ansible inventory declares, from located plain data. Pure; inventory_files reads the files."""

from __future__ import annotations

from vgpumgr.core.inventory.build import Sources, build_inventory
from vgpumgr.core.inventory.located import Location, Member, SourceFile, Value
from vgpumgr.core.inventory.model import (
    BoardDeclaration,
    GpuDeclaration,
    HostDeclaration,
    Inventory,
    OfGpus,
    ReservationDeclaration,
    SchedulerDeclaration,
    SlotDeclaration,
    VmDeclaration,
)
from vgpumgr.core.inventory.report import Finding, Problem

__all__ = [
    "BoardDeclaration",
    "Finding",
    "GpuDeclaration",
    "HostDeclaration",
    "Inventory",
    "Location",
    "Member",
    "OfGpus",
    "Problem",
    "ReservationDeclaration",
    "SchedulerDeclaration",
    "SlotDeclaration",
    "SourceFile",
    "Sources",
    "Value",
    "VmDeclaration",
    "build_inventory",
]
