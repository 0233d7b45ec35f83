"""What a simulated host is at first, what somebody has left there since, and the way back: for labs that tests share.

All is read from outside, as the host's supervisor sees it, and by none of the product's code: that costs milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tests.controllers import wait_until
from vgpumgr.lab import fleet

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

_DEFINITIONS = "etc/libvirt/qemu/"
_KEPT_BY_LIBVIRT = ("var/lib/libvirt/qemu/save/", "var/lib/libvirt/qemu/snapshot/")  # they go with the definition
# What libvirt and sshd do for themselves.
_NOISE = ("var/log", "var/cache", "var/lib/libvirt/qemu/domain-", "var/lib/libvirt/qemu/channel", "run/")
_NOT_EMPTY = re.compile(r"vgpumgr|<hostdev")
_DRIVER = "sys/kernel/debug/nvlab/nvml"
_NOT_STATE = re.compile(r" (?:used_mib|util_\w+|temperature|power|fb_used|creatable|left)=\S*")
_LINES = ("gpu ", "instance ", "compute ", "scheduler ", "vgpu ")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """`content` is None for a folder."""

    mode: int
    content: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """One host at one moment. `driver` are the lines of the driver's state that a command can change."""

    files: dict[str, File]
    definitions: dict[str, str]
    devices: frozenset[str]
    driver: frozenset[str]
    running: frozenset[str]
    held: frozenset[str]
    faults: frozenset[str]
    lost: frozenset[str]

    def settings(self) -> frozenset[str]:
        """The driver's lines about GPUs: modes, schedulers, GPU instances."""
        return frozenset(line for line in self.driver if not line.startswith("vgpu "))


class Home:
    """One host's file systems, as they can be reached from here."""

    def __init__(self, lab: Lab, host: str) -> None:
        pid = fleet.read(lab.layout).host(host).pid
        self.disk = Path(f"/proc/{pid}/root{lab.layout.host(host).resolve()}/disk")
        self.root = self.disk / "root"

    def written(self) -> dict[str, File]:
        """Each file and folder that was written on its disk, in /tmp and in /dev/shm since it was installed, by its path."""
        found: dict[str, File] = {}
        for place, folder in (
            ("", self.disk / "upper"),
            ("tmp/", self.root / "tmp"),
            ("dev/shm/", self.root / "dev/shm"),
        ):
            for path in folder.rglob("*"):
                name = place + str(path.relative_to(folder))
                if not name.startswith(_NOISE):
                    with contextlib.suppress(
                        FileNotFoundError
                    ):  # libvirtd writes a definition beside the old one first
                        found[name] = _read(path)
        return found


def _read(path: Path) -> File:
    about = path.lstat()
    mode = stat.S_IMODE(about.st_mode)
    if stat.S_ISLNK(about.st_mode):
        return File(mode=mode, content=str(path.readlink()).encode())
    return File(mode=mode, content=path.read_bytes() if stat.S_ISREG(about.st_mode) else None)


def look(lab: Lab, host: str) -> HostState:
    """How the host is now."""
    home = Home(lab, host)
    status = lab.control(host, "status")
    written = home.written()
    definitions = {
        name.removeprefix(_DEFINITIONS).removesuffix(".xml"): (file.content or b"").decode()
        for name, file in written.items()
        if name.startswith(_DEFINITIONS) and name.endswith(".xml")
    }
    driver = home.root / _DRIVER
    lines = driver.read_text(encoding="ascii").splitlines() if driver.exists() else []
    return HostState(
        files={name: file for name, file in written.items() if not name.startswith(_DEFINITIONS)},
        definitions=definitions,
        devices=_devices(home),
        driver=frozenset(_NOT_STATE.sub("", line) for line in lines if line.startswith(_LINES)),
        running=frozenset(path.stem for path in (home.root / "run/libvirt/qemu").glob("*.xml")),
        held=frozenset(status["held"]),
        faults=frozenset(status["faults"]),
        lost=frozenset(status["lost"]),
    )


def left(first: HostState, now: HostState) -> list[str]:
    """What is no longer as it was at first, each by its name."""
    return [
        *(f"fault {name}" for name in sorted(now.faults)),
        *(f"VM {name} runs" for name in sorted(now.running | now.held)),
        *(f"lost vGPU {name}" for name in sorted(now.lost)),
        *(f"VM {name} is gone" for name in sorted(first.definitions.keys() - now.definitions.keys())),
        *(f"VM {name} is new" for name in sorted(now.definitions.keys() - first.definitions.keys())),
        *(f"claim or device of VM {name}" for name in sorted(_used(now) - _used(first))),
        *(f"driver: {line}" for line in sorted(map(unquote, now.driver - first.driver))),
        *(f"driver, no longer: {line}" for line in sorted(map(unquote, first.driver - now.driver))),
        *(f"/dev/vfio: {', '.join(sorted(now.devices ^ first.devices))}" for _ in (1,) if now.devices != first.devices),
        *(f"file /{name}" for name in sorted(_changed(first, now)) if not _says_nothing(name, now)),
    ]


