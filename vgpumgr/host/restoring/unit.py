"""The systemd unit and the libvirt hook that restore the ledger's vGPUs after a boot: their texts, and where they are.

The unit runs after the driver's services, as far as systemd knows of their readiness, and before every service that
starts VMs: libvirtd or virtqemud (autostart), libvirt-guests. Their sockets are not held up: a program that connects
waits for the service. If the unit fails, VMs start all the same, except those whose vGPU is missing: libvirt refuses
them, or the hook does (hold.py). libvirt looks for hooks only when it starts or reloads. The unit can read /root, since
the host's lock is on it.
"""

import os
import signal
import sys
from contextlib import suppress
from typing import Dict

from .. import dispatcher
from ..dispatcher import DISPATCHER, HELD, RESTORE
from ..files import Root, read_all
from ..protocol.ledger import LEDGER_PATH
from ..protocol.restored import HOOK_PATH, RESTORED_PATH

UNITS = "/etc/systemd/system"
UNIT = UNITS + "/vgpumgr-restore.service"
LINK = UNITS + "/multi-user.target.wants/vgpumgr-restore.service"

HOOK = HOOK_PATH

_UNIT = """\
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

_HOOK = """\
#!/bin/sh
# Written by `vgpumgr host install --restore`, removed by `vgpumgr host uninstall`.
# A VM whose vGPU is missing does not start with somebody else's. A lazy vGPU is made before its VM starts, and freed
# once it has ended. What fails here holds no VM back.
case "$2" in
prepare) {python} -IS {dispatcher} hold prepare ;;
release) ! grep -q '"lazy": true' {ledger} || {python} -IS {dispatcher} hold release ;;
esac
[ $? -ne {held} ]
"""


def texts() -> Dict[str, bytes]:
    """The two files. The interpreter is the one that runs this: the host's own, which is new enough."""
    words = {"python": sys.executable, "dispatcher": DISPATCHER, "ledger": LEDGER_PATH, "held": HELD}
    folder = os.path.dirname(LEDGER_PATH)
    return {HOOK: _HOOK.format(**words).encode(), UNIT: _UNIT.format(folder=folder, **words).encode()}


def put(root: Root, program: bytes) -> None:
    """Install the program (compressed, as it was sent), the hook and the unit, which systemd starts at the next boot.

    Each file is there as a whole or not at all, and the new program also runs with an old hook and unit.
    Raises OSError.
    """
    dispatcher.write(root.path(RESTORE), program, 0o644)
    had_hook = os.path.exists(root.path(HOOK))
    for path in (LINK, HOOK):
        os.makedirs(os.path.dirname(root.path(path)), exist_ok=True)
    for path, text in texts().items():
        dispatcher.write(root.path(path), text, 0o755 if path == HOOK else 0o644)
    with suppress(FileExistsError):
        os.symlink(UNIT, root.path(LINK))
    if not had_hook:
        _reload_libvirt(root)


def _reload_libvirt(root: Root) -> None:
    """Have a running libvirt look for hooks again, as `systemctl reload` does. By itself it does so only at its start.

    It reads its configuration again, too, and touches no VM (virStateReload). A libvirt that does not run finds the
    hook when it starts.
    """
    for name in ("libvirtd", "virtqemud"):
        with suppress(OSError, ValueError):
            pid = int(read_all(root.path("/run/{}.pid".format(name))))
            if read_all("/proc/{}/comm".format(pid)).decode("ascii", "replace").strip() == name:
                os.kill(pid, signal.SIGHUP)


def remove(root: Root) -> None:
    """Remove what `put` wrote. Raises OSError."""
    for path in (LINK, UNIT, HOOK, RESTORE, RESTORED_PATH):
        with suppress(FileNotFoundError):
            os.unlink(root.path(path))
    for path in (LINK, HOOK):
        with suppress(OSError):  # not empty, as the first one is on every host with systemd
            os.rmdir(os.path.dirname(root.path(path)))


def is_enabled(root: Root) -> bool:
    """Whether systemd will start this very unit at a boot, and libvirt will run this very hook."""
    try:
        there = all(read_all(root.path(path)) == text for path, text in texts().items())
        return there and os.readlink(root.path(LINK)) == UNIT
    except OSError:
        return False
