"""A simulated /sys that this process has mounted and serves, with the driver behind it."""

from __future__ import annotations

import subprocess
import threading
from functools import partial
from typing import TYPE_CHECKING

from vgpumgr.lab.nvml.request import carry_out
from vgpumgr.lab.nvml.state import nvml_text
from vgpumgr.lab.sysfs.fuse import mount
from vgpumgr.lab.sysfs.tree import NVML_PATH, Tree, WriteRecord

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.lab.driver.driver import Driver


class Mounted:
    """`writes` has what was written. close() it."""

    def __init__(self, top: Path, driver: Driver) -> None:
        self.top = top
        self.driver = driver
        self.nvml_path = top / NVML_PATH.lstrip("/")
        self.writes: list[WriteRecord] = []
        tree = Tree(
            driver,
            partial(nvml_text, driver),
            nvml_request=partial(carry_out, driver),
            on_write=self.writes.append,
        )
        ready = threading.Event()
        self.server = threading.Thread(target=mount, args=(tree, str(top)), kwargs={"ready": ready})
        self.server.start()
        assert ready.wait(300)

    def close(self) -> None:
        self.driver.close()
        # -f ends the connection too: a mount namespace made meanwhile (a lab's) has a copy of the mount, and lives on.
        subprocess.run(["umount", "-f", str(self.top)], check=True)
        self.server.join(300)
        assert not self.server.is_alive()
