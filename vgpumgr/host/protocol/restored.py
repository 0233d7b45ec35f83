"""What a restore after a boot did: the file that it writes, and what `installed` says of it."""

from typing import List, Optional, TypedDict

HOOK_PATH = "/etc/libvirt/hooks/qemu.d/vgpumgr"
RESTORED_PATH = "/var/lib/vgpumgr/restored.json"


class RestoredVgpuFact(TypedDict):
    """A vGPU of the ledger. `missing`: why it is not there, null if it is. `note`: how it differs from what it was."""

    vm_name: str
    slot: str
    parent: str
    type_name: str
    missing: Optional[str]
    note: Optional[str]


class RestoredFact(TypedDict):
    """One run: the boot, when this was written (RFC 3339, UTC), every vGPU that the ledger wants.

    `problem`: why the run did nothing, or did not try all; null if it tried all. The file is written anew as the run
    goes on.
    """

    boot: str
    at: str
    problem: Optional[str]
    vgpus: List[RestoredVgpuFact]


class RestoreFact(TypedDict):
    """What `host install --restore` left. `program`: the SHA-256 of the host program that will run at a boot.

    `enabled`: whether systemd will start it, by the unit that this program would write. `last`: the run of this boot;
    null if there was none.
    """

    program: str
    enabled: bool
    last: Optional[RestoredFact]
