"""A lab spec from plain data: a built-in one, or a YAML file in the same format.

    hosts:
      kvm01:
        driver: 570                          # a branch, or the whole version
        framework: mdev-vf                   # mdev-vf or vendor-vfio; boards without SR-IOV are always mdev-pf
        numa: 0                              # for boards that do not set it; by default it follows from the bus
        boards: [A40, {board: A40, pci: "0000:81:00.0", numa: 1, framework: mdev-vf, vfs: 4}]
                                             # or {board: A100, mode: mig, instances: [2g.10gb, {profile: 3g.20gb,
                                             # start: 4}]}: in MIG mode, with instances that somebody else made;
                                             # nvlink: true links those of the host's GPUs that have it
        vms: ["vm[01:30]", {name: db, machine: pc, memory_mib: 128}]
        foreign: [{gpu: 1, vf: 0, type: A40-4Q, vm: db}]         # gpu: index or address
        scheduler_counts_idle: false         # set a scheduler if no VM holds a vGPU; true (default): if none exists
        fabric: {switches: 4, manager: running, mode: 2}         # NVSwitches (0 on Blackwell) of all GPUs; manager:
                                             # running, stopped or absent (default); FABRIC_MODE (default: 0)
        like: report.json                    # a report of `host certify` in place of all keys but vms and via
        via: jump01                          # or [jump01, jump02]: reached through these jump hosts
    jumps: [jump01]                          # machines with an sshd and nothing else
    declared: {kvm01: {vm01: {vgpu0: {profile: 4Q}}}}
    certificates: [hosts, users]             # which of the two have certificates instead of keys

Each mistake is a LabError that names the file and the place in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from vgpumgr.core.driver.profiles import parse_profile, parse_type_name
from vgpumgr.core.inventory import ranges
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FabricManager
from vgpumgr.errors import BadName, LabError
from vgpumgr.lab import builtin_specs, like
from vgpumgr.lab.driver import boards
from vgpumgr.lab.driver.boards import DRIVERS
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.driver.model import ForeignInstance, ForeignSpec, VmSpec
from vgpumgr.lab.spec import CERTIFIED, FRAMEWORKS, FabricSpec, FleetSpec, GpuSpec, HostSpec, host_state, lab_uuid
from vgpumgr.names import parse_host_name, parse_pci_address, parse_slot, parse_uuid, parse_vm_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vgpumgr.lab.driver.model import BoardSpec

Name = TypeVar("Name")

_HOST_KEYS = (
    "driver",
    "framework",
    "boards",
    "numa",
    "foreign",
    "vms",
    "scheduler_counts_idle",
    "fabric",
    "via",
    "like",
)
_LIKE_KEYS = ("like", "vms", "via")
_BUSES = ("41", "81", "c1", "01", "21", "61", "a1", "e1")  # buses of cards that set no address; from 80 up NUMA node 1
_MOST_SWITCHES = 6  # of an HGX A100 baseboard
_DRIVER = re.compile(r"(\d{3})(?:\.\d+){1,2}")
_ONE_HOST, _ITS_VMS = "kvm01", "vm[01:08]"  # of a report
_FIRST_VENDOR_VFIO = 580  # the branch from which the lab uses vendor-vfio if the spec names no framework


def load_spec(name_or_path: str) -> FleetSpec:
    """Load a built-in spec by name, a YAML file, or a report of `host certify`, as one host.

    Raises LabError, which says what is wrong, where, and the fix.
    """
    data = builtin_specs.BUILTIN.get(name_or_path)
    if data is not None:
        return fleet(name_or_path, data, f"built-in spec {name_or_path}")
    return read_file(name_or_path)


def read_file(path: str) -> FleetSpec:
    """Read a YAML spec, or a report."""
    file = Path(path)
    data = _data(file, "spec", f"name a YAML file, or one of: {' '.join(builtin_specs.BUILTIN)}")
    if like.is_report(data):
        data = {"hosts": {_ONE_HOST: {"like": str(file), "vms": [_ITS_VMS]}}}
    else:
        _find_reports(data, file.parent)
    return fleet(file.stem, data, path)


def _data(file: Path, what: str, hint: str) -> Any:
    """The plain data of a spec's or a report's file. Raises LabError; `hint` is about a file that cannot be read."""
    import yaml

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"no {what} {str(file)!r}: {getattr(error, 'strerror', None) or error}", hint=hint) from error
    try:
        # CSafeLoader is as safe as SafeLoader, but faster.
        is_json = what == "report" or file.suffix == ".json"
        return json.loads(text) if is_json else yaml.load(text, Loader=yaml.CSafeLoader)
    except ValueError as error:
        raise LabError(f"{file}: not JSON: {error}", hint="correct it, or write the report again") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise LabError(
            f"{file}{line}: not YAML: {getattr(error, 'problem', None) or error}", hint="correct that line"
        ) from error


def _find_reports(data: Any, folder: Path) -> None:
    """Complete the paths of reports (`like`), which a spec states relative to its own folder."""
    hosts = data.get("hosts") if isinstance(data, Mapping) else None
    for one in hosts.values() if isinstance(hosts, Mapping) else ():
        if isinstance(one, dict) and isinstance(one.get("like"), str):
            one["like"] = str(folder / one["like"])


def fleet(name: str, data: Any, where: str) -> FleetSpec:
    """Make a spec from plain data. `where` names the source of the data in errors."""
    top = _mapping(data, where, ("hosts", "declared", "jumps", "certificates"))
    jumps = _jumps(name, top.get("jumps", []), f"{where}: jumps")
    hosts = []
    for host_name, host in _mapping(top.get("hosts") or {}, f"{where}: hosts", None).items():
        place = f"{where}: hosts.{host_name}"
        via = _via(host, jumps, place)
        hosts.append(replace(_host(name, host_name, host, place), via=via))
    _unique((one.name for one in (*jumps, *hosts)), f"{where}: jumps")
    if not hosts:
        raise LabError(f"{where}: no hosts", hint="write `hosts: {kvm01: {boards: [A40]}}`")
    _unique((vm.name for host in hosts for vm in host.vms), f"{where}: vms")
    declared = _declared(top.get("declared"), hosts, f"{where}: declared")
    certificates = _certified(top.get("certificates", []), f"{where}: certificates")
    return FleetSpec(name=name, hosts=tuple(hosts), declared=declared, jumps=jumps, certificates=certificates)


def _jumps(fleet_name: str, names: Any, where: str) -> tuple[HostSpec, ...]:
    return tuple(
        HostSpec(
            name=_read(parse_host_name, name, where),
            machine_id=lab_uuid(fleet_name, str(name), "machine-id").replace("-", ""),
            driver_version=DRIVERS["570"],
            gpus=(),
            is_jump=True,
        )
        for name in _list(names, where)
    )


def _certified(kinds: Any, where: str) -> tuple[str, ...]:
    for kind in _list(kinds, where):
        if kind not in CERTIFIED:
            raise LabError(f"{where}: no certificates for {kind!r}", hint=f"certificates: [{', '.join(CERTIFIED)}]")
    return tuple(kinds)


def _via(host: Any, jumps: tuple[HostSpec, ...], where: str) -> tuple[str, ...]:
    via = host.get("via", []) if isinstance(host, Mapping) else []
    names = [jump.name for jump in jumps]
    chain = [via] if isinstance(via, str) else _list(via, f"{where}.via")
    for one in chain:
        if one not in names:
            raise LabError(f"{where}.via: no jump host {one!r}", hint=f"jumps: [{', '.join((*names, str(one)))}]")
    return tuple(chain)


def _host(fleet_name: str, name: str, data: Any, where: str) -> HostSpec:
    is_like = isinstance(data, Mapping) and "like" in data
    host = _mapping(data, where, _LIKE_KEYS if is_like else _HOST_KEYS)
    _read(parse_host_name, name, where)
    vms = tuple(
        vm
        for index, item in enumerate(_list(host.get("vms", []), f"{where}.vms"))
        for vm in _vms(fleet_name, name, item, f"{where}.vms[{index}]")
    )
    if is_like:
        file = Path(str(host["like"]))
        spec = like.host(fleet_name, name, _data(file, "report", "name a report of host certify"), vms, str(file))
        _try_foreign(spec, where)
        return spec
    version = _driver(host.get("driver", "570"), f"{where}.driver")
    branch = int(version.partition(".")[0])
    framework = host.get("framework", VENDOR_VFIO if branch >= _FIRST_VENDOR_VFIO else MDEV_VF)
    if framework not in FRAMEWORKS:
        raise LabError(
            f"{where}.framework: no framework {framework!r}", hint=f"write framework: {' or '.join(FRAMEWORKS)}"
        )
    gpus = _gpus(fleet_name, name, host, framework, where)
    for gpu in gpus:
        if why := boards.why_no_driver(gpu.board, branch):
            raise LabError(f"{where}.driver: {why}", hint="write another driver")
    foreign = []
    for index, item in enumerate(_list(host.get("foreign", []), f"{where}.foreign")):
        place = f"{where}.foreign[{index}]"
        foreign.append(_foreign(item, place, fleet_name=fleet_name, host_name=name, gpus=gpus, vms=vms))
    _unique((f"{item.gpu} VF {item.vf}" for item in foreign if item.vf is not None), f"{where}.foreign")
    spec = HostSpec(
        name=name,
        machine_id=lab_uuid(fleet_name, name, "machine-id").replace("-", ""),
        driver_version=version,
        gpus=gpus,
        foreign=tuple(foreign),
        vms=vms,
        scheduler_counts_idle=_flag(host.get("scheduler_counts_idle", True), f"{where}.scheduler_counts_idle"),
        fabric=_fabric(host.get("fabric"), f"{where}.fabric"),
    )
    _try_foreign(spec, where)
    return spec


def _fabric(data: Any, where: str) -> FabricSpec | None:
    if data is None:
        return None
    fields = _mapping(data, where, ("switches", "manager", "mode"))
    manager = fields.get("manager", "absent")
    if manager not in get_args(FabricManager):
        raise LabError(f"{where}.manager: no state {manager!r}", hint=f"write {', '.join(get_args(FabricManager))}")
    switches = _number(fields.get("switches", 0), f"{where}.switches")
    if switches > _MOST_SWITCHES:
        raise LabError(f"{where}.switches: {switches} NVSwitches", hint=f"write at most {_MOST_SWITCHES}")
    return FabricSpec(switches=switches, manager=manager, mode=_number(fields.get("mode", 0), f"{where}.mode"))


def _try_foreign(spec: HostSpec, where: str) -> None:
    """Try whether a driver can make the foreign GPU instances and vGPUs, as the lab's will have to. Raises LabError."""
    try:
        Driver(host_state(spec, boot_id="")).make_foreign()
    except OSError as error:
        raise LabError(
            f"{where}: a GPU does not take all the instances or foreign vGPUs that it should have",
            hint="write fewer, instances with another start, or types that go together",
        ) from error


