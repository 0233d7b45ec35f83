"""What the units of amounts mean on each board, and which vGPUs were requested under another unit of the site."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from vgpumgr.core.driver import known_types, profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS, FgpuMemory
from vgpumgr.core.model.snapshot import Gpu, VgpuType
from vgpumgr.core.placing import resolve
from vgpumgr.core.placing.no_place import Refusal
from vgpumgr.errors import UnknownProfile
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vgpumgr.core.driver.asking import FgpuUnit, FgpuUnits, Grant
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import HostName, Slot

MEASURES: Final[tuple[profiles.Amount, ...]] = (
    profiles.ByFgpu(fgpu="1"),
    profiles.ByShare(gpu="0.1"),
    profiles.ByMemory(mib=4096),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What an amount is on a board, and the smallest type that has it.

    A field is None if there is no unit or no such type, or if sizes are unknown.
    """

    asked: str
    mib: int | None
    type_name: str | None
    waste_pct: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardUnits:
    """One board with its unit. `unit`: one fGPU as the inventory defines it, `2 per GPU` or `24G`; None: not defined.

    `hosts`: those with this board and unit; empty for a board that is only in the inventory. `before`: other units
    under which vGPUs here were requested, each with how many vGPUs.
    """

    board: str
    framebuffer_mib: int | None
    unit: str | None
    means: tuple[Meaning, ...]
    hosts: tuple[HostName, ...] = ()
    before: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierUnit:
    """A vGPU that was requested in fGPUs when one fGPU was another size. It stays as it is.

    `asked_mib` is what the wish meant then, `now_mib` what it would mean now, and `now_type` the type for that.
    `now_mib` and `now_type` are None if the inventory no longer defines a unit. `now_type` is also None if no type is
    that large.
    """

    host: HostName
    vm: str
    slot: Slot
    board: str
    requested: str
    type_name: str
    unit: str
    asked_mib: int
    now_unit: str | None
    now_mib: int | None
    now_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """The boards and earlier units of one host, or of all hosts together."""

    boards: tuple[BoardUnits, ...]
    earlier: tuple[EarlierUnit, ...] = ()


def of_host(view: HostView) -> Units:
    """The boards of a host, and its vGPUs that were requested under another unit."""
    host = view.snapshot.host
    boards = [replace(_of_gpu(gpu, view.fgpu_per_gpu), hosts=(host,)) for gpu in view.snapshot.gpus if gpu.types]
    return Units(boards=tuple(dict.fromkeys(boards)), earlier=tuple(_earlier(view)))


def on_paper(hosts: Iterable[HostDeclaration], catalogue: Catalogue) -> Units:
    """The boards for which the inventory has a unit, with the types of NVIDIA's list."""
    units = {(name, unit) for host in hosts for name, unit in host.fgpu_per_gpu.items()}
    rows = {_on_paper(catalogue, name, unit) for name, unit in units}
    return Units(boards=tuple(sorted(rows, key=lambda row: (row.board, row.unit or ""))))


def together(parts: Iterable[Units], declared: Units) -> Units:
    """One row for each board and unit of all hosts, and for each that is only declared."""
    parts = tuple(parts)
    earlier = tuple(one for part in parts for one in part.earlier)
    hosts: dict[BoardUnits, list[HostName]] = {}
    for part in parts:
        for row in part.boards:
            hosts.setdefault(replace(row, hosts=()), []).extend(row.hosts)
    keys = {(row.board, row.unit) for row in hosts}
    boards = [replace(row, hosts=tuple(sorted(set(on))), before=_before(row, on, earlier)) for row, on in hosts.items()]
    boards += [row for row in declared.boards if (row.board, row.unit) not in keys]
    return Units(
        boards=tuple(sorted(boards, key=lambda row: (row.board, row.hosts == (), row.hosts))),
        earlier=tuple(sorted(earlier, key=lambda one: (one.host, one.vm, one.slot))),
    )


def _before(row: BoardUnits, hosts: Iterable[HostName], earlier: Iterable[EarlierUnit]) -> tuple[tuple[str, int], ...]:
    on = set(hosts)
    return tuple(sorted(Counter(one.unit for one in earlier if one.board == row.board and one.host in on).items()))


