"""Each GPU as a bar to scale: who has which part of its framebuffer, what is reserved, stranded, and free."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypedDict

from vgpumgr.core.evidence import sharing
from vgpumgr.core.model import view as views
from vgpumgr.core.placing import instances, resolve
from vgpumgr.core.placing.room import awaited_on
from vgpumgr.core.report import stranded
from vgpumgr.core.slot import how_many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.evidence.sharing import Barred
    from vgpumgr.core.model.functions import Vgpu
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import HostName, PciAddress

Kind = Literal["used", "idle", "awaited", "foreign", "unknown", "instance", "reserved", "stranded", "free"]
_TAKEN: Final[tuple[Kind, ...]] = ("used", "idle", "awaited", "foreign", "unknown", "instance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part of a GPU's framebuffer. `mib` None: a vGPU whose size is unknown.

    used (ours, a VM runs with it) · idle (ours, and nothing has it open) · awaited (ours and not there; reconcile makes
    it again) · foreign · unknown (the ledger cannot be read, so nobody can say whose it is) · instance (a GPU instance
    without vGPU) · reserved (`name` is the reservation's) · stranded (free, and of no use for usual requests) · free.

    `name`: the VM, if that is known. `start`: where it lies on the GPU (placement id, or the first memory slice); None:
    anywhere.
    """

    kind: Kind
    mib: int | None
    name: str | None = None
    slot: str | None = None
    type_name: str | None = None
    owner: str | None = None
    start: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU and the blocks that it is divided into, in their order on it; what is free comes last.

    `mib`: what vGPUs divide among them. `closed`: why it takes no vGPU at all; None: it takes some.
    """

    host: HostName
    gpu: PciAddress
    board: str | None
    mode: Mode | None
    mib: int | None
    blocks: tuple[Block, ...]
    closed: str | None

    @property
    def taken_mib(self) -> int | None:
        """What is there, or comes back; None if a size is unknown."""
        return self._sum(*_TAKEN)

    @property
    def reserved_mib(self) -> int | None:
        return self._sum("reserved")

    @property
    def free_mib(self) -> int | None:
        """What is free, the stranded part of it included; None if a size is unknown."""
        return self._sum("stranded", "free")

    @property
    def stranded_mib(self) -> int | None:
        return self._sum("stranded")

    def _sum(self, *kinds: Kind) -> int | None:
        if self.mib is None or any(one.mib is None for one in self.blocks):
            return None
        return sum(one.mib or 0 for one in self.blocks if one.kind in kinds)


def of_host(view: HostView) -> tuple[Card, ...]:
    """A host's GPUs by address."""
    barred = sharing.barred_functions(view)
    lost = {one.gpu: one.stranded_mib for one in stranded.of_host(view)}
    gpus = sorted(view.snapshot.gpus, key=lambda gpu: gpu.pci)
    return tuple(_card(view, gpu, barred, lost.get(gpu.pci, 0)) for gpu in gpus)


def _card(view: HostView, gpu: Gpu, barred: Barred, stranded_mib: int) -> Card:
    shut = how_many.closed(view, gpu, barred)
    blocks = sorted(_taken(view, gpu), key=lambda one: (one.start is None, one.start or 0))
    whole = resolve.board_mib(gpu)
    sizes = [one.mib for one in blocks if one.mib is not None]
    if whole is not None and len(sizes) == len(blocks):
        free = max(0, whole - sum(sizes))
        stranded_mib = min(stranded_mib, free)
        rest = (Block(kind="stranded", mib=stranded_mib), Block(kind="free", mib=free - stranded_mib))
        blocks += [one for one in rest if one.mib]
    return Card(
        host=view.snapshot.host,
        gpu=gpu.pci,
        board=gpu.board or gpu.name,
        mode=gpu.mode,
        mib=whole,
        blocks=tuple(blocks),
        closed=None if shut is None else shut.why,
    )


def _taken(view: HostView, gpu: Gpu) -> Iterator[Block]:
    reserved = {one.entry: one for one in view.snapshot.reservations}
    for vgpu in gpu.vgpus:
        yield _vgpu(view, gpu, vgpu)
    for entry in awaited_on(view.snapshot, gpu):
        if entry in reserved:
            yield replace(
                _of_spec(gpu, entry, "reserved"), name=reserved[entry].name, owner=reserved[entry].terms.owner
            )
        elif not entry.lazy:
            yield replace(_of_spec(gpu, entry, "awaited"), **_whose(view, entry))
    if gpu.rules.mig_backed and instances.why_unread(view.snapshot, gpu) is None:
        for held in instances.held(view.snapshot, gpu):
            if not held.vgpus and not held.awaited:
                mib, name = held.profile.memory_mib, held.profile.name
                yield Block(kind="instance", mib=mib, type_name=name, start=held.instance.start)


def _vgpu(view: HostView, gpu: Gpu, vgpu: Vgpu) -> Block:
    entry = view.snapshot.entry_of(gpu, vgpu)
    place, holder, users = gpu.mig_place_of(vgpu), views.holder_name(view, vgpu), view.vms.naming(vgpu.device)
    block = Block(
        kind="foreign" if view.snapshot.ledger is not None else "unknown",
        mib=gpu.size_of(vgpu.type_id),
        name=holder or (users[0].name if len(users) == 1 else None),
        type_name=vgpu.type_name,
        start=gpu.placement_of(vgpu) if place is None else place.start,
    )
    if entry is None or not vgpu.is_of(entry.vgpu):
        return block
    return replace(block, kind="idle" if holder is None else "used", **_whose(view, entry))


def _of_spec(gpu: Gpu, entry: LedgerEntry, kind: Kind) -> Block:
    """A place in the ledger whose vGPU is not there."""
    spec = entry.vgpu
    start = spec.placement_id if spec.mig is None else spec.mig.start
    return Block(kind=kind, mib=gpu.size_of(spec.type_id), type_name=spec.type_name, start=start)


class _Whose(TypedDict):
    name: str
    slot: str
    owner: str | None


def _whose(view: HostView, entry: LedgerEntry) -> _Whose:
    domain, spec = view.domain(entry.vgpu.vm), entry.vgpu
    name = spec.vm_name if domain is None else domain.name
    return {"name": name, "slot": spec.slot, "owner": view.owner(spec.vm, spec.vm_name)}
