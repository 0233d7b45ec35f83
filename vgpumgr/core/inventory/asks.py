"""The VMs of a host: `vgpumgr_vms`, with every way to ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from vgpumgr.core.driver import plugin_params, profiles, scheduler
from vgpumgr.core.driver.asking import AMOUNTS, OF_AMOUNTS, WAYS, WAYS_TO_ASK
from vgpumgr.core.driver.profiles import MOST_FGPU, SERIES, ByFgpu, ByMemory, ByMigProfile, ByProfile, ByShare
from vgpumgr.core.inventory import reading
from vgpumgr.core.inventory.model import SlotDeclaration, VmDeclaration
from vgpumgr.core.policies import known
from vgpumgr.errors import BadName
from vgpumgr.names import (
    DEFAULT_SLOT,
    parse_gpu_uuid,
    parse_owner,
    parse_pci_address,
    parse_slot,
    parse_vm_name,
    slot_order,
)
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.driver.asking import Way
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.core.inventory.located import Member, Table, Value
    from vgpumgr.core.inventory.reading import Word
    from vgpumgr.core.inventory.report import Report
    from vgpumgr.names import GpuUuid, OwnerName, PciAddress, Slot, VmName

OPTIONS = ("series", "policy", "gpu_id", "prefer", "only", "compute", "max_waste", "usable", "param", "priority")
_KEYS = (*WAYS_TO_ASK, *OPTIONS)
OF_A_PLACE = tuple(key for key in _KEYS if key != "priority")
"""The keys of a place in a reservation."""
_KNOWN = frozenset(_KEYS)
_EXAMPLE = "{vm02: {vgpu0: {profile: 4Q}}}"
_OWNER = "owner"


class _Options(TypedDict):
    policy: str | None
    gpu_id: PciAddress | GpuUuid | None
    prefer: Way | None
    only: Way | None
    compute: Policy | None
    max_waste_pct: int | None
    usable: bool | None
    param: str | None
    priority: int


def read_vms(value: Value, report: Report) -> dict[VmName, VmDeclaration]:
    """The VMs that `vgpumgr_vms` declares, by name."""
    table = reading.read_table(value, "vgpumgr_vms", report, example=_EXAMPLE)
    vms = [vm for member in (table or {}).values() if (vm := _read_vm(member, report)) is not None]
    return {vm.name: vm for vm in sorted(vms, key=lambda vm: vm.name)}


def _read_vm(member: Member, report: Report) -> VmDeclaration | None:
    try:
        name = parse_vm_name(member.key.text)
    except BadName as error:
        report.problem(member.where, error.message, error.hint)
        return None
    table = reading.read_table(member.value, f"VM {name!r}", report, example="{vgpu0: {profile: 4Q}}")
    if table is None:
        return None
    bare = [key for key in table if key in _KNOWN]
    if bare and all(key in _KNOWN for key in table):
        report.problem(
            table[bare[0]].where,
            f"VM {name!r} has {bare[0]!r} where a slot name is expected",
            f"write {name}: {{vgpu0: {{{bare[0]}: …}}}}",
        )
        return None
    entries, owner = dict(table), None
    if _OWNER in table and not isinstance(table[_OWNER].value.data, Mapping):  # else it is a slot of that name
        owner = read_owner(entries.pop(_OWNER).value, f"owner of VM {name!r}", report)
    slots = [slot for entry in entries.values() if (slot := _read_slot(entry, name, report)) is not None]
    return VmDeclaration(
        name=name,
        slots={slot.slot: slot for slot in sorted(slots, key=lambda slot: slot_order(slot.slot))},
        where=member.where,
        owner=owner,
    )


def read_owner(value: Value, what: str, report: Report) -> OwnerName | None:
    """The owner of a VM, or of a reservation."""
    text = reading.read_text(value, what, report, example="team-a")
    try:
        return None if text is None else parse_owner(text)
    except BadName as error:
        report.problem(value.where, f"{what}: {error.message}", error.hint)
        return None


def _read_slot(member: Member, vm: VmName, report: Report) -> SlotDeclaration | None:
    try:
        slot = parse_slot(member.key.text)
    except BadName as error:
        report.problem(member.where, error.message, error.hint)
        return None
    what = f"slot {slot!r} of VM {vm!r}"
    table = reading.read_table(member.value, what, report, example="{profile: 4Q}", none_allowed=False)
    if table is None:
        return None
    reading.check_keys(table, _KEYS, what, report)
    return read_asked(member, table, what, report, slot=slot)


def read_asked(
    member: Member, table: Table, what: str, report: Report, *, slot: Slot = DEFAULT_SLOT
) -> SlotDeclaration | None:
    """What a table, whose keys were checked, asks for in a slot; None if it has no valid wish."""
    options = _read_options(slot, table, report)
    wish = _read_wish(member, table, what, report, usable=options["usable"] is True)
    return None if wish is None else SlotDeclaration(slot=slot, wish=wish, where=member.where, **options)


def _read_wish(member: Member, table: Table, what: str, report: Report, *, usable: bool) -> Wish | None:
    ways = [key for key in WAYS_TO_ASK if key in table]
    if len(ways) != 1:
        how = f"asks in {len(ways)} ways ({', '.join(ways)})" if ways else "asks for nothing"
        report.problem(member.where, f"{what} {how}", f"give exactly one of {', '.join(WAYS_TO_ASK)}")
        return None
    key = ways[0]
    for other in OF_AMOUNTS:
        if other in table and key not in AMOUNTS:
            report.problem(
                table[other].where,
                f"{what}: {other} cannot be combined with {key}",
                f"it can be combined with {', '.join(AMOUNTS)}",
            )
    series = None
    if "series" in table:
        series = reading.read_choice(table["series"].value, f"series of {what}", SERIES, report)
    return _wish_of(key, table[key].value, f"{key} of {what}", series, report, usable=usable)


def _wish_of(key: str, value: Value, what: str, series: str | None, report: Report, *, usable: bool) -> Wish | None:
    if key in {"gpu", "fgpu"}:
        share = _read_share(value, what, report, limit=1 if key == "gpu" else MOST_FGPU)
        if share is None:
            return None
        if key == "gpu":
            return ByShare(gpu=share, series=series, usable=usable)
        return ByFgpu(fgpu=share, series=series, usable=usable)
    example = {"profile": "4Q", "mig_profile": "2g.10gb", "gpu_memory": "4G"}[key]
    text = reading.read_text(value, what, report, example=example)
    if text is None:
        return None
    try:
        match key:
            case "profile":
                return ByProfile(profile=profiles.parse_profile(text))
            case "mig_profile":
                return ByMigProfile(mig_profile=profiles.parse_mig_profile(text))
            case _:
                return ByMemory(mib=profiles.parse_memory(text), series=series, usable=usable)
    except BadName as error:
        colon = ":" if key == "profile" else ""
        report.problem(value.where, f"{what}{colon} {error.message}", error.hint)
        return None


def _read_share(value: Value, what: str, report: Report, *, limit: int) -> str | None:
    """A share in its canonical spelling, for example 0.25; a share of one GPU is at most 1."""
    text = reading.read_spelling(value, what, report, example="0.25")
    if text is None:
        return None
    try:
        return profiles.parse_share(text, limit=limit)
    except BadName:
        bounds = "above 0 and at most 1" if limit == 1 else "above 0"
        report.problem(
            value.where, f"{what} must be a number {bounds}, found {reading.found(value)}", "for example 0.25"
        )
        return None


def _read_options(slot: Slot, table: Table, report: Report) -> _Options:
    def choice(key: str, valid: tuple[Word, ...]) -> Word | None:
        return reading.read_choice(table[key].value, key, valid, report) if key in table else None

    if "prefer" in table and "only" in table:
        report.problem(table["only"].where, f"slot {slot!r} has both prefer and only", "give one of them")
    waste = table.get("max_waste")
    usable = table.get("usable")
    priority = (
        reading.read_whole(table["priority"].value, "priority", report, low=-99, high=99) if "priority" in table else 0
    )
    return _Options(
        policy=read_policy(table["policy"].value, "policy", report) if "policy" in table else None,
        gpu_id=read_gpu(table["gpu_id"].value, "gpu_id", report) if "gpu_id" in table else None,
        prefer=choice("prefer", WAYS),
        only=choice("only", WAYS),
        compute=choice("compute", scheduler.POLICIES),
        max_waste_pct=reading.read_whole(waste.value, "max_waste", report, low=0, high=100) if waste else None,
        usable=reading.read_switch(usable.value, "usable", report) if usable else None,
        param=_read_param(table["param"].value, report) if "param" in table else None,
        priority=priority or 0,
    )


def _read_param(value: Value, report: Report) -> str | None:
    text = reading.read_text(value, "param", report, example="enable_uvm=1")
    try:
        return None if text is None else plugin_params.parse(text)
    except BadName as error:
        report.problem(value.where, f"param: {error.message}", error.hint)
        return None


def read_policy(value: Value, what: str, report: Report) -> str | None:
    """The name of a placement policy. Whether there is one of that name is checked when a host uses it."""
    text = reading.read_text(value, what, report, example=known.DEFAULT.name)
    if text is None or known.NAME.fullmatch(text):
        return text
    hint = f"built in: {', '.join(known.BUILT_IN)}; or the name of a file in vgpumgr_plugins, without .py"
    report.problem(value.where, f"{what}: {reading.found(value)} is not the name of a policy", hint)
    return None


def read_gpu(value: Value, what: str, report: Report) -> PciAddress | GpuUuid | None:
    """A GPU by its PCI address or its UUID."""
    text = reading.read_text(value, what, report, example='"0000:41:00.0"')
    if text is None:
        return None
    try:
        return parse_gpu_uuid(text) if text.strip().upper().startswith("GPU-") else parse_pci_address(text)
    except BadName as error:
        report.problem(value.where, f"{what}: {error.message}", error.hint)
        return None


def check_once(vms: Mapping[str, Mapping[VmName, VmDeclaration]], report: Report) -> None:
    """A VM lives on one host: if two hosts declare it, report both places."""
    first: dict[VmName, tuple[str, VmDeclaration]] = {}
    shared_names: set[VmName] = set()
    for host, host_vms in vms.items():
        for name, vm in host_vms.items():
            if name not in first:
                first[name] = (host, vm)
                continue
            other, first_vm = first[name]
            if first_vm is vm:  # one declaration of a group or range, for several hosts
                if name not in shared_names:
                    shared_names.add(name)
                    text = say("VM {} is declared for both {} and {}", repr(name), other, host)
                    report.problem(vm.where, text, "a VM lives on one host: move it to that host's own variables")
                continue
            report.problem(
                vm.where,
                say("VM {} is declared on {} here, but also on {} at {}", repr(name), host, other, first_vm.where),
                "a VM lives on one host",
            )
