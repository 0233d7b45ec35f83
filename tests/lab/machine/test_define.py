"""The VMs of a host are all defined, or the lab says what virsh said."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.lab_fixtures import ONE
from vgpumgr.errors import LabError
from vgpumgr.lab.driver.model import VmSpec
from vgpumgr.lab.machine.libvirtd import define, domain_xml
from vgpumgr.lab.machine.machine import Machine
from vgpumgr.lab.machine.root import HostRoot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST = "kvm01"
QEMU = "/usr/bin/qemu-system-x86_64"
VMS = [VmSpec(name=f"late{n}", uuid=f"6a1f0000-0000-4000-8000-0000000009{n:02}") for n in range(3)]
# libvirt starts QEMU anew to learn what it can do as soon as the program's file is another.
KILLED = """[ -e {qemu}.real ] || mv {qemu} {qemu}.real
cat > {qemu} <<'END'
#!/bin/sh
[ {times} -gt "$(wc -l < /tmp/starts)" ] && echo >> /tmp/starts && kill -KILL $$
exec {qemu}.real "$@"
END
chmod 755 {qemu}
: > /tmp/starts
"""


@pytest.fixture(scope="module")
def own(lab_factory: LabFactory) -> Iterator[Lab]:
    lab = lab_factory(ONE, shared=False)
    yield lab
    lab.down()


@pytest.fixture
def inside(own: Lab, tmp_path: Path) -> tuple[Machine, HostRoot]:
    """The host from where this test runs: its processes, and its files as its first process sees them."""
    machine = Machine(tmp_path, sys.stderr.buffer)
    machine.first_process = own.control(HOST, "status")["first_process"]
    root = HostRoot(folder=tmp_path)
    root.disk.mkdir()
    root.path.symlink_to(f"/proc/{machine.first_process}/root")
    return machine, root


def test_a_qemu_that_is_killed_while_libvirtd_asks_it_costs_no_vm(own: Lab, inside: tuple[Machine, HostRoot]) -> None:
    """virsh defines the other VMs and ends with 0."""
    own.must(HOST, KILLED.format(qemu=QEMU, times=1))
    define(*inside, [domain_xml(vm) for vm in VMS])
    assert own.must(HOST, "cat /tmp/starts") == "\n"
    assert {vm.name for vm in VMS} <= set(own.must(HOST, "virsh list --all --name").split())


def test_a_qemu_that_never_answers_is_told_in_virshs_words(own: Lab, inside: tuple[Machine, HostRoot]) -> None:
    own.must(HOST, KILLED.format(qemu=QEMU, times=99))
    with pytest.raises(LabError, match="did not define every VM") as raised:
        define(*inside, [domain_xml(vm) for vm in VMS])
    assert any("Failed to define domain" in line for line in raised.value.details)
