"""How a VM of a host VM ends: a QEMU whose last close takes seconds, then a plugin that outlives it.

Something on the host has the vGPU's own device open as its plugin has, and tells whether the vGPU was there still when the
QEMU was gone, and when it ended itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.controllers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kernel.vm import Vm

_PATIENCE_S = 600.0
_THERE = "there\n"
# The plugin's node is of its own making; its children do not have it open. The vGPU is the host's only one, whose number nothing
# tells: only its node can be opened.
_PLUGIN = r"""
device=$1 qemu=$2 seconds=$3
there() {
  case $device in
    *-*) [ -e "/sys/bus/mdev/devices/$device" ] ;;
    *) [ "$(</sys/bus/pci/devices/$device/nvidia/current_vgpu_type)" != 0 ] ;;
  esac && echo there || echo taken away
}
if [ "$seconds" != none ]; then
  major=$(while read -r number name; do [ "$name" != nvidia-vgpu-vfio ] || echo "$number"; done </proc/devices)
  for number in 0 1 2 3; do
    [ -e "/dev/nvidia-vgpu$number" ] || mknod -m 600 "/dev/nvidia-vgpu$number" c "$major" "$number"
    { exec 9<>"/dev/nvidia-vgpu$number"; } 2>/dev/null && break
  done
  [ -e /proc/$$/fd/9 ] || exit
fi
echo $$ >/run/plugin.pid
tail --pid="$qemu" -s 0.1 -f /dev/null 9>&-
there
[ "$seconds" = none ] || { sleep "$seconds" 9>&-; there; }
echo ended
"""
# Where its last close takes a while: until one of its threads is in state D, and none has a descriptor. The first thread of a
# QEMU is a zombie then as a rule, and libvirt still busy with it.
_STOP = r"""set -eu
guest=$1 device=$2 close_ms=$3 seconds=$4
rm -f /run/plugin.pid
qemu=$(</run/libvirt/qemu/$guest.pid)
setsid bash /run/plugin.sh "$device" "$qemu" "$seconds" </dev/null >/run/plugin.out 2>&1 &
until [ -s /run/plugin.pid ]; do sleep 0.1; kill -0 $!; done
echo "$close_ms" >/sys/module/nvidia/parameters/close_ms
setsid virsh -q destroy "$guest" </dev/null >/dev/null 2>&1 &
[ "$close_ms" != 0 ] || wait $!
until [ -z "$(ls "/proc/$qemu/fd" 2>/dev/null)" ]; do sleep 0.1; done
[ "$close_ms" = 0 ] || until grep -hs '^State:.D' "/proc/$qemu"/task/*/status || [ ! -e "/proc/$qemu" ]; do sleep 0.1; done
"""
_END = """kill "$(</run/plugin.pid)" 2>/dev/null; echo 0 >/sys/module/nvidia/parameters/close_ms"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """So long its QEMU takes to close the vGPU, and so long after it its plugin ends (None: it ends with it)."""

    exit_s: int = 0
    plugin_s: int | None = None

    def __str__(self) -> str:
        return f"exit-{self.exit_s}-plugin-{self.plugin_s or 0}"

    @property
    def tells(self) -> str:
        """What is told where nothing took the vGPU away from under them."""
        return _THERE * (1 if self.plugin_s is None else 2) + "ended\n"


@contextmanager
def ends(vm: Vm, guest: str, device: str, ending: Ending) -> Iterator[None]:
    """Stop a guest that runs, and return while it ends. At the end of the `with` its plugin is gone at the latest."""
    seconds = "none" if ending.plugin_s is None else str(ending.plugin_s)
    vm.must("cat >/run/plugin.sh", text=_PLUGIN)
    try:
        asleep = vm.must("bash -s", guest, device, str(1000 * ending.exit_s), seconds, text=_STOP)
        assert not ending.exit_s or "disk sleep" in asleep, "its QEMU was gone at once"
        yield
    finally:
        vm.ssh("bash -s", text=_END)


def told(vm: Vm) -> str:
    """What was seen while the VM ended, once it has."""
    wait_until(lambda: vm.must("cat /run/plugin.out").endswith("ended\n"), "the end of the plugin", _PATIENCE_S)
    return vm.must("cat /run/plugin.out")
