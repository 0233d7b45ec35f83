"""What the ledger says is ours, and where nothing new is placed."""

from typing import Final, List, Literal, Optional, TypedDict

from .mig import MigPlace, OurInstance

LEDGER_PATH = "/var/lib/vgpumgr/ledger.json"
LEDGER_VERSION = 8
# A ledger is written as the oldest version that can express it, so that an older vgpumgr can use it. One that does
# not know all that is in it must refuse: it would leave GPU instances behind, place vGPUs in spite of cordons and
# reservations, or make lazy vGPUs at once.
LEDGER_VERSION_WITHOUT_LAZIES = 7
LEDGER_VERSION_WITHOUT_CORDONED_VFS = 6
LEDGER_VERSION_WITHOUT_RESERVATIONS = 5
LEDGER_VERSION_WITHOUT_INSTANCES = 4
LEDGER_VERSION_WITHOUT_CORDONS = 3

# states of a ledger entry: on disk before the hardware is created, while it exists, and before it is removed
EntryState = Literal["planned", "made", "leaving"]
PLANNED: Final = "planned"
MADE: Final = "made"
LEAVING: Final = "leaving"

ASLEEP: Final = "asleep"  # `boot` of a lazy entry while its VM is off: a vGPU that is at its place then is not ours


class OurVgpu(TypedDict):
    """A vGPU of ours: its owner, place and type. `uuid` is null if it is a VF with a type set.

    `placement_id`: where it is meant to lie on a GPU in mixed-size mode, null elsewhere; VgpuFact says where it lies.
    `mig`: null if it is not MIG-backed; then the ledger's file lacks the key.
    """

    vm_uuid: str
    vm_name: str
    slot: str
    generation: int
    gpu_uuid: str
    gpu: str
    vf_index: Optional[int]
    parent: str
    uuid: Optional[str]
    type_id: int
    type_name: str
    placement_id: Optional[int]
    mig: Optional[MigPlace]


class LedgerEntry(OurVgpu):
    """Our ownership of one vGPU, written before the hardware is touched. state: planned, made or leaving.

    `lazy`: true if the vGPU exists only while its VM runs: libvirt's hook makes and frees it, and `boot` is ASLEEP
    while there is none. Otherwise `lazy` is null, and the ledger's file lacks the key.
    """

    boot: str
    state: EntryState
    lazy: Optional[bool]


class InstanceEntry(OurInstance):
    """Our ownership of one GPU instance, written before the hardware is touched. It holds only during `boot`."""

    boot: str
    state: EntryState


class FreedFact(TypedDict):
    """The slot and generation of a vGPU that was removed on purpose and not re-created since."""

    vm_uuid: str
    slot: str
    generation: int


class CordonText(TypedDict):
    """Why no new vGPU is placed somewhere, who said so, and when (RFC 3339, UTC)."""

    reason: str
    by: str
    at: str


class CordonFact(CordonText):
    """A cordon of a GPU, of one of its virtual functions, or (all null) of the whole host.

    `gpu` and `vf` are the addresses when the cordon was set. The ledger's file lacks `vf_index` and `vf` if null.
    """

    gpu_uuid: Optional[str]
    gpu: Optional[str]
    vf_index: Optional[int]
    vf: Optional[str]


class ReservationTerms(TypedDict):
    """For whom a place is reserved, who reserved it and when (RFC 3339, UTC), and for how many more seconds.

    `taker`: the VM's UUID and the slot whose vGPU is being made there, on a GPU without virtual functions.
    """

    owner: Optional[str]
    by: str
    at: str
    left_s: int
    taker: Optional[str]


class ReservationFact(OurVgpu):
    """A place that is kept for a vGPU: `vm_name` is the reservation's name, and `vm_uuid` is made of it."""

    terms: ReservationTerms


class ReservationRow(OurVgpu):
    """A ReservationFact as in the ledger's file. `until`: its end, in seconds since the epoch by the host's clock."""

    owner: Optional[str]
    by: str
    at: str
    until: int
    taker: Optional[str]


class BlockedWriteFact(TypedDict):
    """A write to a file in /sys that was begun and has not returned: until it does, its GPU takes no more writes.

    `pid` and `start` (field 22 of /proc/PID/stat) identify the process that sleeps in it, `boot` the boot; `since` is
    when it began (RFC 3339, UTC). `vfio` are the paths that a holder of the vGPU to be removed has open.
    """

    gpu_uuid: str
    gpu: str
    path: str
    verb: str
    vm_name: str
    slot: str
    vfio: List[str]
    boot: str
    pid: int
    start: int
    since: str


class UnwritableFact(TypedDict):
    """Why the ledger's folder cannot be written to: the folder that was tried, and the errno's name (ENOSPC, EROFS)."""

    path: str
    errno: str
