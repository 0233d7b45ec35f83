"""Declarations that no host can serve, as far as that is known without asking one. Findings only: NVIDIA's list may be older than a driver.

Only `inventory check` asks: every other command learns it from the hosts, and need not read the list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver.profiles import ByFgpu, ByProfile
from vgpumgr.core.inventory.report import Finding
from vgpumgr.names import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.inventory.model import HostDeclaration, Inventory


def findings(inventory: Inventory, catalogue: Catalogue) -> tuple[Finding, ...]:
    """One for each such slot; a slot that several hosts share through a group is told once."""
    listed: dict[Profile, str | None] = {}
    found = (finding for host in inventory.hosts.values() for finding in _of_host(host, catalogue, listed))
    return tuple(dict.fromkeys(found))


def _of_host(host: HostDeclaration, catalogue: Catalogue, listed: dict[Profile, str | None]) -> Iterator[Finding]:
    for vm in host.vms.values():
        for slot in vm.slots.values():
            what = f"slot {slot.slot!r} of VM {vm.name!r}"
            match slot.wish:
                case ByProfile(profile=profile):
                    if profile not in listed:
                        listed[profile] = _unlisted(profile, catalogue)
                    why = listed[profile]
                    if why is not None:
                        yield Finding(where=slot.where, text=f"{what}: {why}")
                case ByFgpu() if not host.fgpu_per_gpu:
                    text = f"{what} asks for fgpu, and vgpumgr_fgpu_per_gpu is not set for {host.name}"
                    yield Finding(where=slot.where, text=text)
                case _:
                    pass


def _unlisted(profile: Profile, catalogue: Catalogue) -> str | None:
    """What is wrong with a profile; None if NVIDIA lists it."""
    if catalogue.names_type(profile):
        return None
    names = {row.name.short if profile.board is None else row.name.text for row in catalogue.types}
    like = nearest(profile.text, names, typos=False)
    return f"NVIDIA's list of vGPU types has no {profile.text} for any board" + (
        f"; did you mean {like}?" if like else ""
    )
