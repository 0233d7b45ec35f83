"""A GPU's modes: what the driver makes of a GPU in each of them. Where a vGPU goes in one of them is said by core/placing/division.py.

Sources: NVIDIA's guides on mixed-size mode (docs/ways-to-divide.md), nvml.h (schedulers), the MIG user guide (what a reboot leaves).
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
    """One mode. Unless a mode says otherwise, it shares the whole GPU in time, by any policy, and ends with the host's boot."""

    name: Mode
    way: Way = asking.TIME_SLICED
    one_size = False
    """Whether the first vGPU binds the GPU to one size."""
    has_places = False
    """Whether each vGPU lies at a placement id that somebody chooses."""
    is_default = False
    """Whether a GPU is in it where nobody set a mode."""
    policies: tuple[Policy, ...] = scheduler.POLICIES
    """Those of a scheduler that the mode combines with; none: a GPU in it has no scheduler."""
    other_sizes: Mode | None = None
    """The mode that takes other sizes, beside what is there or after it."""

    @property
    def words(self) -> str:
        """As people read it, before `mode`."""
        return self.name

    @property
    def mig_backed(self) -> bool:
        """Whether it takes MIG-backed types, in GPU instances; else time-sliced ones."""
        return self.way == asking.MIG

    @property
    def has_scheduler(self) -> bool:
        return bool(self.policies)

    def ends_with_boot(self, board_names: Iterable[str]) -> bool:  # noqa: ARG002 -- as Mig
        """Whether a GPU of that board is in the default mode after the next boot, and not in this one."""
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
    """vGPUs of several sizes, which does not combine with fixed-share (NVIDIA's guide on mixed-size mode)."""

    name = MIXED_SIZE
    has_places = True
    policies = (scheduler.BEST_EFFORT, scheduler.EQUAL_SHARE)
    other_sizes: Mode | None = EQUAL_SIZE


class Mig(ModeRules):
    """GPU instances. nvml.h on schedulers: NOT_SUPPORTED "if the GPU is in MIG mode", for reading as for setting it."""

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
    """The mode of the GPU for which this place in the framebuffer was chosen, or this GPU instance, or neither."""
    if instance is not None:
        return MIG
    return EQUAL_SIZE if placement_id is None else MIXED_SIZE


def of(mode: Mode | None) -> ModeRules:
    """None: a GPU that says nothing of its mode, so it is in the default one."""
    return _EVERY[mode or EQUAL_SIZE]