def _driver(value: Any, where: str) -> str:
    text = str(value).removeprefix("r").removeprefix("R")
    if text in DRIVERS:
        return DRIVERS[text]
    if _DRIVER.fullmatch(text) is None:
        raise LabError(
            f"{where}: not a driver version: {value!r}", hint=f"write a branch ({' '.join(DRIVERS)}) or 570.172.07"
        )
    return text


def _gpus(fleet_name: str, host_name: str, host: Mapping[str, Any], framework: str, where: str) -> tuple[GpuSpec, ...]:
    items = host.get("boards", [])
    gpus: list[GpuSpec] = []
    free = list(_BUSES)
    for index, item in enumerate(_list(items, f"{where}.boards")):
        place = f"{where}.boards[{index}]"
        data = _mapping(
            {"board": item} if isinstance(item, str) else item,
            place,
            ("board", "pci", "numa", "framework", "vfs", "mode", "instances", "nvlink"),
        )
        board = boards.board(str(data.get("board", "")), place)
        if "vfs" in data:
            board = replace(board, vfs=_vfs(data["vfs"], board, f"{place}.vfs"))
        if "pci" in data:
            pci = _read(parse_pci_address, data["pci"], f"{place}.pci")
            if not pci.endswith(":00.0"):
                raise LabError(
                    f"{place}.pci: {pci} is not the address of a card itself", hint="write it as 0000:41:00.0"
                )
        elif free:
            pci = _read(parse_pci_address, f"0000:{free[0]}:00.0", place)
        else:
            raise LabError(f"{place}: the lab assigns only {len(_BUSES)} addresses", hint="add `pci:`")
        free = [bus for bus in free if f":{bus}:" not in pci]
        mig = _is_mig(data.get("mode"), board, f"{place}.mode")
        numa = data.get("numa", host.get("numa"))
        gpus.append(
            GpuSpec(
                pci=pci,
                uuid="GPU-" + lab_uuid(fleet_name, host_name, pci),
                board=board,
                framework=_framework(data.get("framework", framework), board, "framework" in data, place),
                numa_node=int(int(pci.split(":")[1], 16) >= 0x80) if numa is None else _number(numa, f"{place}.numa"),
                mig=mig,
                instances=_instances(data.get("instances", []), pci, board if mig else None, f"{place}.instances"),
                nvlink=_flag(data.get("nvlink", False), f"{place}.nvlink"),
            )
        )
    if not gpus:
        raise LabError(f"{where}: no boards", hint="write boards: [A40]; the lab has " + " ".join(boards.board_codes()))
    _unique((gpu.pci for gpu in gpus), f"{where}.boards")
    return tuple(gpus)


