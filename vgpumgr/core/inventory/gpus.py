"""The GPUs of a host: `vgpumgr_gpus` and `vgpumgr_boards` with modes and schedulers, and `vgpumgr_fgpu_per_gpu`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from vgpumgr.core.driver import mig, modes, scheduler
from vgpumgr.core.driver.asking import FgpuMemory
from vgpumgr.core.driver.profiles import parse_memory
from vgpumgr.core.inventory import reading
from vgpumgr.core.inventory.asks import read_gpu
from vgpumgr.core.inventory.model import BoardDeclaration, GpuDeclaration, SchedulerDeclaration
from vgpumgr.errors import BadName
from vgpumgr.names import nearest, parse_pci_address
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from vgpumgr.core.driver.asking import FgpuUnit
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.inventory.located import Location, Table, Value
    from vgpumgr.core.inventory.report import Report
    from vgpumgr.names import PciAddress

_EXAMPLE = '{"0000:41:00.0": {mode: equal-size}}'
_SETTINGS = ("mode", "scheduler", "instances")
_KEYS = (*_SETTINGS, "exclude_vfs")
_VF = '"0000:41:00.4"'
_SCHEDULER_KEYS = ("policy", "time_slice", "frequency", "averaging_factor")
_SLICE = re.compile(r"([0-9]{1,3}) ?ms")
_BOARD = re.compile(r"[A-Za-z0-9]+(?:[ -][A-Za-z0-9]+)*")


def read_gpus(value: Value, report: Report) -> tuple[GpuDeclaration, ...]:
    """The declared GPUs, in order of their names."""
    table = reading.read_table(value, "vgpumgr_gpus", report, example=_EXAMPLE)
    gpus: dict[str, GpuDeclaration] = {}
    for member in (table or {}).values():
        gpu = read_gpu(member.key, "a GPU in vgpumgr_gpus", report)
        what = f"GPU {member.key.text}"
        settings = reading.read_table(member.value, what, report, example="{mode: equal-size}")
        if settings is None:
            continue
        reading.check_keys(settings, _KEYS, what, report)
        mode, declaration, layout = _read_settings(settings, what, report)
        left_out = settings.get("exclude_vfs")
        exclude_vfs = _read_vfs(left_out.value, f"exclude_vfs of {what}", report) if left_out else ()
        if gpu is None:
            continue
        if gpu in gpus:
            report.problem(member.where, say("{} is already declared at {}", what, gpus[gpu].where), "keep one of them")
        gpus[gpu] = GpuDeclaration(
            gpu_id=gpu, mode=mode, scheduler=declaration, instances=layout, where=member.where, exclude_vfs=exclude_vfs
        )
    return tuple(gpus[gpu] for gpu in sorted(gpus))


def read_boards(value: Value, known: Callable[[], Collection[str]], report: Report) -> tuple[BoardDeclaration, ...]:
    """The declared boards, in order of their names. `known`: the codes of the boards that NVIDIA lists."""
    table = reading.read_table(value, "vgpumgr_boards", report, example="{A40: {mode: equal-size}}")
    codes = known() if table else ()
    boards: list[BoardDeclaration] = []
    for name, member in sorted((table or {}).items()):
        what = f"board {name}"
        board = name.removeprefix("NVIDIA ")
        if _BOARD.fullmatch(board) is None:
            report.problem(member.where, f"not a board name: {name!r}", "for example A40")
            continue
        settings = reading.read_table(member.value, what, report, example="{mode: equal-size}")
        if settings is None:
            continue
        reading.check_keys(settings, _SETTINGS, what, report)
        mode, declaration, layout = _read_settings(settings, what, report)
        same = next((one for one in boards if one.board == board), None)
        if same is not None:
            report.problem(member.where, say("{} is already declared at {}", what, same.where), "keep one of them")
        _check_known(board, member.where, codes, report)
        boards.append(
            BoardDeclaration(board=board, mode=mode, scheduler=declaration, instances=layout, where=member.where)
        )
    return tuple(boards)


def _check_known(board: str, where: Location, codes: Collection[str], report: Report) -> None:
    """Add a finding, not a problem, for an unlisted board: it can be newer than the list, or be named in full."""
    if board in codes:
        return
    like = nearest(board, codes)
    suggestion = f"; did you mean {like!r}?" if like else ""
    report.finding(
        where,
        f"NVIDIA's list of vGPU types has no board {board!r}: these settings are for GPUs of exactly that name{suggestion}",
    )


def _read_settings(
    settings: Table, what: str, report: Report
) -> tuple[Mode | None, SchedulerDeclaration | None, tuple[str, ...] | None]:
    mode = (
        reading.read_choice(settings["mode"].value, f"mode of {what}", modes.MODES, report)
        if "mode" in settings
        else None
    )
    instances = settings.get("instances")
    layout = _read_instances(instances.value, f"instances of {what}", report) if instances else None
    if instances and mode is not None and not modes.of(mode).mig_backed:
        report.problem(instances.where, f"{what}: instances cannot be combined with mode {mode}", "write mode: mig")
    member = settings.get("scheduler")
    declaration = _read_scheduler(member.value, f"the scheduler of {what}", report) if member else None
    if member and not modes.of(mode).has_scheduler:
        report.problem(member.where, f"{what}: a GPU in MIG mode has no scheduler", "remove scheduler, or mode: mig")
    elif member and declaration and declaration.wish.policy not in modes.of(mode).policies:
        text = f"{what}: {declaration.wish.policy} cannot be combined with mode {mode}"
        report.problem(member.where, text, "remove one of them")
    return mode, declaration, layout


def _read_instances(value: Value, what: str, report: Report) -> tuple[str, ...]:
    if not isinstance(value.data, tuple):
        report.problem(
            value.where, f"{what} must be a list, found {reading.found(value)}", "for example [3g.20gb, 1g.5gb]"
        )
        return ()
    names: list[str] = []
    for item in value.data:
        text = reading.read_text(item, f"a MIG profile in {what}", report, example="2g.10gb")
        if text is None:
            continue
        try:
            mig.parse_name(text)
        except ValueError:
            report.problem(item.where, f"{what}: not a MIG profile: {text!r}", "for example 2g.10gb")
            continue
        names.append(text)
    return tuple(names)


def _read_vfs(value: Value, what: str, report: Report) -> tuple[PciAddress, ...]:
    if not isinstance(value.data, tuple):
        report.problem(value.where, f"{what} must be a list, found {reading.found(value)}", f"for example [{_VF}]")
        return ()
    vfs: set[PciAddress] = set()
    for item in value.data:
        text = reading.read_text(item, f"a virtual function in {what}", report, example=_VF)
        try:
            vfs.update([] if text is None else [parse_pci_address(text)])
        except BadName as error:
            report.problem(item.where, f"{what}: {error.message}", error.hint)
    return tuple(sorted(vfs))


def _read_scheduler(value: Value, what: str, report: Report) -> SchedulerDeclaration | None:
    table = reading.read_table(
        value, what, report, example="{policy: fixed-share, time_slice: 2ms}", none_allowed=False
    )
    if table is None:
        return None
    reading.check_keys(table, _SCHEDULER_KEYS, what, report)
    if "policy" not in table:
        report.problem(value.where, f"{what} names no policy", f"policy: {', '.join(scheduler.POLICIES)}")
        return None
    policy = reading.read_choice(table["policy"].value, f"policy of {what}", scheduler.POLICIES, report)
    _check_together(table, policy, what, report)
    frequency = table.get("frequency")
    factor = table.get("averaging_factor")
    wish = scheduler.SchedulerWish(
        policy=policy or scheduler.BEST_EFFORT,
        time_slice_ns=_read_slice(table["time_slice"].value, what, report) if "time_slice" in table else None,
        frequency_hz=reading.read_whole(frequency.value, f"frequency (Hz) of {what}", report, low=63, high=960)
        if frequency
        else None,
        averaging_factor=reading.read_whole(factor.value, f"averaging_factor of {what}", report, low=1, high=60)
        if factor
        else None,
    )
    return SchedulerDeclaration(wish=wish, where=value.where) if policy is not None else None


def _check_together(table: Table, policy: str | None, what: str, report: Report) -> None:
    """Time slice needs adaptive round robin off, frequency and averaging factor need it on; best effort has neither."""
    for key in ("time_slice", "frequency", "averaging_factor"):
        if policy == scheduler.BEST_EFFORT and key in table:
            report.problem(table[key].where, f"{what}: {key} cannot be combined with best-effort", "remove one of them")
        elif key != "time_slice" and "time_slice" in table and key in table:
            report.problem(table[key].where, f"{what}: {key} cannot be combined with time_slice", "remove one of them")


def _read_slice(value: Value, what: str, report: Report) -> int | None:
    """A slice in ns. The range is NVIDIA's (vGPU user guide 17.0, 8.3); a GPU's own is checked when a slice is set."""
    text = reading.read_text(value, f"time_slice of {what}", report, example="2ms")
    if text is None:
        return None
    match = _SLICE.fullmatch(text.strip())
    if match is None or not 1 <= int(match[1]) <= 30:
        report.problem(value.where, f"time_slice of {what} must be from 1ms to 30ms, found {text!r}", "for example 2ms")
        return None
    return int(match[1]) * scheduler.NS_PER_MS


def read_fgpu(value: Value, report: Report) -> dict[str, FgpuUnit]:
    """What the site's unit, the fractional GPU, is on each board: how many make a GPU, or how much memory one has."""
    table = reading.read_table(value, "vgpumgr_fgpu_per_gpu", report, example="{A40: 2}")
    units: dict[str, FgpuUnit] = {}
    for board, member in sorted((table or {}).items()):
        if _BOARD.fullmatch(board) is None:
            report.problem(member.where, f"not a board name: {board!r}", "for example A40")
        unit = _read_unit(member.value, f"vgpumgr_fgpu_per_gpu of {board}", report)
        if unit is not None:
            units[board] = unit
    return units


def _read_unit(value: Value, what: str, report: Report) -> FgpuUnit | None:
    if not isinstance(value.data, Mapping):
        return reading.read_whole(value, what, report, low=1, high=1_000_000)
    table = reading.read_table(value, what, report, example="{memory: 24G}", none_allowed=False) or {}
    reading.check_keys(table, ("memory",), what, report)
    if "memory" not in table:
        report.problem(value.where, f"{what} names no amount", "for example {memory: 24G}")
        return None
    text = reading.read_text(table["memory"].value, f"memory of {what}", report, example="24G")
    if text is None:
        return None
    try:
        return FgpuMemory(mib=parse_memory(text))
    except BadName as error:
        report.problem(table["memory"].where, f"memory of {what} {error.message}", error.hint)
        return None
