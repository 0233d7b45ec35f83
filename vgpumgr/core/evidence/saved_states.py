"""Guards against managed-save images and snapshots, of any VM, that name a vGPU: they could bring back a freed one.

An image replaces the definition at its VM's next start, so a device that it names counts as held (view.holders). A
snapshot takes effect only if the user reverts to it: it blocks freeing what it names, but the user can override that.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.commands import virsh
from vgpumgr.core.model.vgpu import Vf
from vgpumgr.core.model.view import Finding
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from vgpumgr.core.model.domain_xml import Domain, Hostdev, SavedStates
    from vgpumgr.core.model.vgpu import Device, LedgerEntry
    from vgpumgr.core.model.view import GoneVm, HostView
    from vgpumgr.names import Slot, VmUuid


# A VF is named by its address, which the next vGPU there will have, too; an mdev's UUID is gone for good.
_AFTER_REVERT = (
    "that name the freed virtual function: after a revert the VM has it in its definition again, and would start with whatever "
    "vGPU is there by then (vgpumgr gives it to no other VM while they name it)"
)


def guard_image(view: HostView, domain: Domain) -> None:
    """Raises SavedImage if the VM has a managed-save image, which holds its own definition."""
    saved = (view.saved or {}).get(domain.uuid)
    if domain.managed_save or (saved is not None and (saved.image is not None or saved.image_problem is not None)):
        raise errors.SavedImage(
            say("{} has a managed-save image, whose definition would replace this one at the next start", domain.name),
            hint=say("start {}, or drop the image: {}", domain.name, virsh("managedsave-remove", domain.name)),
        )


def guard_read(view: HostView) -> None:
    """Raises InUse if images and snapshots were not read: if use cannot be determined, the device counts as in use."""
    if view.saved is None:
        raise errors.InUse(
            "cannot tell whether a managed-save image or a snapshot names the vGPU: they were not read",
            hint="this is a bug in vgpumgr; please report it",
        )


def guard_entries(
    view: HostView, vm: Domain | GoneVm, slot: Slot, entries: Sequence[LedgerEntry], *, keep: bool, way_on: str
) -> list[Finding]:
    """Raises NamedInSnapshot if any VM's snapshot names a vGPU of these entries; with `keep`, returns that as findings.

    `way_on`: the end of a hint, how to override the guard.
    """
    devices = {entry.vgpu.device for entry in entries}
    return guard_snapshots(
        view,
        vm,
        slot,
        lambda _vm, hostdev: hostdev.source in devices,
        among=concerned(view, devices),
        keep=keep,
        way_on=way_on,
    )


def concerned(view: HostView, devices: Collection[Device]) -> set[VmUuid]:
    """The VMs with an image or snapshot that is unreadable or names one of the devices; none without devices."""
    if not devices:
        return set()
    return set(view.states.unreadable).union(*(view.states.naming(device) for device in devices))


def _fate(saved: SavedStates, names_it: Callable[[Hostdev], bool]) -> str:
    matches = [device for _, devices in saved.snapshots for device in devices if names_it(device)]
    by_address = any(isinstance(device.source, Vf) for device in matches)
    return _AFTER_REVERT if by_address else "that name the freed vGPU and can no longer be started"


def guard_snapshots(
    view: HostView,
    domain: Domain | GoneVm,
    slot: Slot,
    names_it: Callable[[VmUuid, Hostdev], bool],
    *,
    among: Collection[VmUuid],
    keep: bool,
    way_on: str,
) -> list[Finding]:
    """Raises NamedInSnapshot if a snapshot names what the VM's slot frees; with `keep`, returns that as findings.

    `names_it(vm, device)`: whether a device in that VM's snapshot is being freed. `among`: the VMs whose snapshots
    count, also unreadable ones. `way_on`: the end of a hint, how to override the guard.
    """
    findings: list[Finding] = []
    states = [(uuid, view.states[uuid]) for uuid in among if uuid in view.states]
    for uuid, saved in sorted(states, key=lambda row: (row[0] != domain.uuid, view.vm_name(row[0]))):
        owner = view.vm_name(uuid)
        snapshots = [name for name, devices in saved.snapshots if any(names_it(uuid, device) for device in devices)]
        if not keep:
            what = say("{} slot {}", domain.name, slot)
            _refuse(saved, owner, snapshots, what, mine=uuid == domain.uuid, way_on=way_on)
            continue
        whose = "" if uuid == domain.uuid else say(" of {}", owner)
        texts = []
        if snapshots:
            fate = _fate(saved, partial(names_it, uuid))
            texts.append(say("snapshots{} {}: {}", whose, fate, ", ".join(snapshots)))
        if saved.snapshots_problem is not None:
            effect = "one that names the freed vGPU can no longer be started"
            texts.append(say("snapshots of {} that could not be read ({}): {}", owner, saved.snapshots_problem, effect))
        own_slot = slot if uuid == domain.uuid else None
        findings += [
            Finding(kind="unusable-snapshot", host=view.snapshot.host, vm=owner, slot=own_slot, text=text)
            for text in texts
        ]
    return findings


def _snapshot(name: str) -> str:
    return f"--snapshotname={name}" if name.startswith("-") else name


def _refuse(saved: SavedStates, owner: str, snapshots: Sequence[str], what: str, *, mine: bool, way_on: str) -> None:
    if snapshots:
        whose = "snapshots" if mine else say("snapshots of {}", owner)
        raise errors.NamedInSnapshot(
            say(
                "{} is named in {} ({}): reverting to one would bring back a device that is gone",
                what,
                whose,
                ", ".join(snapshots),
            ),
            hint=say("{}, or {}", virsh("snapshot-delete", owner, _snapshot(snapshots[0])), way_on),
        )
    if saved.snapshots_problem is not None:
        raise errors.NamedInSnapshot(
            say("the snapshots of {} cannot be read: {}", owner, saved.snapshots_problem),
            hint=say("see `{}` (unreadable snapshots count as in use); or {}", virsh("snapshot-list", owner), way_on),
        )