def _framework(framework: Any, board: BoardSpec, stated: bool, where: str) -> str:
    """The framework of a board: mdev-pf without SR-IOV, otherwise the requested one if the board supports it."""
    valid = (MDEV_VF, VENDOR_VFIO) if board.vfs else (MDEV_PF,)
    if not board.vfs and not stated:
        return MDEV_PF
    if framework not in valid:
        raise LabError(f"{where}: {board.code} cannot be {framework!r}", hint=f"write framework: {' or '.join(valid)}")
    return str(framework)


def _vfs(value: Any, board: BoardSpec, where: str) -> int:
    """The number of VFs. A host with fewer than its board can have is faster to read."""
    if not 1 <= _number(value, where) <= board.vfs:
        has = f"has {board.vfs}" if board.vfs else "has none"
        raise LabError(f"{where}: {value} of the VFs of {board.code}, which {has}", hint="write fewer, or leave it out")
    return int(value)


def _is_mig(mode: Any, board: BoardSpec, where: str) -> bool:
    if mode not in (None, "mig"):
        raise LabError(f"{where}: no mode {mode!r}", hint="write mode: mig, or leave it out")
    if mode == "mig" and board.mig is None:
        raise LabError(f"{where}: {board.code} has no MIG", hint="leave it out")
    return mode is not None


