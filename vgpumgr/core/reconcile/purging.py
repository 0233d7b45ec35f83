"""What a host loses when vgpumgr leaves it (our vGPUs, claims, cordons, reservations, files), and what stays."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.driver import modprobe
from vgpumgr.core.gpu import modes
from vgpumgr.core.reconcile import give_back, tasks
from vgpumgr.core.report import listing
from vgpumgr.core.slot.request import SlotRequest
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import HostName

_OUR_LINE = re.compile(rf'options nvidia {modprobe.PER_DEVICE}="?(pci=[0-9a-f:.]+;{modprobe.KEY}=\w+;?)+"?')


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePlan:
    """`work` frees what is ours; then `files` are removed, `boot` first if any. `left`: what stays, a sentence each."""

    work: HostPlan
    files: tuple[str, ...]
    boot: modprobe.ModprobeFile | None
    left: tuple[str, ...]

    @property
    def host(self) -> HostName:
        return self.work.host

    @property
    def changed(self) -> bool:
        return self.work.changed or bool(self.files)

    @property
    def refusals(self) -> tuple[VgpumgrError, ...]:
        return tuple(one.refused for one in self.work.tasks if one.refused is not None)


def todo(view: HostView) -> tuple[tasks.Task, ...]:
    """A task for each slot with a ledger entry, claim or wait, and for each GPU instance, cordon and reservation."""
    slots = {(entry.vgpu.vm, entry.vgpu.slot): entry.vgpu.vm_name for entry in view.snapshot.ledger or ()}
    for domain in view.domains:
        slots |= {(domain.uuid, claim.slot): domain.name for claim in tasks.own_claims(view, domain)}
        slots |= {(domain.uuid, wait.slot): domain.name for wait in domain.waits}
    slot_tasks = [
        tasks.ServeSlot(vm=vm, uuid=uuid, request=SlotRequest(vm=vm, slot=slot, wish=None))
        for (uuid, slot), vm in sorted(slots.items(), key=lambda row: (row[1], row[0]))
    ]
    instances = give_back.todo(view)
    cordon_tasks = (tasks.SetCordon(gpu_id=one.gpu_uuid, vf=one.vf, reason=None) for one in view.snapshot.cordons)
    reserved = dict.fromkeys(one.name for one in view.snapshot.reservations)
    return *slot_tasks, *instances, *cordon_tasks, *(tasks.CancelReservation(name=name) for name in reserved)


def boot_file(view: HostView) -> modprobe.ModprobeFile | None:
    """The host's file vgpumgr.conf for modprobe; None if it has a line that is not ours, or is missing."""
    for file in view.snapshot.modprobe or ():
        if file.path == modprobe.OUR_PATH and _is_ours_alone(file):
            return file
    return None


def left(view: HostView, declared: HostDeclaration, *, has_dispatcher: bool) -> Iterator[str]:
    """What stays on the host, and what to do about it, in a sentence each."""
    if declared.vms:
        names = ", ".join(sorted(declared.vms))
        yield f"the inventory still declares {names}: the next reconcile would begin again there"
    foreign = [row for row in listing.rows(view) if row.state == "foreign"]
    if foreign:
        number = f"{len(foreign)} vGPU{'s' if len(foreign) > 1 else ''}"
        yield f"{number} that vgpumgr did not make: {', '.join(map(_place, foreign))}"
    ours = boot_file(view)
    for file in view.snapshot.modprobe or ():
        if file != ours and modprobe.KEY in file.text:
            yield f"{modprobe.KEY} in {file.path}, which has other people's options, too: edit it by hand"
    if ours is not None:
        yield "the present schedulers, until the nvidia module is loaded again; the initramfs may have a copy of their file: update-initramfs -u, or dracut -f"
    yield from (_mode(declared, gpu) for gpu in view.snapshot.gpus if not gpu.rules.is_default)
    if has_dispatcher:
        yield "your lines in sudoers and authorized_keys (`vgpumgr docs logins`)"


def _mode(declared: HostDeclaration, gpu: Gpu) -> str:
    is_brief = gpu.rules.ends_with_boot(gpu.board_names)
    until = "until the host reboots" if is_brief else "also after the host reboots"
    ends = modes.leaving(gpu, declared.name, gpu.pci)
    return say("{} mode of GPU {}, {}: `{}` ends it", gpu.rules.words, gpu.pci, until, ends)


def _place(row: listing.VgpuRow) -> str:
    return str(row.uuid or row.vf or row.gpu)


def _is_ours_alone(file: modprobe.ModprobeFile) -> bool:
    lines = [line for line in file.text.splitlines() if line and not line.startswith("#")]
    return all(_OUR_LINE.fullmatch(line) for line in lines)


def in_order(files: Sequence[str], boot: modprobe.ModprobeFile | None) -> tuple[str, ...]:
    """Every file to remove. The boot file is first: once the ledger is gone, nobody would know whose it is."""
    return (*([] if boot is None else [boot.path]), *files)
