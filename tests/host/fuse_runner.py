"""A simulated host's /sys at MOUNTPOINT until it is unmounted: FLEET HOST MOUNTPOINT. Its driver state is its own."""

from __future__ import annotations

import sys

from tests.host.fakehost import BOOT
from vgpumgr.lab import fuse, spec, spec_reader
from vgpumgr.lab.driver import Driver
from vgpumgr.lab.nvml import request
from vgpumgr.lab.nvml.state import nvml_text
from vgpumgr.lab.tree import Tree

if __name__ == "__main__":
    fleet, name, mountpoint = sys.argv[1:]
    driver = Driver(spec.host_state(spec_reader.load_spec(fleet).host(name), boot_id=BOOT))
    driver.enable_vfs()
    tree = Tree(driver, lambda: nvml_text(driver), nvml_request=lambda line: request.carry_out(driver, line))
    fuse.mount(tree, mountpoint)