def _of_gpu(gpu: Gpu, units: FgpuUnits) -> BoardUnits:
    unit = resolve.unit_of(gpu, units)
    return BoardUnits(
        board=gpu.board or gpu.name or "?",
        framebuffer_mib=resolve.board_mib(gpu),
        unit=None if unit is None else _unit_text(unit),
        means=tuple(_meaning(gpu, wish, units) for wish in MEASURES),
    )


def _meaning(gpu: Gpu, wish: profiles.Amount, units: FgpuUnits) -> Meaning:
    mib = resolve.asked_mib(gpu, wish, units)
    grant = _smallest(gpu, wish, units)
    return Meaning(
        asked=profiles.describe(wish),
        mib=mib,
        type_name=grant[0] if grant else None,
        waste_pct=grant[1].waste_pct if grant else None,
    )


def _smallest(gpu: Gpu, wish: profiles.Amount, units: FgpuUnits) -> tuple[str, Grant] | None:
    """The type that an empty GPU gives for a wish, and the grant. None if no type serves it or sizes are unknown."""
    choices = resolve.choices(gpu, resolve.Ask(wish=wish, conditions=NO_CONDITIONS, units=units))
    if isinstance(choices, Refusal) or choices[0].grant is None:
        return None
    return choices[0].type.type_name, choices[0].grant


def _earlier(view: HostView) -> Iterator[EarlierUnit]:
    for domain in view.domains:
        if domain.copied or domain.claims is None:
            continue
        for claim in domain.claims.claims:
            gpu = view.snapshot.gpu_by_uuid(claim.binding.gpu_uuid)
            change = _changed(view, gpu, domain.name, claim) if gpu is not None else None
            if change is not None:
                yield change


def _changed(view: HostView, gpu: Gpu, vm: str, claim: Claim) -> EarlierUnit | None:
    """A claim's fGPUs in its own unit and in today's. None if both are the same amount, or the wish is not in fGPUs."""
    if not isinstance(claim.wish, profiles.ByFgpu) or claim.grant is None:
        return None
    wish, grant, unit = claim.wish, claim.grant, resolve.unit_of(gpu, view.fgpu_per_gpu)
    mib = resolve.asked_mib(gpu, wish, view.fgpu_per_gpu)
    if mib == grant.asked_mib:
        return None
    smallest = _smallest(gpu, wish, view.fgpu_per_gpu)
    return EarlierUnit(
        host=view.snapshot.host,
        vm=vm,
        slot=claim.slot,
        board=gpu.board or gpu.name or "?",
        requested=claim.asked,
        type_name=claim.binding.type_name,
        unit=_unit_text(_unit_then(Fraction(wish.fgpu), grant.asked_mib, resolve.board_mib(gpu))),
        asked_mib=grant.asked_mib,
        now_unit=None if unit is None else _unit_text(unit),
        now_mib=mib,
        now_type=smallest[0] if smallest else None,
    )


def _unit_then(fgpu: Fraction, asked_mib: int, board_mib: int | None) -> FgpuUnit:
    """The unit by which `fgpu` came to `asked_mib` (rounded up to MiB): a part of a GPU if that fits, else MiB."""
    if board_mib is not None:
        per_gpu = round(board_mib * fgpu / asked_mib)
        if per_gpu and math.ceil(board_mib * fgpu / per_gpu) == asked_mib:
            return per_gpu
    return FgpuMemory(mib=math.floor(asked_mib / fgpu))


def _unit_text(unit: FgpuUnit) -> str:
    return profiles.memory_text(unit.mib) if isinstance(unit, FgpuMemory) else f"{unit} per GPU"


def _on_paper(catalogue: Catalogue, board: str, unit: FgpuUnit) -> BoardUnits:
    """A board that the inventory names. It has no types and no sizes if NVIDIA's list lacks it."""
    try:
        rows = known_types.known_types(catalogue, board.removeprefix("NVIDIA "))
    except UnknownProfile:
        rows = ()
    types = {
        number: VgpuType(
            id=number,
            name=row.name,
            type_name=row.name,
            parsed=profiles.parse_type_name(row.name),
            framebuffer_mib=row.framebuffer_mib,
            max=row.max,
        )
        for number, row in enumerate(rows)
    }
    gpu = Gpu(
        pci=PciAddress(""),
        uuid=None,
        name=board,
        pci_id="",
        framework=None,
        mode=None,
        numa_node=None,
        framebuffer_mib=None,
        types=types,
        parents=(),
        scheduler=None,
    )
    return replace(_of_gpu(gpu, {board: unit}), board=rows[0].board if rows else board)
