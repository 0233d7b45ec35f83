"""The VMs of a host are all defined, or the lab says what libvirt says."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.lab_fixtures import ONE
from vgpumgr.errors import LabError
from vgpumgr.lab.driver.model import VmSpec
from vgpumgr.lab.machine.libvirtd import define, domain_xml
from vgpumgr.lab.machine.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST = "kvm01"
VMS = [VmSpec(name=f"late{n}", uuid=f"6a1f0000-0000-4000-8000-0000000009{n:02}") for n in range(3)]
# libvirt starts each program once, to learn what it can do.
KILLED = """cat > {qemu} <<'END'
#!/bin/sh
[ {times} -gt "$(wc -l < {qemu}.starts)" ] && echo >> {qemu}.starts && kill -KILL $$
exec /usr/bin/qemu-system-x86_64 "$@"
END
chmod 755 {qemu}
: > {qemu}.starts
"""


@pytest.fixture(scope="module")
def own(lab_factory: LabFactory) -> Iterator[Lab]:
    lab = lab_factory(ONE, shared=False)
    yield lab
    lab.down()


@pytest.fixture
def machine(own: Lab, tmp_path: Path) -> Machine:
    """The host from where this test runs."""
    machine = Machine(tmp_path, sys.stderr.buffer)
    machine.first_process = own.control(HOST, "status")["first_process"]
    return machine


def documents(own: Lab, qemu: str, *, times: int) -> list[str]:
    """Definitions with an emulator of their own, which is killed the first times that it is started."""
    own.must(HOST, KILLED.format(qemu=qemu, times=times))
    return [domain_xml(vm).replace("<devices>", f"<devices><emulator>{qemu}</emulator>") for vm in VMS]


def test_a_qemu_that_is_killed_while_libvirtd_asks_it_costs_no_vm(own: Lab, machine: Machine) -> None:
    define(machine, documents(own, "/root/once", times=1))
    assert own.must(HOST, "cat /root/once.starts") == "\n"
    assert {vm.name for vm in VMS} <= set(own.must(HOST, "virsh list --all --name").split())


def test_a_qemu_that_never_answers_is_told_in_libvirts_words(own: Lab, machine: Machine) -> None:
    with pytest.raises(LabError, match=r"the host's libvirt: .* unexpected fatal signal 9"):
        define(machine, documents(own, "/root/never", times=99))
