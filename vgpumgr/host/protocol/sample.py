"""The answer to `sample`."""

from typing import List, Optional, TypedDict

from .gpu import Mode, Policy, TypeFact
from .ledger import LedgerEntry
from .snapshot import UnknownFact


class HolderFact(TypedDict):
    """A process that runs a VM and has its vGPU open. `since_us`: its start, us since the epoch; null if unknown."""

    pid: int
    command: str
    since_us: Optional[int]


class UsedFact(TypedDict):
    """What a vGPU used, in integer percentages of the whole GPU, since the `since` of the request.

    The source is nvmlDeviceGetVgpuUtilization. `at_us`: the sample's time, us since the epoch. It and the four
    percentages are null if there is no newer sample. In MIG mode NVML has no such samples: `at_us` is then the time
    of this reading, and the four are null.
    """

    at_us: Optional[int]
    sm: Optional[int]
    memory: Optional[int]
    encoder: Optional[int]
    decoder: Optional[int]


class GuestFact(TypedDict):
    """NVML's answers about the driver in a guest: its version as it says it, its licence's state by NVML's number,
    and when that expires (RFC 3339, UTC); each null if unknown, or if there is none.
    """

    driver: Optional[str]
    license: Optional[int]
    license_expires: Optional[str]


class VgpuSampleFact(UsedFact):
    """A running vGPU: its VM (as in ActiveFact; also the VF's index), its memory now, and its use (UsedFact).

    `holder`: null if no process of the VM could be found.
    """

    instance: int
    vm_uuid: Optional[str]
    vm_name: Optional[str]
    uuid: Optional[str]
    vf: Optional[str]
    vf_index: Optional[int]
    type_id: Optional[int]
    framebuffer_used_bytes: Optional[int]
    holder: Optional[HolderFact]
    guest: GuestFact


class GpuSampleFact(TypedDict):
    """A physical function. `sm` and `memory`: percent of the driver's last period (nvmlDeviceGetUtilizationRates).

    `policy`: how the graphics engine is shared, null with MIG. `types`: those of running vGPUs and ledger entries.
    `made`: how many vGPUs sysfs shows on it, running or not. `vgpus`: null if it is unknown what runs. `temperature_c`
    (of the die) and `power_mw`: null also on a board without that sensor, which is no failure.
    """

    pci: str
    uuid: Optional[str]
    name: Optional[str]
    framebuffer_bytes: Optional[int]
    framebuffer_used_bytes: Optional[int]
    sm: Optional[int]
    memory: Optional[int]
    temperature_c: Optional[int]
    power_mw: Optional[int]
    policy: Optional[Policy]
    mode: Optional[Mode]
    types: List[TypeFact]
    made: Optional[int]
    vgpus: Optional[List[VgpuSampleFact]]


class SampleReport(TypedDict):
    """What runs and how much it uses. `now_us`: the host's clock, us since the epoch."""

    protocol: int
    boot: str
    now_us: int
    driver: Optional[str]
    gpus: List[GpuSampleFact]
    ledger: Optional[List[LedgerEntry]]
    unknown: List[UnknownFact]
