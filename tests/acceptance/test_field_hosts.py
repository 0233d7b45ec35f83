"""Hosts as people have reported them: what each had, what happened there, and what is right now (tests/cases/field/hosts.yml).

A further report is a further case there. Whatever a case asks, no command may take what it finds for a bug of ours.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.acceptance import near
from tests.acceptance.near import document
from tests.model.fleet import vm_uuid
from tests.model.machine import ABSENT
from vgpumgr.core.driver.profiles import parse_type_name
from vgpumgr.host.protocol.gpu import MDEV_PF
from vgpumgr.lab.driver import boards
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.model import BoardSpec, TypeSpec
from vgpumgr.lab.driver.upgrade import Upgrade
from vgpumgr.lab.spec import FabricSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tests.acceptance.near import Near, Sites
    from tests.model.machine import Content, Machine

FIELD = Path(__file__).parents[1] / "cases/field"
CASES = yaml.safe_load((FIELD / "hosts.yml").read_text())
VMS = tuple(f"vm{number:02}" for number in range(1, 7))
_NO_TYPE = TypeSpec(id=1, name="NVIDIA NONE-1Q", series="Q", framebuffer_mib=1024, max_instances=1)
_LOOKS = ("list", "discover", "profiles")
_DESCRIPTION = re.compile(r"mdev_supported_types/nvidia-(\d+)/description$")


@pytest.mark.parametrize(
    ("case", "framework"),
    [
        pytest.param(case, framework, id=f"{case['case']}-{framework}")
        for case in CASES
        for framework in case.get("frameworks", [MDEV_PF])
    ],
)
def test_what_is_right_on_a_host_that_somebody_reported(case: dict[str, Any], framework: str, near_site: Sites) -> None:
    gpu = case["gpu"]
    rows = case.get("before", case.get("rows"))
    board = _board(gpu, rows, framework)
    shown = _shown(rows, case.get("iommu_groups", {}))
    fabric = FabricSpec(**case["fabric"]) if "fabric" in case else None
    one = near.NearHost(vms=VMS, framework=framework, cards={gpu["pci"]: board}, shown=shown, fabric=fabric)
    host = near_site({"kvm01": one})
    machine = host.machines["kvm01"]
    machine.figures = _figures(rows)
    _attach(host, case)
    before = _places(machine)
    for definition in case.get("definitions", ()):
        text = (FIELD / "definitions" / definition).read_text()
        name = re.findall("<name>(.*?)</name>", text)[0]
        machine.libvirt.define(name, vm_uuid("kvm01", name)).inactive = re.sub(
            "(?<=<uuid>).*?(?=</uuid>)", vm_uuid("kvm01", name), text
        )
    if "iommu_groups_then" in case:
        machine.shown = _shown(rows, case["iommu_groups_then"])
        machine._seen = None  # every file is looked at anew
        machine.show()
    if "then" in case:
        _reboot(machine, case)
    for step in case.get("play", ()):
        _play(host, step, before)
    for look in _LOOKS:
        done = host.run(*look.split())
        assert done.returncode in range(6), (look, done.stderr)
        assert "this is a bug" not in done.stderr, (look, done.stderr)
    assert machine.broken_promises == []


def _play(host: Near, step: Mapping[str, Any], before: Mapping[str, tuple[object, ...]]) -> None:
    machine = host.machines["kvm01"]
    match step:
        case {"run": command}:
            done = host.run(*shlex.split(command))
            said = done.stdout + done.stderr
            codes = step.get("code", 0)
            assert done.returncode in (codes if isinstance(codes, list) else [codes]), (command, done.returncode, said)
            for text in step.get("says", ()):
                assert text in said, (command, text, said)
            for text in step.get("not", ()):
                assert text not in said, (command, text, said)
        case {"declare": vms}:
            host.declare("kvm01", vgpumgr_vms={vm: {"vgpu0": wish} for vm, wish in vms.items()})
        case {"start": vm}:
            _start(machine, vm)
        case {"stop": vm}:
            machine.libvirt.vms[vm_uuid("kvm01", vm)].live = None
            machine.release(vm_uuid("kvm01", vm))
        case _:
            if "places" in step:
                most = 2 if step.get("generations") else 3
                assert {vm: at[:most] for vm, at in _places(machine).items()} == {
                    vm: at[:most] for vm, at in before.items()
                }
            types = {row["vm_name"]: row["type_name"].split()[-1] for row in machine.ledger()}
            assert step.get("types", {}).items() <= types.items(), types


def _start(machine: Machine, name: str) -> None:
    """The VM runs, with what its definition has. Functions of a group share its path in /dev/vfio."""
    vm = machine.libvirt.vms[vm_uuid("kvm01", name)]
    for gpu in machine.gpus():
        for vgpu in gpu.vgpus:
            link = (
                machine.root / f"sys/bus/pci/devices/{vf_pci(gpu, vgpu.vf)}/iommu_group"
                if vgpu.vf is not None
                else None
            )
            if vgpu.uuid is None and link is not None:
                vgpu.group = int(link.readlink().name)
    vm.live = vm.inactive
    for device in vm.hostdevs():
        assert machine.take(vm, str(device.source))


def _attach(host: Near, case: Mapping[str, Any]) -> None:
    for vm, asked in case.get("attached", {}).items():
        profile, _, function = asked.partition(" on ")
        document(host, "attach", vm, "--profile", profile)
        assert function in host.xml("kvm01", vm) or _bus_and_slot(function) in host.xml("kvm01", vm)
    if case.get("declared"):
        wishes = {vm: {"vgpu0": {"profile": asked.partition(" on ")[0]}} for vm, asked in case["attached"].items()}
        host.declare("kvm01", vgpumgr_vms=wishes)
        document(host, "reconcile", "--yes")


def _bus_and_slot(function: str) -> str:
    return f'function="0x{function[-1]}"'


def _places(machine: Machine) -> dict[str, tuple[object, ...]]:
    """VM → where its vGPU is, and which: as the ledger and the driver both have it."""
    there = {place.uuid or (place.gpu, place.vf) for place in machine.hardware()}
    rows = machine.ledger()
    assert {row["uuid"] or (row["gpu_uuid"], row["vf_index"]) for row in rows} >= there
    return {row["vm_name"]: (row["gpu_uuid"], row["vf_index"], row["generation"]) for row in rows}


def _reboot(machine: Machine, case: Mapping[str, Any]) -> None:
    (gpu,) = machine.gpus()
    rows = case.get("after")
    if rows is not None:
        gpu.board = replace(gpu.board, types=_types(rows))
        machine.figures = _figures(rows)
        machine.shown = _shown(rows, {})
    machine.reboot(Upgrade(framework=case.get("becomes")))


def _board(gpu: Mapping[str, Any], rows: list[Any] | None, framework: str) -> BoardSpec:
    vfs = 0 if framework == MDEV_PF else gpu.get("vfs", 6)
    if rows is None:
        return replace(boards.board(gpu["name"], "field"), vfs=vfs)
    return BoardSpec(
        name=gpu["name"],
        code=parse_type_name(rows[0][1].split()[-1]).board if rows else "NONE",
        pci_device_id=0x1BB3,
        framebuffer_mib=gpu["nvml_mib"],
        vfs=vfs,
        placements=False,
        types=_types(rows),
    )


def _types(rows: Iterable[list[Any]]) -> tuple[TypeSpec, ...]:
    """What the driver goes by: the size, or what the name says of it; as many as there are available at first."""
    kinds = [
        TypeSpec(id=number, name=name, series="Q", framebuffer_mib=size or _nominal(name), max_instances=left or most)
        for number, name, size, most, left in rows
    ]
    return tuple(kinds) or (_NO_TYPE,)


def _nominal(name: str) -> int:
    return 1024 * int(re.findall(r"\d+", name.rpartition("-")[2])[0])


def _figures(rows: list[Any] | None) -> dict[int, tuple[int | None, int | None]]:
    return {number: (size, most) for number, _, size, most, _ in rows or ()}


def _shown(rows: list[Any] | None, groups: Mapping[int, list[str]]) -> Callable[[str, Content], Content]:
    """The host's files, with what these types have no figures of, no type where there is none, and functions that share a group."""
    figures = _figures(rows)
    group = {f"{pci}/iommu_group": number for number, functions in groups.items() for pci in functions}

    def shown(where: str, content: Content) -> Content:
        if content == ABSENT or (rows == [] and "/mdev_supported_types/" in where):
            return ABSENT
        described = _DESCRIPTION.search(where)
        if described and int(described[1]) in figures:
            size, most = figures[int(described[1])]
            most_told = "" if most is None else f", max_instance={most}"
            return ABSENT if size is None else f"num_heads=4, frl_config=60, framebuffer={size}M{most_told}\n".encode()
        for end, number in group.items():
            if where.endswith(end) and isinstance(content, str):
                return re.sub(r"\d+$", str(number), content)
        return content

    return shown
