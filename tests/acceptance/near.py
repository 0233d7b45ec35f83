"""The whole program within the test's process, on hosts that are there too (tests/model): no SSH, libvirtd or /sys.

For what is said of options, names and plans, and needs none of them: a command costs a tenth of what it does in a lab.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.model.fleet import vm_uuid
from tests.model.pool import Pool
from tests.model.wiring import connect
from vgpumgr.cli import main
from vgpumgr.host.protocol import MDEV_VF
from vgpumgr.lab.driver import boards
from vgpumgr.link import connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.model.machine import Machine
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.host import Host

_VFS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Hosts as those of tests/mdev-vf-small.yml, with an inventory, and a store beside it."""

    machines: Mapping[str, Machine]
    inventory: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `vgpumgr ARGUMENTS`, without a terminal."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main.run(list(arguments))
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def declare(self, host: str, **told: object) -> None:
        """What host_vars says of the host."""
        (self.inventory / f"host_vars/{host}.yml").write_text(json.dumps(told), encoding="utf-8")

    def devices(self, host: str) -> set[str]:
        """The vGPUs that are in the host's /sys."""
        folder = self.machines[host].root / "sys/bus/mdev/devices"
        return {path.name for path in folder.iterdir()} if folder.exists() else set()


@contextlib.contextmanager
def site(vms: Mapping[str, int], folder: Path) -> Iterator[Near]:
    """Host → how many VMs it has: vm01, vm02 …, on kvm02 from vm31 on. kvm01 has two A40, kvm02 two A100."""
    pool = Pool()
    with pool, pytest.MonkeyPatch.context() as patch:
        machines = {host: pool.machine(host, MDEV_VF) for host in vms}
        for host, machine in machines.items():
            kind = "A40" if host == "kvm01" else "A100"
            machine.install(board=replace(boards.board(kind, "near"), vfs=_VFS))
            first = 1 if host == "kvm01" else 31
            for number in range(first, first + vms[host]):
                machine.libvirt.define(f"vm{number:02}", vm_uuid(host, f"vm{number:02}"))

        def reach(endpoint: Endpoint, *, catalogue: Catalogue | None = None, **_: Any) -> Host:
            return connect(machines[endpoint.host], None, [], catalogue)

        patch.setattr(connection, "connect", reach)
        inventory = folder / "inventory"
        (inventory / "host_vars").mkdir(parents=True)
        hosts = {host: {"ansible_host": "127.0.0.1"} for host in vms}
        (inventory / "hosts.yml").write_text(json.dumps({"hypervisors": {"hosts": hosts}}), encoding="utf-8")
        patch.setenv("VGPUMGR_INVENTORY", str(inventory))
        patch.setenv("VGPUMGR_STORE", str(folder / "store.sqlite"))
        yield Near(machines=machines, inventory=inventory)
