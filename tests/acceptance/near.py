"""The whole program within the test's process, on hosts that are there too (tests/model): no SSH, libvirtd or /sys.

For what is said of options, names and plans, and needs none of them: a command costs a tenth of what it does in a lab.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from tests.model.fleet import vm_uuid
from tests.model.pool import Pool
from tests.model.wiring import connect
from vgpumgr.cli import main
from vgpumgr.errors import Unreachable
from vgpumgr.host.protocol.gpu import MDEV_VF
from vgpumgr.lab.driver import boards
from vgpumgr.link import connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.model.machine import Content, Machine
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.lab.driver.model import BoardSpec, TypeSpec
    from vgpumgr.lab.spec import FabricSpec
    from vgpumgr.link.host import Host

_VFS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NearHost:
    """A host with two GPUs of one board, or with a `second` one, `in_mig` both; `types` in place of the board's, if any. `cards`, `shown`: as
    Machine.install has them.
    """

    vms: tuple[str, ...]
    board: str = "A40"
    second: str | None = None
    types: tuple[TypeSpec, ...] = ()
    framework: str = MDEV_VF
    vfs: int = _VFS
    fabric: FabricSpec | None = None
    in_mig: bool = False
    cards: Mapping[str, BoardSpec] = field(default_factory=dict)
    shown: Callable[[str, Content], Content] = lambda _where, content: content


ONE = {"kvm01": NearHost(vms=tuple(f"vm{number:02}" for number in range(1, 31)))}
SMALL = {**ONE, "kvm02": NearHost(vms=tuple(f"vm{number}" for number in range(31, 37)), board="A100")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """Hosts, an inventory, and a store beside it. `dead`: names of hosts that no connection reaches."""

    machines: Mapping[str, Machine]
    inventory: Path
    links: list[Host] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)

    def run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run `vgpumgr ARGUMENTS`, without a terminal. `links` are then the connections that it has opened."""
        self.links.clear()
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()))),
        ):
            code = main.run(list(arguments))
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def declare(self, host: str, **told: object) -> None:
        """What host_vars says of the host."""
        (self.inventory / f"host_vars/{host}.yml").write_text(json.dumps(told), encoding="utf-8")

    def trace(self, host: str) -> tuple[object, ...]:
        """All that a host keeps of vGPUs and VMs: its ledger, what is in /sys, every definition."""
        machine = self.machines[host]
        definitions = {vm.name: vm.inactive for vm in machine.libvirt.vms.values()}
        return machine.ledger(), machine.hardware().keys(), definitions

    def xml(self, host: str, vm: str) -> str:
        """The VM's inactive definition."""
        return self.machines[host].libvirt.vms[vm_uuid(host, vm)].inactive


Sites = Callable[[Mapping[str, NearHost]], Near]


def document(host: Near, *arguments: str, code: int = 0) -> dict[str, Any]:
    """What a command that is to end so prints with -o json."""
    done = host.run(*arguments, "-o", "json")
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """The machines' files, used again by each test. Not for longer: while it is there, the host program forks no writer here."""
    found = Pool()
    with found:
        yield found


def _board(host: NearHost, code: str) -> BoardSpec:
    board = boards.board(code, "near")
    return replace(board, vfs=host.vfs if board.vfs else 0, types=host.types or board.types)


@contextlib.contextmanager
def site(pool: Pool, hosts: Mapping[str, NearHost], folder: Path) -> Iterator[Near]:
    """These hosts, on their first day. Once for each test: an inventory and a store in `folder`."""
    with pytest.MonkeyPatch.context() as patch:
        machines = {name: pool.machine(name, host.framework) for name, host in hosts.items()}
        for name, host in hosts.items():
            first, second = (_board(host, code) for code in (host.board, host.second or host.board))
            machines[name].install(
                board=first, second=second, fabric=host.fabric, in_mig=host.in_mig, cards=host.cards, shown=host.shown
            )
            for vm in host.vms:
                machines[name].libvirt.define(vm, vm_uuid(name, vm))

        links: list[Host] = []
        dead: set[str] = set()

        def reach(endpoint: Endpoint, *, catalogue: Catalogue | None = None, **_: Any) -> Host:
            if endpoint.host in dead:
                raise Unreachable(endpoint.host, "tcp", "connection refused")
            links.append(connect(machines[endpoint.host], None, [], catalogue))
            return links[-1]

        patch.setattr(connection, "connect", reach)
        inventory = folder / "inventory"
        (inventory / "host_vars").mkdir(parents=True)
        plain = {"hypervisors": {"hosts": {name: {"ansible_host": "127.0.0.1"} for name in hosts}}}
        (inventory / "hosts.yml").write_text(json.dumps(plain), encoding="utf-8")
        patch.setenv("VGPUMGR_INVENTORY", str(inventory))
        patch.setenv("VGPUMGR_STORE", str(folder / "store.sqlite"))
        yield Near(machines=machines, inventory=inventory, links=links, dead=dead)
