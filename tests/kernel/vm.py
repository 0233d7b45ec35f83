"""A KVM host in a virtual machine: QEMU with software emulation only, on a snapshot of an image, reached by ssh on loopback.

The kernel is Debian's own, with its real mdev, SR-IOV and VFIO code; the GPUs and their driver are an imitation
(tests/kernel/module). `-accel tcg` always: what is tested must not depend on the machine's own virtualization.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.kernel.image import CACHE
from tests.lab_fixtures import zygote
from vgpumgr.lab.machine.sshd import ADDRESS, make_key, reserve_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.controllers import Controller
    from tests.kernel.image import Image

HOST = "kvm01"
_READY = "HOST-VM-READY"
# Limits for what hangs, not for what is slow: a machine that does ten other things at once boots a host VM in minutes.
_BOOT_S = 800.0
_COMMAND_S = 600.0
_LOGIN_S = 300.0
PATIENCE_S = "120"  # an emulated host on a busy machine is slow to answer; the program's own default is for real ones
_CONTROL = "ssh"  # the master's socket
_MEMORY_MIB = 1536
# One processor, because two host VMs share the two cores of CI: with two each, everything takes a fifth longer. There may be a second
# one, because for a machine that can only have one, QEMU before 8.1 leaves out the memory barriers that its virtio devices need, and the
# disk may wait for ever (c914d46d0a64, "tcg: Do not elide memory barriers for !CF_PARALLEL in system mode").
_PROCESSORS = "1,maxcpus=2"
_LOG_LINES = 30
_SERIAL = "serial.log"
_DISK = "disk"  # it takes all writes; the image below it stays as it is
_QEMU = "qemu-system-x86_64"
# Nothing is loaded that the emulated machine has and no test uses.
_KERNEL_OPTIONS = (
    "quiet console=ttyS0 panic=-1 audit=0 mitigations=off net.ifnames=0 "
    "modprobe.blacklist=kvm_amd,kvm_intel,pcspkr,psmouse,iTCO_wdt,lpc_ich,i2c_i801,ahci,evdev,serio_raw,ip_tables"
)

# libvirt has no call that takes our claim and devices out at once: definitions are made anew from the files of the boot.
_RESET = r"""set -eu
for parameter in /sys/module/nvidia/parameters/*; do
  default=$(</run/host-vm/parameters/${parameter##*/})
  [ "$(<$parameter)" = "$default" ] || echo "$default" >$parameter
done
{
  for pid in /run/libvirt/qemu/*.pid; do name=${pid##*/}; [ ! -e "$pid" ] || echo "destroy ${name%.pid}"; done
  for file in /etc/libvirt/qemu/*.xml; do
    name=${file##*/}; name=${name%.xml}
    [ ! -e "$file" ] || echo "undefine $name --managed-save --snapshots-metadata"
  done
  printf 'define %s\n' /usr/local/share/host-vm/vms/*.xml
} | virsh -q >/dev/null
for mdev in /sys/bus/mdev/devices/*; do [ ! -e "$mdev" ] || echo 1 >"$mdev/remove"; done
for current in /sys/bus/pci/devices/*/nvidia/current_vgpu_type; do
  [ ! -e "$current" ] || [ "$(<$current)" = 0 ] || echo 0 >"$current"
done
echo 1 >/sys/module/nvidia/parameters/forget_lost
nvml=/sys/kernel/debug/nvlab/nvml
while read -r word rest; do
  [ "$word" = gpu ] || continue
  pci=${rest#*pci=}
  pci=${pci%% *}
  case " $rest " in *" mig=1 "*)
    /usr/lib/nvidia/sriov-manage -d $pci >/dev/null
    echo "mig pci=$pci on=0" >$nvml
    /usr/lib/nvidia/sriov-manage -e $pci >/dev/null
  esac
  echo "scheduler pci=$pci policy=1" >$nvml
  echo "mixed pci=$pci on=0" >$nvml 2>/dev/null || true # a board without the mode refuses
