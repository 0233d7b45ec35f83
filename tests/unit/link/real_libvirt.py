"""Domains of a real libvirtd beside the real sshd, defined and looked at with virsh."""

from __future__ import annotations

import subprocess
import uuid
from typing import TYPE_CHECKING

from tests.unit.host.fakehost import make_entry
from vgpumgr.host.ledger import ledger
from vgpumgr.host.protocol.gpu import MDEV_VF
from vgpumgr.host.protocol.ledger import LEDGER_VERSION_WITHOUT_CORDONS
from vgpumgr.names import VmUuid

if TYPE_CHECKING:
    from tests.unit.link.conftest import Sshd

KEY, URI = "v", "urn:vgpumgr:domain:2"
MDEV = "9e0d0000-0000-4000-8000-000000000001"
HOSTDEV = f"""<hostdev mode='subsystem' type='mdev' model='vfio-pci'>
<source><address uuid='{MDEV}'/></source><alias name='ua-vgpu0'/></hostdev>"""


def render_domain(name: str, vm: str, description: str = "") -> str:
    return f"""<domain type='qemu'><name>{name}</name><uuid>{vm}</uuid><description>{description}</description>
<memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
<graphics type='vnc' passwd='secret1'/></devices></domain>"""


def vm_uuid(number: int) -> VmUuid:
    return VmUuid(str(uuid.UUID(int=0x6A1F << 112 | number)))


def virsh(sshd: Sshd, *argv: str, text: str | None = None) -> str:
    done = subprocess.run(
        [*sshd.inside, "virsh", "-c", "qemu:///system", *argv],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def enter(sshd: Sshd) -> None:
    """The ledger has the mdev: no other goes into a VM."""
    entry = make_entry(MDEV_VF, uuid=MDEV)
    text = ledger.render({"version": LEDGER_VERSION_WITHOUT_CORDONS, "settings": {}, "entries": [entry]})
    script = "umask 077; mkdir -p /var/lib/vgpumgr; cat > /var/lib/vgpumgr/ledger.json"
    subprocess.run([*sshd.inside, "sh", "-c", script], input=text, check=True)


def define(sshd: Sshd, *numbers: int, description: str = "") -> None:
    for number in numbers:
        virsh(sshd, "define", "/dev/stdin", text=render_domain(f"vm{number:02}", vm_uuid(number), description))


def forget_all(sshd: Sshd) -> None:
    """No domain is left, nor what was saved of one."""
    for name in virsh(sshd, "list", "--all", "--name").split():
        virsh(sshd, "undefine", "--managed-save", "--snapshots-metadata", name)
