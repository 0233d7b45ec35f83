"""Hosts made from captures of real ones: each folder of tests/cases/sysfs is one (see its README)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.unit.host.fakehost import FakeHost

FOLDER = Path(__file__).parents[1] / "cases/sysfs"

_MDEV_TYPES = "mdev_supported_types"
_NVIDIA_FILES = ("current_vgpu_type", "gpu_instance_id", "placement_id", "vgpu_params", "warm_update")
_MDEVCTL = {"Available instances": "available_instances", "Device API": "device_api", "Name": "name"}


@dataclass(frozen=True)
class Capture:
    """One folder: its files, what `machine.yaml` adds to them, and what is expected."""

    folder: Path
    machine: dict[str, Any]
    expect: dict[str, Any]

    def __str__(self) -> str:
        return self.folder.name

    def text(self, pattern: str) -> str | None:
        """The one file of that name; None where the capture has none."""
        found = sorted(self.folder.glob(pattern))
        return found[0].read_text(encoding="utf-8") if found else None


def captures() -> list[Capture]:
    """All of them, by name."""
    return [
        Capture(
            folder=folder,
            machine=yaml.safe_load((folder / "machine.yaml").read_text(encoding="utf-8")),
            expect=yaml.safe_load((folder / "expect.yaml").read_text(encoding="utf-8")),
        )
        for folder in sorted(FOLDER.iterdir())
        if folder.is_dir()
    ]


def build(capture: Capture, root: Path) -> FakeHost:
    """A host's files, with all that the capture has."""
    host = FakeHost.build(root, gpus=())
    host.put("/sys/module/nvidia/version", capture.machine["driver"])
    for pci, facts in capture.machine["gpus"].items():
        host.put(
            f"/proc/driver/nvidia/gpus/{pci}/information",
            f"Model: \t\t {facts['name']}\nGPU UUID: \t {facts['uuid']}\nBus Location: \t {pci}",
        )
    umockdev, mdevctl = capture.text("*.umockdev"), capture.text("mdevctl-types.txt")
    if umockdev is not None:
        _put_umockdev(host, umockdev)
    else:
        for pci, facts in capture.machine["gpus"].items():
            _put_gpu(host, pci, facts)
    types = capture.text(f"{_MDEV_TYPES}*.tsv")
    if types is not None:
        _put_types(host, types)
    if mdevctl is not None:
        _put_mdevctl(host, mdevctl)
    creatable = capture.text("creatable_vgpu_types*")
    if creatable is not None:
        for pci, facts in capture.machine["gpus"].items():
            _put_vendor_vfs(host, pci, facts["vfs"], capture, creatable)
    return host


def _put_umockdev(host: FakeHost, text: str) -> None:
    """P: a device's path, A: a file with its text, L: a link with its target; E: is udev's (umockdev's README)."""
    top = ""
    for line in text.splitlines():
        kind, _, rest = line.partition(": ")
        name, _, value = rest.partition("=")
        if kind == "P":
            top = f"/sys{rest}"
            host.path(top).mkdir(parents=True, exist_ok=True)
        elif kind == "A":
            path = host.path(f"{top}/{name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(value.replace("\\n", "\n").replace("\\\\", "\\"), encoding="utf-8")
        elif kind == "L":
            host.path(f"{top}/{name}").symlink_to(value)
        elif kind == "E" and name == "SUBSYSTEM":
            host.link(f"/sys/bus/{value}/devices/{Path(top).name}", top)


def _put_gpu(host: FakeHost, pci: str, facts: dict[str, Any]) -> None:
    top = host.add_function(pci)
    host.put(f"{top}/device", facts["device"])
    vfs = facts.get("vfs")
    if vfs is not None:
        host.put(f"{top}/sriov_totalvfs", str(vfs["count"]))
        host.put(f"{top}/sriov_numvfs", str(vfs["count"]))


def _put_types(host: FakeHost, text: str) -> None:
    """On every VF; where one holds an mdev, it has no instance left of any type."""
    files = dict(line.split("\t", 1) for line in text.splitlines())
    for link in sorted(host.path("/sys/bus/pci/devices").iterdir()):
        function = link.resolve()
        if not (function / "physfn").is_symlink():
            continue
        holds = any(re.fullmatch(r"[0-9a-f-]{36}", child.name) for child in function.iterdir())
        for name, value in files.items():
            path = function / _MDEV_TYPES / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("0\n" if holds and path.name == "available_instances" else f"{value}\n", encoding="utf-8")


def _put_mdevctl(host: FakeHost, text: str) -> None:
    pci, kind = "", ""
    for line in text.splitlines():
        key, _, value = line.strip().partition(": ")
        if not line.startswith(" "):
            pci = line.strip()
        elif key.startswith("nvidia-"):
            kind = f"{host.function(pci)}/{_MDEV_TYPES}/{key}"
        else:
            host.put(f"{kind}/{_MDEVCTL.get(key, key.lower())}", value)


def _put_vendor_vfs(host: FakeHost, pci: str, vfs: dict[str, Any], capture: Capture, creatable: str) -> None:
    offered = vfs.get("offers")
    header, *rows = creatable.splitlines()
    free = [row for row in rows if offered is None or int(row.split(":")[0]) in offered]
    for index in range(vfs["count"]):
        number, group = index + vfs["offset"], index + vfs["first_group"]
        function = host.add_function(f"{pci[:-4]}{number >> 3:02x}.{number & 7}", group=group)
        host.link(f"{host.function(pci)}/virtfn{index}", function)
        host.link(f"{function}/physfn", host.function(pci))
        host.path(f"{function}/vfio-dev/vfio{group}").mkdir(parents=True)
        for name in _NVIDIA_FILES:
            text = capture.text(name)
            if text is not None:
                host.put(f"{function}/nvidia/{name}", text.rstrip("\n"))
        current = vfs.get("set", {}).get(index, 0)
        host.put(f"{function}/nvidia/current_vgpu_type", str(current))
        host.put(f"{function}/nvidia/creatable_vgpu_types", "\n".join([header, *([] if current else free)]))