done <$nvml
rm -rf /var/lib/vgpumgr /etc/modprobe.d/*vgpumgr*
"""


@dataclass(slots=True, kw_only=True)
class Vm:
    """A host VM that is up. `folder` holds its keys, its serial log and the inventory that names it.

    The tests' own commands share one SSH connection, the master: a login costs an emulated processor more than they do.
    """

    name: str
    folder: Path
    port: int
    image: Image
    process: subprocess.Popen[bytes]
    environment: dict[str, str] = field(default_factory=dict)
    master: subprocess.Popen[bytes] | None = None

    # on the host

    def ssh_command(self, *argv: str) -> list[str]:
        """Plain ssh as root; words are joined by blanks and read by a shell there."""
        return ["ssh", *shlex.split(_ssh_options(self.folder)), "-p", str(self.port), f"root@{ADDRESS}", *argv]

    def ssh(self, *argv: str, text: str | None = None, timeout: float = _COMMAND_S) -> subprocess.CompletedProcess[str]:
        """Run a command on the host; its exit status is the caller's to judge."""
        return subprocess.run(
            self.ssh_command(*argv), input=text or "", capture_output=True, text=True, check=False, timeout=timeout
        )

    def must(self, *argv: str, text: str | None = None) -> str:
        """Run a command on the host that has to work; its output."""
        done = self.ssh(*argv, text=text)
        assert done.returncode == 0, f"{self.name}: {argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def parameter(self, name: str, value: str | int) -> None:
        """Set a parameter of the driver module: what only NVIDIA's closed driver decides."""
        self.must(f"echo {shlex.quote(str(value))} >/sys/module/nvidia/parameters/{name}")

    def start_guest(self, guest: str) -> None:
        """Start a VM of this host, and stop its processor once it runs: emulated twice over, its BIOS would take the host
        half a minute. Its QEMU has everything open all the same.
        """
        assert self.must(f"virsh -q start {guest} && virsh -q domstate {guest} && virsh -q suspend {guest}").split()[
            -1:
        ] == ["running"]

    def versions(self) -> str:
        """Kernel, libvirt and QEMU, in one line."""
        kernel, *words = self.must("uname -r; virsh -q version --daemon | grep Running; mdevctl --version").splitlines()
        hypervisor, daemon, mdevctl = (line.rpartition(":")[2].strip() for line in words if line.strip())
        return f"uname -r {kernel} · libvirt {daemon} · {hypervisor} · {mdevctl}"

    def reset(self) -> None:
        """Every guest off, every vGPU away, no ledger, claim or module parameter left of a test."""
        self.must("bash -s", text=_RESET)

    # the product

    def run(
        self, *arguments: str, text: str | None = None, timeout: float = _COMMAND_S
    ) -> subprocess.CompletedProcess[str]:
        """Run `vgpumgr ARGUMENTS` against this host, as a process of its own without a terminal."""
        one = self.start(*arguments, text=text)
        code = one.wait(timeout)
        return subprocess.CompletedProcess(one.argv, code, one.out, one.err)

    def start(
        self, *arguments: str, text: str | None = None, interference: Mapping[str, Any] | None = None
    ) -> Controller:
        """Start `vgpumgr ARGUMENTS` and do not wait for it. `interference`: see tests/crash/interference.py."""
        return zygote().start(
            "--timeout", PATIENCE_S, *arguments, env=self.environment, text=text or "", interference=interference
        )

    # its life

    @property
    def log(self) -> Path:
        return self.folder / _SERIAL

    def boots(self) -> int:
        """How often it has said that it is ready."""
        return self.log.read_bytes().count(_READY.encode())

    def wait_ready(self, boots: int) -> None:
        """Until it has become ready for the `boots`-th time. AssertionError with the end of its serial log."""
        until = time.monotonic() + _BOOT_S
        while self.boots() < boots:
            assert self.process.poll() is None, (
                f"{self.name}: QEMU ended with {self.process.returncode}\n{self._tail()}"
            )
            assert time.monotonic() < until, f"{self.name}: not ready within {_BOOT_S:.0f} s\n{self._tail()}"
            time.sleep(0.1)
        self.connect()

    def connect(self) -> None:
        """Log in once, for all commands to come."""
        argv = ["ssh", "-M", "-N", *self.ssh_command()[1:]]
        self.master = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + _LOGIN_S
        while not (self.folder / _CONTROL).exists():
            assert self.master.poll() is None, f"{self.name}: ssh ended with {self.master.returncode}"
            assert time.monotonic() < until, f"{self.name}: no login within {_LOGIN_S:.0f} s"
            time.sleep(0.05)

    def disconnect(self) -> None:
        """End the shared connection by its pid, and with it what the tests still run on the host."""
        if self.master is not None:
            self.master.kill()
            self.master.wait()
            self.master = None
        (self.folder / _CONTROL).unlink(missing_ok=True)

    def power_cycle(self) -> None:
        """Pull the plug and boot again: what was not on the disk is lost. Returns when the host can be used.

        It boots in a new QEMU: in one that has emulated a boot already, the next takes three times as long (QEMU 7.2).
        """
        before = self.boots()
        self.must("sync; echo 1 >/proc/sys/kernel/sysrq; (sleep 1; echo o >/proc/sysrq-trigger) >/dev/null 2>&1 &")
        self.disconnect()
        assert self.process.wait(_BOOT_S) == 0, (
            f"{self.name}: QEMU ended with {self.process.returncode}\n{self._tail()}"
        )
        self.process = _start(self.image, self.folder, self.port)
        self.wait_ready(before + 1)

    def end(self) -> None:
        """End QEMU by its pid."""
        self.disconnect()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def _tail(self) -> str:
        return tail(self.log)


@contextlib.contextmanager
def booted(name: str, image: Image) -> Iterator[Vm]:
    """A fresh host VM, ready to be used; ended on every way out."""
    folder = Path(tempfile.mkdtemp(prefix="host-vm-"))
    try:
        with reserve_port() as reserved:
            port: int = reserved.getsockname()[1]
        authorized = make_key(folder / "key")
        host_key = make_key(folder / "host_key")
        (folder / "authorized_key").write_text(authorized + "\n", encoding="ascii")
        (folder / "known_hosts").write_text(f"[{ADDRESS}]:{port} {host_key}\n", encoding="ascii")
        _make_disk(image, folder / _DISK)
        vm = Vm(name=name, folder=folder, port=port, image=image, process=_start(image, folder, port))
        try:
            vm.environment = _environment(vm)
            vm.wait_ready(1)
            yield vm
        finally:
            vm.end()
    finally:
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(folder / _SERIAL, serial_log(name))
        shutil.rmtree(folder, ignore_errors=True)


def serial_log(name: str) -> Path:
    """Where what a host VM's kernel said in the last run is kept."""
    return CACHE / f"serial-{name}.log"


def tail(log: Path) -> str:
    """Its last lines."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])


def _make_disk(image: Image, disk: Path) -> None:
    base = ("-F", "raw", "-b", str(image.disk.absolute()))
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *base, str(disk)], check=True)


def _start(image: Image, folder: Path, port: int) -> subprocess.Popen[bytes]:
    log = folder / _SERIAL
    log.touch()
    given = {"authorized_key": folder / "authorized_key", "host_key": folder / "host_key"}
    machine_id = uuid.uuid5(uuid.NAMESPACE_OID, folder.name)  # this host's, after each boot
    append = f"root=/dev/vda rw {_KERNEL_OPTIONS} systemd.machine_id={machine_id.hex}"
    argv = [
        *(_QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-machine", "q35"),
        *("-smp", _PROCESSORS, "-m", str(_MEMORY_MIB), "-nodefaults", "-display", "none"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", append),
        *("-drive", f"file={_option(folder / _DISK)},format=qcow2,if=virtio,cache=unsafe"),
        *("-netdev", f"user,id=net,restrict=on,hostfwd=tcp:{ADDRESS}:{port}-:22"),
        *("-device", "virtio-net-pci,netdev=net"),
        *("-chardev", f"file,id=serial,path={_option(log)},append=on", "-serial", "chardev:serial"),
        *(word for name, file in given.items() for word in _fw_cfg(name, file)),
    ]
    with (folder / "qemu.log").open("wb") as errors:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)


def _fw_cfg(name: str, file: Path) -> tuple[str, str]:
    return "-fw_cfg", f"name=opt/host-vm/{name},file={_option(file)}"


def _option(file: Path) -> str:
    """QEMU's options end at a comma; two stand for one."""
    return str(file).replace(",", ",,")


def _ssh_options(folder: Path) -> str:
    words: Sequence[str] = (
        *("-F", "/dev/null", "-i", str(folder / "key"), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"),
        *("-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={folder / 'known_hosts'}"),
        *("-o", "LogLevel=ERROR", "-o", f"ControlPath={folder / _CONTROL}"),
    )
    return shlex.join(words)


def _environment(vm: Vm) -> dict[str, str]:
    """What points the program at this host, and at nothing of the person who runs the tests."""
    inventory = vm.folder / "inventory"
    inventory.mkdir()
    hosts = {
        "hypervisors": {
            "hosts": {HOST: {"ansible_host": ADDRESS, "ansible_port": vm.port}},
            "vars": {
                "ansible_user": "root",
                "ansible_ssh_private_key_file": str(vm.folder / "key"),
                "ansible_ssh_common_args": f"-o UserKnownHostsFile={vm.folder / 'known_hosts'}",
                "vgpumgr_even_if_it_will_not_start": True,  # bookworm's libvirt is 9.0
            },
        }
    }
    (inventory / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("VGPUMGR_", "ANSIBLE_"))}
    return {**inherited, "VGPUMGR_INVENTORY": str(inventory), "VGPUMGR_STORE": str(vm.folder / "store")}
