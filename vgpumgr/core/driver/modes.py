"""A GPU's modes and the driver's rules in each. core/placing/division.py decides where a vGPU goes in a mode.

Sources: NVIDIA's guides on mixed-size mode (docs/ways-to-divide.md), nvml.h (schedulers), MIG user guide (reboots).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from vgpumgr.core.driver import asking, mig, scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.driver.asking import Way
    from vgpumgr.core.driver.scheduler import Policy

Mode = Literal["equal-size", "mixed-size", "mig"]
EQUAL_SIZE: Final = "equal-size"
MIXED_SIZE: Final = "mixed-size"
MIG: Final = "mig"
MODES: Final[tuple[Mode, ...]] = (EQUAL_SIZE, MIXED_SIZE, MIG)


class ModeRules:
    """One mode. By default the whole GPU is time-sliced, by any policy, and the mode ends with the host's boot."""

    name: Mode
    way: Way = asking.TIME_SLICED
    one_size = False
    """Whether the first vGPU binds the GPU to one size."""
    has_places = False
    """Whether each vGPU lies at a placement id that the creator chooses."""
    is_default = False
    """Whether a GPU is in this mode if none was set."""
    policies: tuple[Policy, ...] = scheduler.POLICIES
    """The scheduler policies that the mode allows. If it allows none, a GPU in this mode has no scheduler."""
    other_sizes: Mode | None = None
    """The mode that takes other sizes, beside the existing vGPUs or once they are gone."""

    @property
    def words(self) -> str:
        """The mode's name in messages, before the word `mode`."""
        return self.name

    @property
    def mig_backed(self) -> bool:
        """Whether the mode takes MIG-backed types, in GPU instances, rather than time-sliced ones."""
        return self.way == asking.MIG

    @property
    def has_scheduler(self) -> bool:
        return bool(self.policies)

    def ends_with_boot(self, board_names: Iterable[str]) -> bool:  # noqa: ARG002 -- as Mig
        """Whether a GPU of that board returns to the default mode at the next boot."""
        return True


class EqualSize(ModeRules):
    """vGPUs of one size: the only mode that older drivers have."""

    name = EQUAL_SIZE
    one_size = True
    is_default = True
    other_sizes: Mode | None = MIXED_SIZE

    def ends_with_boot(self, board_names: Iterable[str]) -> bool:  # noqa: ARG002 -- as Mig
        return False


class MixedSize(ModeRules):
    """vGPUs of several sizes. It excludes fixed-share (NVIDIA's guide on mixed-size mode)."""

    name = MIXED_SIZE
    has_places = True
    policies = (scheduler.BEST_EFFORT, scheduler.EQUAL_SHARE)
    other_sizes: Mode | None = EQUAL_SIZE


class Mig(ModeRules):
    """GPU instances. NVML neither reads nor sets a scheduler: NOT_SUPPORTED "if the GPU is in MIG mode" (nvml.h)."""

    name = MIG
    way: Way = asking.MIG
    policies = ()

    @property
    def words(self) -> str:
        return "MIG"

    def ends_with_boot(self, board_names: Iterable[str]) -> bool:
        return not mig.needs_reset(board_names)


_EVERY: Final[dict[Mode, ModeRules]] = {one.name: one for one in (EqualSize(), MixedSize(), Mig())}


def made_in(placement_id: int | None, instance: object | None) -> Mode:
    """The GPU's mode if a vGPU there was given this placement id, this GPU instance, or neither."""
    if instance is not None:
        return MIG
    return EQUAL_SIZE if placement_id is None else MIXED_SIZE


def of(mode: Mode | None) -> ModeRules:
    """The rules of a mode; None: the GPU reports no mode, so it is in the default one."""
    return _EVERY[mode or EQUAL_SIZE]
