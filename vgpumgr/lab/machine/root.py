"""A simulated host's file system: the machine's programs, but none of its data.

    DIR/disk             tmpfs, the host's disk: it lives as long as the supervisor, so it survives the host's reboots
      upper/ work/       what the host writes, on top of the machine's own / (which is only read)
      root/              the host's root: an overlay of both
        dev run tmp      new at each boot
        sys              the simulated driver (FUSE), with the machine's cpu, node and cgroup directories bound in
        proc             mounted by the host's first process (machine.py), because it shows a pid namespace

Everything is mounted in the supervisor's own mount namespace and ends with it. Directories of the machine that hold
data, keys or a user's settings are hidden by empty opaque ones, so that a host is clean and fast, and so that
nothing it does can reach the machine's /etc, /var or /root.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from vgpumgr.lab.machine import namespace, sriov_manage

# Only these of the machine's top directories are visible in a host; all others exist but are empty.
SHOWN = frozenset({"bin", "etc", "lib", "lib32", "lib64", "libx32", "sbin", "usr", "var"})
# These directories below the visible ones are empty at first and belong to the host.
HIDDEN = (
    "etc/libvirt/hooks",
    "etc/libvirt/nwfilter",
    "etc/libvirt/qemu",
    "etc/modprobe.d",
    "etc/ssh",
    "etc/sudoers.d",
    "etc/systemd/system",
    "etc/vgpumgr",
    "usr/lib/nvidia",
    "var/cache",
    "var/lib/libvirt",
    "var/lib/vgpumgr",
    "var/log",
    "var/spool",
    "var/tmp",
)
# name: (major, minor). No kvm: guests are emulated, whatever the machine has.
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
# The parts of the machine's own /sys that libvirt and QEMU read about processors and memory.
REAL_SYS = ("devices/system/cpu", "devices/system/node", "fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRoot:
    """The file system of one host. `folder` is D/hosts/NAME; use it in the supervisor's namespace only."""

    folder: Path

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def path(self) -> Path:
        """The host's / in the supervisor's namespace."""
        return self.disk / "root"

    def build(self, *, name: str, machine_id: str) -> None:
        """Create the disk with a fresh installation. To be called once, before the first boot."""
        self.disk.mkdir(exist_ok=True)
        namespace.mount_tmpfs(self.disk)
        upper = self.disk / "upper"
        for folder in (upper, self.disk / "work", self.path):
            folder.mkdir()
        for hidden in (*HIDDEN, *_hidden_at_top()):
            _make_opaque(upper, hidden)
        (upper / "root").chmod(0o700)
        (upper / "var/tmp").chmod(0o1777)
        # Relative, because a comma or a colon in the lab's path would end an overlay option.
        os.chdir(self.disk)
        namespace.mount("host", self.path, "overlay", options="lowerdir=/,upperdir=upper,workdir=work")
        os.chdir("/")
        self.write("etc/machine-id", f"{machine_id}\n", mode=0o444)
        self.write("etc/hostname", f"{name}\n")
        self.write(sriov_manage.PATH, sriov_manage.PROGRAM, mode=0o755)
        self.write("etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n")

    def bind_real_sys(self) -> None:
        """Show the machine's processors, memory nodes and cgroups below the simulated /sys, once that is mounted."""
        for name in REAL_SYS:
            real = Path("/sys") / name
            if real.is_dir():
                namespace.bind(real, self.path / "sys" / name, recursive=True)

    def mount_for_boot(self) -> None:
        """Mount what is new at each boot: /run, /tmp and /dev."""
        for name, mode in (("run", "755"), ("tmp", "1777"), ("dev", "755")):
            target = self.path / name
            namespace.detach(target)
            namespace.mount_tmpfs(target, mode=mode)
        _fill_dev(self.path / "dev")
        for name in ("run/sshd", "run/lock", "run/libvirt"):
            (self.path / name).mkdir(mode=0o755)

    def write(self, name: str, content: str | bytes, *, mode: int = 0o644) -> None:
        """Write one file of the host. A symbolic link there is replaced, never followed: it could lead out."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink():
            target.unlink()
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        target.chmod(mode)

    def log(self, line: str) -> None:
        """Add a record to the kernel's log, a file here: priority, number, microseconds since the boot, no flags."""
        with (self.path / "dev/kmsg").open("a", encoding="utf-8") as records:
            records.write(f"3,{records.tell()},{time.monotonic_ns() // 1000},-;{line}\n")

    def make_node(self, name: str) -> None:
        """Create /dev/NAME: a character device that can be opened, which is all that a holder does with it.

        Raises FileNotFoundError if the boot has not filled /dev yet: the boot creates /dev/vfio.
        """
        target = self.path / "dev" / name
        if not target.exists():
            if not (self.path / "dev/vfio").is_dir():
                raise FileNotFoundError(target)
            target.parent.mkdir(exist_ok=True)
            os.mknod(target, stat.S_IFCHR | 0o600, os.makedev(*DEVICES["null"]))

    def device_nodes(self) -> set[str]:
        """The names below /dev that represent vGPUs: vfio/N, vfio/devices/vfioN and nvidia-vgpuN."""
        dev = self.path / "dev"
        nodes = (*(dev / "vfio").rglob("*"), *dev.glob("nvidia-vgpu*"))
        return {str(node.relative_to(dev)) for node in nodes if node.is_char_device()} - {"vfio/vfio"}

    def remove_node(self, name: str) -> None:
        (self.path / "dev" / name).unlink(missing_ok=True)


def _hidden_at_top() -> list[str]:
    return [entry.name for entry in os.scandir("/") if entry.is_dir(follow_symlinks=False) and entry.name not in SHOWN]


def _make_opaque(upper: Path, name: str) -> None:
    """An empty directory that hides the one below it (overlayfs: trusted.overlay.opaque)."""
    target = upper / name
    target.mkdir(parents=True, exist_ok=True)
    os.setxattr(target, "trusted.overlay.opaque", b"y")


def _fill_dev(dev: Path) -> None:
    for name, number in DEVICES.items():
        os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(*number))
        (dev / name).chmod(0o666)
    for name, goal in LINKS.items():
        (dev / name).symlink_to(goal)
    (dev / "kmsg").touch(mode=0o600)
    for name in ("pts", "shm", "vfio"):
        (dev / name).mkdir()
    namespace.mount("devpts", dev / "pts", "devpts", options="newinstance,ptmxmode=0666,mode=620,gid=5")
    namespace.mount_tmpfs(dev / "shm", mode="1777")
    os.mknod(dev / "vfio/vfio", stat.S_IFCHR | 0o666, os.makedev(*DEVICES["null"]))