def _instances(items: Any, pci: str, board: BoardSpec | None, where: str) -> tuple[ForeignInstance, ...]:
    """The foreign GPU instances that `items` describe. `board` is None if the GPU is not in MIG mode.

    Whether the instances fit beside each other is not checked here.
    """
    names = {profile.name: profile for profile in board.mig.profiles} if board is not None and board.mig else {}
    instances: list[ForeignInstance] = []
    for index, item in enumerate(_list(items, where)):
        place = f"{where}[{index}]"
        data = _mapping({"profile": item} if isinstance(item, str) else item, place, ("profile", "start"))
        if not names:
            raise LabError(f"{place}: the GPU is not in MIG mode", hint="add mode: mig")
        profile = names.get(str(data.get("profile", "")))
        if profile is None:
            raise LabError(f"{place}: no profile {data.get('profile')!r}", hint=f"write one of: {' '.join(names)}")
        start = data.get("start")
        if start is not None and _number(start, f"{place}.start") not in profile.starts:
            raise LabError(
                f"{place}.start: {profile.name} cannot begin at {start}",
                hint=f"write one of: {' '.join(map(str, profile.starts))}",
            )
        instances.append(ForeignInstance(gpu=pci, profile=profile.name, start=start))
    return tuple(instances)


def _vms(fleet_name: str, host_name: str, item: Any, where: str) -> Iterable[VmSpec]:
    data = _mapping({"name": item} if isinstance(item, str) else item, where, ("name", "uuid", "machine", "memory_mib"))
    machine = data.get("machine", "q35")
    if machine not in ("q35", "pc"):
        raise LabError(f"{where}.machine: {machine!r} is not a machine type of the lab", hint="write q35 or pc")
    for name in _read(ranges.names, data.get("name", ""), f"{where}.name"):
        yield VmSpec(
            name=_read(parse_vm_name, name, f"{where}.name"),
            uuid=_read(parse_uuid, data.get("uuid", lab_uuid(fleet_name, host_name, name)), f"{where}.uuid"),
            machine=machine,
            memory_mib=_number(data.get("memory_mib", 64), f"{where}.memory_mib"),
        )


