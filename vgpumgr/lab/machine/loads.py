"""What `lab load` requests from a host's driver: a guest's load on its VM's vGPUs, and what it gets of that now."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypedDict

from vgpumgr.errors import LabError
from vgpumgr.lab.driver.addresses import key_of
from vgpumgr.lab.driver.model import Engine, Use

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vgpumgr.lab.driver.driver import Driver
    from vgpumgr.lab.driver.model import Gpu, HostState, Vgpu
    from vgpumgr.lab.machine.holder import Guest


class LoadRecord(TypedDict):
    """One vGPU's load: percent of the whole GPU by engine, requested and received; its used framebuffer in bytes."""

    vm: str
    device: str
    type: str
    policy: str
    wants: dict[str, float]
    gets: dict[str, float]
    framebuffer: int


def put(driver: Driver, guest: Guest, request: Mapping[str, str]) -> list[LoadRecord]:
    """Put the requested load on the vGPUs that the guest holds, or only on `device`; return what each gets now.

    Fields not in the request are 0. Raises LabError, and changes nothing, if the guest holds nothing or not that
    device, if the board has no encoder to load, or if more framebuffer is requested than the type has.
    """
    device = request.get("device", "").lower()
    wants = Use(**{field.name: float(request.get(field.name, 0)) for field in dataclasses.fields(Use)})
    framebuffer = int(request.get("framebuffer", 0))
    with driver.reading() as state:
        vgpus = {key_of(gpu, vgpu): (gpu, vgpu) for gpu, vgpu in _held(state) if vgpu.holder_uuid == guest.uuid}
        if not vgpus:
            raise LabError(f"{guest.name} holds no vGPU to put a load on", hint=f"vgpumgr lab hold {guest.name}")
        if device and device not in vgpus:
            raise LabError(f"{guest.name} holds no vGPU {device}", hint=f"write one of: {' '.join(vgpus)}")
        targets = {key: pair for key, pair in vgpus.items() if not device or key == device}
        for gpu, vgpu in targets.values():
            _check(gpu, vgpu, wants, framebuffer)
        for key in targets:
            driver.set_load(key, wants, framebuffer)
        return [_record(gpu, vgpu) for gpu, vgpu in targets.values()]


def of_host(state: HostState) -> list[LoadRecord]:
    """All current loads."""
    return [_record(gpu, vgpu) for gpu, vgpu in _held(state) if vgpu.wants != Use() or vgpu.framebuffer_used]


def _held(state: HostState) -> Iterator[tuple[Gpu, Vgpu]]:
    return ((gpu, vgpu) for gpu in state.gpus for vgpu in gpu.vgpus if vgpu.runs)


def _check(gpu: Gpu, vgpu: Vgpu, wants: Use, framebuffer: int) -> None:
    name = _short(vgpu)
    if framebuffer > vgpu.type.framebuffer_mib << 20:
        raise LabError(
            f"{framebuffer} bytes is more framebuffer than {name} has",
            hint=f"it has {vgpu.type.framebuffer_mib << 20} bytes: --fb {vgpu.type.framebuffer_mib}M",
        )
    if wants.encoder and Engine.NVENC0 not in gpu.schedulers:
        raise LabError(f"{name} of {gpu.board.name} has no video encoder", hint="leave --encoder out")


def _record(gpu: Gpu, vgpu: Vgpu) -> LoadRecord:
    return LoadRecord(
        vm=vgpu.holder_name or "",
        device=key_of(gpu, vgpu),
        type=_short(vgpu),
        policy=gpu.schedulers[Engine.GRAPHICS].policy.name.lower().replace("_", "-"),
        wants=dataclasses.asdict(vgpu.wants),
        gets=dataclasses.asdict(vgpu.had[-1].use),
        framebuffer=vgpu.framebuffer_used,
    )


def _short(vgpu: Vgpu) -> str:
    return vgpu.type.name.split()[-1]
