"""GPU instances: how MIG divides a GPU, which instances are ours, and where a MIG-backed vGPU is meant to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.driver.mig import InstanceProfile

if TYPE_CHECKING:
    from vgpumgr.names import GpuUuid, PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A GPU instance that exists: its memory slices are `size` from `start` on. `id` is new at each creation.

    `compute`: how many compute instances it has; None if unknown.
    """

    id: int
    profile_id: int
    start: int
    size: int
    compute: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mig:
    """How a GPU with MIG support is divided. `pending`: the mode after its next reset.

    `profiles` and `instances` are empty with MIG off; `instances` None: they could not be read.
    """

    enabled: bool
    pending: bool
    profiles: tuple[InstanceProfile, ...] = ()
    instances: tuple[Instance, ...] | None = ()

    def profile_of(self, profile_id: int) -> InstanceProfile | None:
        return next((profile for profile in self.profiles if profile.id == profile_id), None)

    def instance_of(self, instance_id: int | None) -> Instance | None:
        """The instance that has this id now."""
        return next((instance for instance in self.instances or () if instance.id == instance_id), None)

    def instance_at(self, profile_id: int, start: int) -> Instance | None:
        """The instance of this profile that begins at this memory slice."""
        return next((one for one in self.instances or () if (one.profile_id, one.start) == (profile_id, start)), None)

    def profile_behind(self, instance: Instance) -> InstanceProfile:
        """The profile of an instance; where the GPU lists none, one that stands for the instance's slices."""
        return self.profile_of(instance.profile_id) or InstanceProfile(
            id=instance.profile_id,
            name=f"profile {instance.profile_id}",
            slices=instance.size,
            size=instance.size,
            starts=(instance.start,),
            memory_mib=0,
            maximum=1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MigPlace:
    """The GPU instance that a MIG-backed vGPU is meant to be in: its profile, and its first memory slice."""

    profile: str
    profile_id: int
    start: int

    @classmethod
    def of(cls, profile: InstanceProfile, start: int) -> MigPlace:
        return cls(profile=profile.name, profile_id=profile.id, start=start)


@dataclass(frozen=True, slots=True, kw_only=True)
class OurInstance:
    """A GPU instance of ours. `gpu` is the GPU's address; `size` memory slices begin at `start`."""

    gpu_uuid: GpuUuid
    gpu: PciAddress
    profile: str
    profile_id: int
    start: int
    size: int

    @property
    def key(self) -> tuple[GpuUuid, str, int]:
        """What identifies the instance, also after it is re-created."""
        return self.gpu_uuid, self.profile, self.start

    @property
    def place(self) -> MigPlace:
        return MigPlace(profile=self.profile, profile_id=self.profile_id, start=self.start)