def _foreign(
    item: Any,
    where: str,
    *,
    fleet_name: str,
    host_name: str,
    gpus: tuple[GpuSpec, ...],
    vms: tuple[VmSpec, ...],
) -> ForeignSpec:
    data = _mapping(item, where, ("gpu", "vf", "type", "uuid", "vm"))
    gpu_key = data.get("gpu", 0)
    by_name = {str(index): gpu for index, gpu in enumerate(gpus)} | {gpu.pci: gpu for gpu in gpus}
    gpu = by_name.get(str(gpu_key).lower())
    if gpu is None:
        raise LabError(f"{where}.gpu: the host has no GPU {gpu_key!r}", hint="write one of: " + " ".join(by_name))
    vf: int | None = None
    if gpu.framework != MDEV_PF:
        vf = _number(data.get("vf", 0), f"{where}.vf")
        if vf >= gpu.board.vfs:
            raise LabError(f"{where}.vf: {gpu.board.code} has no VF {vf}", hint=f"write 0 to {gpu.board.vfs - 1}")
    vm = data.get("vm")
    if vm is not None and vm not in {one.name for one in vms}:
        raise LabError(f"{where}.vm: the host has no VM {vm!r}", hint="add it to the host's vms")
    made_up = lab_uuid(fleet_name, host_name, "foreign", gpu.pci, str(vf), str(vm))
    return ForeignSpec(
        gpu=gpu.pci,
        vf=vf,
        type_id=boards.type_of(gpu.board, str(data.get("type", "")), f"{where}.type", mig=gpu.mig).id,
        uuid=None if gpu.framework == VENDOR_VFIO else _read(parse_uuid, data.get("uuid", made_up), f"{where}.uuid"),
        vm=vm,
    )


def _declared(data: Any, hosts: list[HostSpec], where: str) -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    """What the inventory declares, as host → VM → slot → {"profile": …}.

    Each name must be known, and the host must have each profile.
    """
    by_name = {host.name: host for host in hosts}
    declared: dict[str, dict[str, dict[str, dict[str, str]]]] = {}
    for host_name, vms in _mapping(data or {}, where, tuple(by_name)).items():
        host = by_name[host_name]
        names = tuple(vm.name for vm in host.vms)
        for vm, slots in _mapping(vms, f"{where}.{host_name}", names).items():
            for slot, wish in _mapping(slots, f"{where}.{host_name}.{vm}", None).items():
                place = f"{where}.{host_name}.{vm}.{slot}"
                _read(parse_slot, slot, place)
                text = str(_mapping(wish, place, ("profile",)).get("profile", ""))
                _known_profile(text, host, place)
                declared.setdefault(host_name, {}).setdefault(vm, {})[slot] = {"profile": text}
    return declared


def _known_profile(text: str, host: HostSpec, where: str) -> None:
    profile = _read(parse_profile, text, where)
    kinds = [kind for gpu in host.gpus for kind in (gpu.board.mig_types if gpu.mig else gpu.board.types)]
    names = sorted({kind.name.split()[-1] for kind in kinds})
    types = [parse_type_name(name) for name in names]
    if not any(one.short == profile.short and profile.board in (None, one.board) for one in types):
        raise LabError(f"{where}: no board of {host.name} has {text!r}", hint="write one of: " + " ".join(names))


# plain data


def _mapping(value: Any, where: str, keys: tuple[str, ...] | None) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise LabError(f"{where}: not a mapping: {value!r}", hint=f"keys: {' '.join(keys or ())}")
    for key in value:
        if not isinstance(key, str) or (keys is not None and key not in keys):
            raise LabError(f"{where}: unknown key {key!r}", hint=f"write one of: {' '.join(keys or ())}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise LabError(f"{where}: not a list: {value!r}", hint="write [one, two]")
    return value


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise LabError(f"{where}: not true or false: {value!r}", hint="write true or false")
    return value


def _number(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise LabError(f"{where}: not a number: {value!r}", hint="write 0, 1, 2 …")
    return value


def _unique(names: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise LabError(f"{where}: {name} appears twice", hint="give each its own name or address")
        seen.add(name)


def _read(parse: Callable[[str], Name], text: Any, where: str) -> Name:
    try:
        return parse(str(text))
    except BadName as error:
        raise LabError(f"{where}: {error.message}", hint=error.hint or "correct it") from error
