"""Whether anything can hold a vGPU that is to be removed: the check before the one write that can do harm.

Since Linux 5.14, a write to an mdev's `remove` is never refused: if a process has the device, or the vGPU plugin of its
VM has not ended, the VM's vGPU dies and the driver loses its place for good (NVIDIA's open kernel part 525.85.07, run
on 5.15 over a stub: nv_vgpu_vfio_destroy answers EPERM or, after 250 x 20 ms, EBUSY, and the kernel ignores it). For
some seconds nothing seems to have it: a QEMU that is exiting is in state D with an empty fd table for up to 30 s, and
the plugin (nvidia-vgpu-mgr) ends after it.

So there are two refusals. InUse: something has the vGPU, and only the user can change that. NotYet: what still has it
ends by itself; nothing was written, and the same step must be retried.
"""

import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..facts import mdev, pci, vendor
from ..facts.facts import observe
from ..facts.qemu import is_of
from ..facts.vfio import Unreadable, Users, device_paths, is_plugin, look
from ..files import Root, Unknowns, directory
from ..protocol.gpu import VgpuFact
from ..protocol.session import IN_USE, NOT_YET
from ..protocol.snapshot import ActiveFact, HandleFact
from ..protocol.steps import Step
from ..refusal import Refusal
from ..timing import Timing
from .reservations import place_of

_LOGS = "/var/log/libvirt/qemu"


class Evidence(NamedTuple):
    """The vGPU's holders, one line each: those that last, and those that end by themselves."""

    lasting: List[str]
    passing: List[str]


