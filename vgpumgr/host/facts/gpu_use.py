"""Whether anything uses a GPU. This must be certain before a setting of the whole GPU is changed."""

from typing import List, NamedTuple, Optional

from ..files import Root
from ..protocol.gpu import GpuFact
from ..protocol.session import IN_USE, NOT_YET
from ..protocol.snapshot import ActiveFact, Snapshot
from ..refusal import Refusal
from .vfio import Unreadable, open_handles


class Place(NamedTuple):
    """A vGPU on the GPU: its description, the VM that owns it if it is ours, and its /dev/vfio paths."""

    what: str
    owner: Optional[str]
    paths: List[str]


def places_on(gpu: GpuFact, snapshot: Snapshot) -> List[Place]:
    """Every vGPU on the GPU, ours or not."""
    owners = {
        (entry["parent"], entry["uuid"]): entry["vm_name"]
        for entry in snapshot["ledger"] or []
        if entry["gpu_uuid"] == gpu["uuid"]
    }
    return [
        Place(
            what="{} on {}".format(vgpu["type_name"] or "a vGPU", parent["pci"]),
            owner=owners.get((parent["pci"], vgpu["uuid"])),
            paths=vgpu["vfio"],
        )
        for parent in gpu["parents"]
        for vgpu in parent["vgpus"]
    ]


def _name(row: ActiveFact) -> Optional[str]:
    return row["vm_name"] or row["vm_uuid"]


class GpuUse:
    """Refuses if the GPU is in use, or if that is unknown."""

    def __init__(self, root: Root, gpu: GpuFact, snapshot: Snapshot) -> None:
        self._root = root
        self._pci = gpu["pci"]
        self._places = places_on(gpu, snapshot)

    def refuse_running(self, snapshot: Snapshot) -> None:
        """Check NVML's list in `snapshot`. Raises Refusal: InUse, or NotYet if it lists only VMs that have ended."""
        rows = [row for row in snapshot["active"] or [] if row["gpu"] == self._pci]
        if rows and all(self._is_ending(row, snapshot) for row in rows):
            raise self._not_yet([_name(row) or "?" for row in rows])
        lines = ["{} runs on it".format(_name(row) or "a VM") for row in rows]
        why = self._why_untold(snapshot) if self._places else None
        if why is not None:
            lines.append("cannot tell what runs on it: {}".format(why))
        self._refuse([row["vm_name"] for row in rows], lines, "")

    def _why_untold(self, snapshot: Snapshot) -> Optional[str]:
        if snapshot["active"] is None:
            return "; ".join(row["why"] for row in snapshot["unknown"] if row["what"] == "active")
        return snapshot["silent"].get(self._pci)

    def _not_yet(self, names: List[str]) -> Refusal:
        listed = "NVML lists a vGPU there as active for VM {}, whose QEMU is gone or ending"
        message = "GPU {} may still be in use by {}".format(self._pci, ", ".join(names))
        return Refusal(NOT_YET, message, vm=names[0], waits_for=[listed.format(name) for name in names])

    def _is_ending(self, row: ActiveFact, snapshot: Snapshot) -> bool:
        """Whether only the plugin of a row's VM is left: no QEMU of it stays, and nothing of this GPU is open."""
        if row["vm_uuid"] is None or snapshot["handles"] is None:
            return False
        stays = any(qemu["vm_uuid"] == row["vm_uuid"] and not qemu["ending"] for qemu in snapshot["qemus"] or [])
        paths = {path for place in self._places for path in place.paths}
        return not stays and not any(handle["path"] in paths for handle in snapshot["handles"])

    def refuse_open(self, but: str = "") -> None:
        """Check the handles that are open now. `but`: text about what was changed before. Raises Refusal(InUse)."""
        names: List[Optional[str]] = []
        lines: List[str] = []
        try:
            handles = open_handles(self._root) if self._places else []
        except Unreadable as error:
            self._refuse([place.owner for place in self._places], ["cannot tell: {}".format(error)], but)
            return
        for place in self._places:
            if not place.paths:
                lines.append("cannot tell about {}: its /dev/vfio paths cannot be read".format(place.what))
                names.append(place.owner)
            for handle in handles:
                if handle["path"] in place.paths:
                    who = handle["vm_name"] or handle["command"]
                    lines.append("{}: open by pid {} ({})".format(place.what, handle["pid"], who))
                    names.append(handle["vm_name"] or place.owner)
        self._refuse(names, lines, but)

    def _refuse(self, names: List[Optional[str]], lines: List[str], but: str) -> None:
        if not lines:
            return
        vm_names = list(dict.fromkeys(name for name in names if name))
        message = "GPU {} is in use{}{}".format(self._pci, " by " + ", ".join(vm_names) if vm_names else "", but)
        raise Refusal(IN_USE, message, vm=vm_names[0] if vm_names else None, holders=list(dict.fromkeys(lines)))
