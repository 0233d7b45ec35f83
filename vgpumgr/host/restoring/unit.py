"""The systemd unit that restores the ledger after a boot: its text, and the files that it takes.

It comes after the driver's services, as far as systemd knows of their readiness, and before every service that starts
VMs: libvirtd or virtqemud (autostart), libvirt-guests. Their sockets are not held up: whoever connects waits for the
service. If it fails, VMs start all the same, except those whose vGPU is missing. /root is readable, since the host's
lock is on it.
"""

import os
import sys
from contextlib import suppress

from .. import dispatcher
from ..dispatcher import DISPATCHER, RESTORE
from ..files import Root, read_all
from ..protocol.ledger import LEDGER_PATH
from ..protocol.restored import RESTORED_PATH

UNITS = "/etc/systemd/system"
UNIT = UNITS + "/vgpumgr-restore.service"
LINK = UNITS + "/multi-user.target.wants/vgpumgr-restore.service"

_TEXT = """\
# Written by `vgpumgr host install --restore`, removed by `vgpumgr host uninstall`. Use a drop-in for changes.
[Unit]
Description=Restore vGPUs of the vgpumgr ledger before libvirt starts VMs
ConditionPathExists={ledger}
After=nvidia-vgpud.service nvidia-vgpu-mgr.service nvidia-persistenced.service nvidia-fabricmanager.service
Before=libvirtd.service virtqemud.service libvirt-guests.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={python} -IS {dispatcher} restore
TimeoutStartSec=15min
# sriov-manage has to end what it has begun.
KillMode=process
UMask=0077
CapabilityBoundingSet=CAP_SYS_ADMIN CAP_SYS_PTRACE CAP_DAC_OVERRIDE CAP_MKNOD
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={folder}
ProtectHome=read-only
PrivateTmp=yes
PrivateNetwork=yes
IPAddressDeny=any
RestrictAddressFamilies=AF_UNIX
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
KeyringMode=private
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
"""


def text() -> bytes:
    """What the unit's file says. The interpreter is the one that runs this: the host's own, which is new enough."""
    folder = os.path.dirname(LEDGER_PATH)
    return _TEXT.format(python=sys.executable, dispatcher=DISPATCHER, ledger=LEDGER_PATH, folder=folder).encode()


def put(root: Root, program: bytes) -> None:
    """Install the program (compressed, as it was sent) and the unit, and have systemd start it at the next boot.

    Each file is there as a whole or not at all, and the new program runs with the old unit. Raises OSError.
    """
    dispatcher.write(root.path(RESTORE), program, 0o644)
    os.makedirs(os.path.dirname(root.path(LINK)), exist_ok=True)
    dispatcher.write(root.path(UNIT), text(), 0o644)
    with suppress(FileExistsError):
        os.symlink(UNIT, root.path(LINK))


def remove(root: Root) -> None:
    """Remove what `put` wrote. Raises OSError."""
    for path in (LINK, UNIT, RESTORE, RESTORED_PATH):
        with suppress(FileNotFoundError):
            os.unlink(root.path(path))
    with suppress(OSError):  # not empty, as on every host with systemd
        os.rmdir(os.path.dirname(root.path(LINK)))


def is_enabled(root: Root) -> bool:
    """Whether systemd will start this very unit at a boot."""
    try:
        return read_all(root.path(UNIT)) == text() and os.readlink(root.path(LINK)) == UNIT
    except OSError:
        return False