class RemovalGuard:
    """Refuses to remove a vGPU while anything can hold it. One per session: it remembers when it last saw a holder.

    `clock` never goes back; `wall` is the host's time, like file times; `pause` sleeps.
    """

    def __init__(
        self,
        root: Root,
        load_nvml: Callable[[], Any],
        *,
        timing: Timing,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = root
        self._load_nvml = load_nvml
        self._timing = timing
        self._clock = clock
        self._wall = wall
        self._pause = pause
        self._seen: Optional[float] = None  # when anything was last seen that may hold any vGPU

    def refuse(self, step: Step, found: VgpuFact) -> None:
        """Check before anything is written. Raises Refusal(InUse, NotYet)."""
        self._refuse(step, self._look(step, found))
        end_time = self._ended(step)
        who, since = self._since(step, end_time)
        if step["uuid"] is None:  # a VF's vGPU: the driver refuses, and nothing is lost
            return
        if since is not None and since < self._timing.settle_s:
            text = "{} ended {:.0f} s ago; {:g} s must pass first".format(who, since, self._timing.settle_s)
            raise _not_yet(step, [text])
        if end_time is None:
            self._pause(self._timing.recheck_s)
            self._refuse(step, self._look(step, found))

    def refuse_by_now(self, step: Step, found: VgpuFact) -> None:
        """Check again, as late as possible: a VM may have been started since. Raises Refusal(InUse, NotYet)."""
        self._refuse(step, self._look(step, found))

    def _refuse(self, step: Step, evidence: Evidence) -> None:
        if evidence.lasting:
            message = "{} ({} slot {}) is in use".format(place_of(step), step["vm_name"], step["slot"])
            raise Refusal(IN_USE, message, vm=step["vm_name"], holders=evidence.lasting)
        if evidence.passing:
            self._seen = self._clock()
            raise _not_yet(step, evidence.passing)

    def _look(self, step: Step, vgpu: VgpuFact) -> Evidence:
        if not vgpu["vfio"]:
            return Evidence(["cannot tell: its /dev/vfio paths cannot be read"], [])
        try:
            users = look(self._root)
        except Unreadable as error:
            return Evidence(["cannot tell: {}".format(error)], [])
        lasting, passing = _holding(users, vgpu["vfio"])
        passing += [line for line in _ending(users, step) if line not in passing]
        passing += self._lingering(users)
        if not lasting and not passing and step["listed"]:
            passing += self._listed(step)
        return Evidence(lasting, passing)

    def _lingering(self, users: Users) -> List[str]:
        """All plugins, if they are more than the vGPUs in use: one is left over, maybe of the last VM with this vGPU.

        It is unknown which one, and of which VM: another VM may have had the vGPU since.
        """
        plugins = [handle for handle in users.handles if is_plugin(handle["path"])]
        if not plugins:
            return []
        starts = held_since(users.handles, vgpu_paths(self._root))
        if len(plugins) <= matched(plugins, starts):
            return []
        return [
            "the vGPU plugin of a VM that ended has {} open (pid {}, {})".format(
                each["path"], each["pid"], each["command"]
            )
            for each in plugins
        ]

    def _listed(self, step: Step) -> List[str]:
        """NVML's rows that may be this vGPU. To be called only if the plan was based on such a row."""
        snapshot = observe(self._root, self._load_nvml, only=[step["gpu_uuid"]])
        if snapshot["active"] is None or step["gpu"] in snapshot["silent"]:
            return ["cannot tell: NVML does not say whether it still lists it"]
        rows = [row for row in snapshot["active"] if row["gpu"] == step["gpu"] and _may_be(row, step)]
        return ["NVML lists it as active for VM {}".format(row["vm_name"] or row["vm_uuid"] or "?") for row in rows]

    def _ended(self, step: Step) -> Optional[float]:
        """The latest time at which the VM can have ended: libvirt's last write to its log. None: unknown."""
        name = step["vm_name"]
        if step["runs"] or "/" in name:
            return None
        try:
            at = os.stat(self._root.path("{}/{}.log".format(_LOGS, name))).st_mtime
        except (OSError, ValueError):
            return None
        return at if at <= self._wall() else None  # None: the clock was set back since

    def _since(self, step: Step, end_time: Optional[float]) -> Tuple[str, Optional[float]]:
        """Which possible holder of the vGPU ended last, and how many seconds ago; None: unknown.

        A holder seen during another step counts, too, because it was unknown which vGPU it held.
        """
        its = None if end_time is None else self._wall() - end_time
        age_s = None if self._seen is None else self._clock() - self._seen
        if age_s is None or (its is not None and its <= age_s):
            return step["vm_name"], its
        return "what may have held it", age_s


def _names_one(row: ActiveFact) -> bool:
    """Whether NVML says which vGPU a row is. If not, the VM may run with another one."""
    return row["uuid"] is not None or row["vf"] is not None


def _not_yet(step: Step, lines: Sequence[str]) -> Refusal:
    message = "{} ({} slot {}) may still be held".format(place_of(step), step["vm_name"], step["slot"])
    return Refusal(NOT_YET, message, vm=step["vm_name"], waits_for=list(lines))


def _holding(users: Users, paths: Sequence[str]) -> Tuple[List[str], List[str]]:
    """The processes that have one of the paths open: those that stay, and those that are exiting."""
    ending = {qemu["pid"] for qemu in users.qemus if qemu["ending"]}
    lasting: Dict[str, None] = {}  # a process may have several of its paths open
    passing: Dict[str, None] = {}
    for handle in users.handles:
        if handle["path"] in paths:
            line = "open by pid {} ({})".format(handle["pid"], handle["vm_name"] or handle["command"])
            (passing if handle["pid"] in ending else lasting)[line] = None
    return list(lasting), list(passing)


def _ending(users: Users, step: Step) -> List[str]:
    """The QEMUs that may have the vGPU, with or without descriptors: those that are exiting, and the step's VM's own.

    Another VM may have got the vGPU (by a copied definition), and an exiting QEMU no longer shows what it has. A QEMU
    that is not exiting counts only if it is the step's VM's, and not if that VM is known to run without this vGPU: the
    descriptors of all others show what they have.
    """
    lines: List[str] = []
    for qemu in users.qemus:
        its = is_of(qemu, step["vm_uuid"], step["vm_name"])
        if not qemu["ending"] and (not its or step["runs"]):
            continue
        if its is None:
            whose = "of an unknown VM"
        else:
            whose = "of {}".format(step["vm_name"]) if its else "of another VM, which may have had it,"
        lines.append(
            "a QEMU {} has not ended (pid {}, {}, user {}, state {})".format(
                whose, qemu["pid"], qemu["command"], "?" if qemu["uid"] is None else qemu["uid"], qemu["state"]
            )
        )
    return lines


def vgpu_paths(root: Root) -> List[List[str]]:
    """The /dev/vfio paths of each vGPU on this host. Whatever cannot be read is left out.

    Only these have plugins: another vendor's mdev (Intel's GVT-g), or a VF that is passed through as it is, has none.
    """
    cards = pci.find_cards(root, Unknowns())
    parents = {card.pci for card in cards} | {vf for card in cards for vf in card.vfs.values()}
    devices = ["{}/{}".format(mdev.BUS, each.uuid) for each in _mdevs(root) if each.parent in parents]
    paths: List[List[str]] = []
    for device in devices:
        try:
            with directory(root.path(device)) as folder:
                paths.append(device_paths(folder))
        except OSError:
            continue
    for vf in (vf for card in cards for vf in card.vfs.values()):
        try:
            with directory(root.path("{}/{}".format(pci.DEVICES, vf))) as folder:
                if vendor.read_current(folder) != 0:
                    paths.append(device_paths(folder))
        except (OSError, ValueError):
            continue
    return paths


def _mdevs(root: Root) -> List[mdev.Mdev]:
    try:
        return mdev.find_mdevs(root)
    except OSError:
        return []


def held_since(handles: Sequence[HandleFact], vgpus: Sequence[Sequence[str]]) -> List[int]:
    """For each vGPU that a process has open, when that process was started (clock ticks)."""
    opened = {handle["path"]: handle["start"] for handle in handles}
    return [max(starts) for paths in vgpus if (starts := [opened[path] for path in paths if path in opened])]


def matched(plugins: Sequence[HandleFact], started: Sequence[int]) -> int:
    """The maximum number of plugins that can belong to vGPUs in use: each starts after the QEMU that it serves.

    A process with several nodes open serves several vGPUs, whenever they started.
    """
    nodes = [handle["pid"] for handle in plugins]
    begins = sorted(float("inf") if nodes.count(handle["pid"]) > 1 else float(handle["start"]) for handle in plugins)
    starts = sorted(started)
    count = 0
    for begin in begins:
        if count < len(starts) and starts[count] <= begin:
            count += 1
    return count


def _may_be(row: ActiveFact, step: Step) -> bool:
    """Whether a row of the step's GPU may be its vGPU. A row that names nothing may be any vGPU there."""
    if row["uuid"] is None and row["vf"] is None and row["vm_uuid"] is None:
        return True
    if row["vm_uuid"] == step["vm_uuid"] and not (step["runs"] and _names_one(row)):
        return True
    if row["uuid"] is not None and row["uuid"] == step["uuid"]:
        return True
    return step["uuid"] is None and row["vf"] == step["parent"]
