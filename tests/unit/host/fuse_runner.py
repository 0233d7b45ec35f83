"""A simulated host's /sys at MOUNTPOINT until it is unmounted: FLEET HOST MOUNTPOINT. Its driver state is its own.

A line on stdin goes to the driver: `hold KEY VM` lets a VM have a vGPU without any process that could be seen, `release VM`
ends that. Each is answered by a line on stdout.
"""

from __future__ import annotations

import sys
import threading

from tests.unit.host.fakehost import BOOT
from vgpumgr.lab import spec, spec_reader
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.nvml import request
from vgpumgr.lab.nvml.state import nvml_text
from vgpumgr.lab.sysfs import fuse
from vgpumgr.lab.sysfs.tree import Tree


def obey(driver: Driver) -> None:
    for line in sys.stdin:
        match line.split():
            case ["hold", key, vm]:
                driver.hold(key, vm, "vm01")
            case ["release", vm]:
                driver.release(vm)
            case other:
                raise ValueError(other)
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    fleet, name, mountpoint = sys.argv[1:]
    driver = Driver(spec.host_state(spec_reader.load_spec(fleet).host(name), boot_id=BOOT))
    driver.enable_vfs()
    tree = Tree(driver, lambda: nvml_text(driver), nvml_request=lambda line: request.carry_out(driver, line))
    threading.Thread(target=obey, args=(driver,), daemon=True).start()
    fuse.mount(tree, mountpoint)