def _used(state: HostState) -> set[str]:
    return {name for name, text in state.definitions.items() if _NOT_EMPTY.search(text)}


def _changed(first: HostState, now: HostState) -> set[str]:
    return {name for name in first.files.keys() | now.files.keys() if first.files.get(name) != now.files.get(name)}


def _says_nothing(name: str, now: HostState) -> bool:
    """A ledger without any entry, which is what detach leaves, and the folders that a file of ours lies in."""
    file = now.files.get(name)
    if file is None:
        return False
    if name == "var/lib/vgpumgr/ledger.json" and file.content is not None:
        try:
            document = json.loads(file.content)
        except ValueError:
            return False
        return not any(document.get(key) for key in ("entries", "cordons", "instances", "blocked_writes"))
    return file.content is None and name in (
        "var/lib/libvirt/qemu/save",
        "var/lib/libvirt/qemu/snapshot",
        "var/lib/libvirt",
    )


def wipe(lab: Lab, host: str, first: HostState) -> HostState:
    """Take away what came since, by the host's own means. Returns how it is then: as at first, but for `left` of it.

    Only what differs is touched. A reboot ends what no other way does: settings of GPUs, lost vGPUs, devices.
    """
    now = look(lab, host)
    if now == first:
        return first
    if now.faults:
        lab.control(host, "clear")
    for vm in sorted((now.held | now.running) & now.definitions.keys()):
        lab.control(host, "release", vm=vm)
    home = Home(lab, host)
    _define_again(lab, host, home, first, now)
    _free(home, first, now)
    for name in sorted(_changed(first, now), reverse=True):  # a folder's files before the folder
        _restore(home.root / name, first.files.get(name))
    then = look(lab, host)
    if then.settings() != first.settings() and any(" mig=1" in line for line in first.driver):
        _end_instances(lab, host)
        then = look(lab, host)
    if then.settings() != first.settings() or then.lost or not _have_followed(home, first):
        lab.control(host, "reboot")
    return look(lab, host)


def _have_followed(home: Home, first: HostState) -> bool:
    """Whether the nodes in /dev are those of the first vGPUs again, which takes the host's udev a moment."""
    with contextlib.suppress(AssertionError):
        wait_until(lambda: _devices(home) == first.devices, "nodes in /dev", seconds=1)
    return _devices(home) == first.devices


def _devices(home: Home) -> frozenset[str]:
    return frozenset(path.name for path in (home.root / "dev/vfio").glob("*"))


def _define_again(lab: Lab, host: str, home: Home, first: HostState, now: HostState) -> None:
    """Each VM whose definition, image or snapshot is another one."""
    kept = {
        name.split("/")[5].removesuffix(".save") for name in _changed(first, now) if name.startswith(_KEPT_BY_LIBVIRT)
    }
    names = first.definitions.keys() | now.definitions.keys()
    changed = sorted(name for name in names if first.definitions.get(name) != now.definitions.get(name) or name in kept)
    commands = []
    for name in changed:
        if name in now.definitions:
            commands.append(f"undefine {name} --managed-save --snapshots-metadata")
        if name in first.definitions:
            (home.root / f"run/first-{name}.xml").write_text(first.definitions[name], encoding="utf-8")
            commands.append(f"define /run/first-{name}.xml")
    if commands:
        lab.must(host, "bash", "-ec", f"'virsh -q -c qemu:///system \"{'; '.join(commands)}\"; rm -f /run/first-*.xml'")


def _free(home: Home, first: HostState, now: HostState) -> None:
    """Every vGPU and GPU instance that was not there at first. A VF of vendor-vfio is freed by its type 0."""
    had = {word for line in first.driver if line.startswith("vgpu ") for word in line.split()}
    for mdev in (home.root / "sys/bus/mdev/devices").glob("*"):
        if f"mdev={mdev.name}" not in had:
            (mdev / "remove").write_text("1\n", encoding="ascii")
    if any(line.startswith("vgpu ") for line in first.driver):
        return
    for kind in (home.root / "sys/bus/pci/devices").glob("*/nvidia/current_vgpu_type"):
        if kind.read_text(encoding="ascii").strip() != "0":
            kind.write_text("0\n", encoding="ascii")


def _end_instances(lab: Lab, host: str) -> None:
    """GPU instances stay over a reboot on some boards. 6: there is none."""
    lab.must(host, "bash", "-s", text="for what in dci dgi; do nvidia-smi mig -$what >/dev/null || [ $? = 6 ]; done")


def _restore(path: Path, file: File | None) -> None:
    if path.parts[-5:-1] == ("lib", "libvirt", "qemu", "save") or "snapshot" in path.parts:
        return  # gone with the definition
    if file is None:
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        else:
            path.unlink(missing_ok=True)
        return
    if file.content is None:
        path.mkdir(exist_ok=True)
    elif not path.is_symlink():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
    path.chmod(file.mode)
