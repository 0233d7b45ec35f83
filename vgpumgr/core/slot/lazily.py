"""Lazy vGPUs (docs/lazy.md): where a new one is to be made, and the step that frees one whose VM has ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver.modes import EQUAL_SIZE
from vgpumgr.core.evidence.sharing import none_barred
from vgpumgr.core.model import view as views
from vgpumgr.core.model.vgpu import MADE
from vgpumgr.core.placing import placement
from vgpumgr.core.placing.no_place import Cause, Refusal
from vgpumgr.names import GpuUuid
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from vgpumgr.core.evidence.sharing import Barred
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.vgpu import ExactPlace, VgpuSpec
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.placing.resolve import Ask
    from vgpumgr.names import PciAddress


def place(
    snapshot: HostSnapshot,
    ask: Ask,
    *,
    among: Sequence[Gpu] | None = None,
    barred: Barred = none_barred,
    exact: ExactPlace | None = None,
) -> placement.Placed | placement.NoPlace:
    """The place for a lazy vGPU, or why there is none: a GPU in equal-size mode, a function that no other vGPU has.

    It is chosen as if all lazy vGPUs were there at once. If that leaves no room, it is chosen as if none were there:
    then the GPUs with the fewest lazy vGPUs come first. `among`: only these GPUs; `exact`: only this place.
    """
    gpus = snapshot.gpus if among is None else among
    able = {gpu.uuid for gpu in gpus if gpu.mode in (EQUAL_SIZE, None)}
    awake = replace(snapshot, ledger=tuple(replace(entry, lazy=False) for entry in snapshot.entries))
    verdict = placement.place(awake, ask, among=_of(awake, able), barred=barred, exact=exact)
    if isinstance(verdict, placement.Placed):
        return verdict
    asleep = _asleep(snapshot)
    lazies = Counter(entry.vgpu.gpu_uuid for entry in snapshot.entries if entry.lazy)
    for uuid in sorted(able, key=lambda one: (lazies[GpuUuid(one or "")], one or "")):
        over = placement.place(asleep, ask, among=_of(asleep, {uuid}), barred=barred, exact=exact)
        if isinstance(over, placement.Placed):
            return over
    nowhere = placement.place(asleep, ask, among=_of(asleep, able), barred=barred, exact=exact)
    assert isinstance(nowhere, placement.NoPlace)
    return replace(nowhere, reasons=(*nowhere.reasons, *_in_other_modes(gpus, able)))


def _of(snapshot: HostSnapshot, uuids: Collection[GpuUuid | None]) -> list[Gpu]:
    return [gpu for gpu in snapshot.gpus if gpu.uuid in uuids]


def _in_other_modes(gpus: Sequence[Gpu], able: Collection[GpuUuid | None]) -> Iterator[tuple[PciAddress, str, Refusal]]:
    for gpu in gpus:
        if gpu.uuid not in able:
            text = say("is in {} mode, and lazy vGPUs need equal-size mode", gpu.mode)
            yield gpu.pci, gpu.board or gpu.name or "?", Refusal(Cause.OTHER_MODE, text)


def _asleep(snapshot: HostSnapshot) -> HostSnapshot:
    """The host as if no VM with a lazy vGPU ran."""
    for entry in snapshot.entries:
        if entry.lazy and entry.state == MADE and snapshot.vgpu_of(entry.vgpu) is not None:
            snapshot = simulate.after(snapshot, steps.EvacuateVgpu(host=snapshot.host, vgpu=entry.vgpu))
    return snapshot


def left_behind(view: HostView, domain: Domain, target: VgpuSpec) -> tuple[steps.EvacuateVgpu, ...]:
    """The step that frees a lazy vGPU that is still there although its VM is off; none while anything may hold it."""
    entry, vgpu = view.snapshot.entries.named(target.key), view.snapshot.vgpu_of(target)
    if entry is None or not entry.lazy or vgpu is None or domain.active or not vgpu.is_of(target):
        return ()
    users = views.users(view, target.device, vgpu)
    if users.lasting:
        return ()
    return (steps.EvacuateVgpu(host=view.snapshot.host, vgpu=target, listed=users.listed),)
