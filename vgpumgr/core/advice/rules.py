"""What is to be said of one vGPU: the first rule that applies, or why nothing can be said.

Peaks count, not means: what a VM needed once in the window it may need again. A sample is a mean over some seconds, so
a smaller type must leave a fifth free.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from vgpumgr.core.advice.advice import Verdict, known, peak
from vgpumgr.core.driver.scheduler import BEST_EFFORT, EQUAL_SHARE
from vgpumgr.core.placing import instances
from vgpumgr.core.usage import selection
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from vgpumgr.core.advice.advice import Held
    from vgpumgr.core.model.snapshot import Gpu, VgpuType
    from vgpumgr.core.usage.usage_rows import UsageRow
    from vgpumgr.core.usage.usage_window import Window

IDLE_PERCENT: Final = 1
"""The most that an idle engine shows: as `usage --idle` has it."""
LEAST_S: Final = 86_400.0
"""For how long a vGPU must have been measured in all: each hour of a day has a load of its own."""
HEADROOM: Final = 0.8
"""The part of a smaller type's framebuffer and share that the peaks may take."""
FULL: Final = 0.95
"""The part of its framebuffer from which on a vGPU counts as full."""
WAITS: Final = 0.9
"""The part of the time share, and under best-effort of the whole GPU, whose mean use says that VMs wait for it."""
_MIB: Final = 1 << 20


def judge(held: Held, window: Window) -> Verdict | str | None:
    """A verdict; a text: why nothing can be said; None: it is as it should be."""
    use, row, length_s = held.use, held.row, window.length_us / 1e6
    if use.vm_uuid not in (None, row.vm_uuid):
        return "its samples are of another VM of that name"
    if row.requested_at is None or datetime.fromisoformat(row.requested_at).timestamp() > window.since_us / 1e6:
        return "it was attached within the window"
    days = Own(f"{length_s / 86_400:.0f} days")
    if not held.runs and use.off >= selection.ENOUGH:
        if not use.ever_measured:
            return Verdict(
                kind="never-used", why=say("its VM was never seen running with it, and has been off for {}", days)
            )
        return Verdict(kind="off", why=say("its VM has been off for {} or longer, and holds it", days))
    if use.coverage * length_s < LEAST_S:
        return say("measured for {} only", Own(f"{use.coverage * length_s / 3600:.1f} h"))
    if held.runs and selection.idle(use, most=IDLE_PERCENT):
        return Verdict(kind="idle", why=say("no engine was above {}% in {}, though its VM runs", IDLE_PERCENT, days))
    small = too_small(held)
    if small is not None:
        return small
    if use.engines["sm"].max is None or use.framebuffer_max_bytes is None:
        return "the driver does not report what it uses"
    if known(use) < selection.ENOUGH:
        return say("only {} of the window is known", Own(f"{known(use) * 100:.0f}%"))
    return too_big(held)


def too_small(held: Held) -> Verdict | None:
    """Its framebuffer was full, or its VM waits for its time share. Under equal-share no type has more time."""
    full = _full(held.use)
    why = full or _waits(held)
    if why is None:
        return None
    larger = next((one for one in _of_series(held) if one.full_mib > held.type.full_mib), None)
    helps = full is not None or _policy(held.gpu) != EQUAL_SHARE
    return Verdict(kind="too-small", why=why, to=larger if helps else None)


def too_big(held: Held) -> Verdict | None:
    """The smallest type of its series that fits the peaks with headroom is smaller than its own."""
    smallest = next((one for one in _of_series(held) if fits(held.use, one)), None)
    if smallest is None or smallest.full_mib >= held.type.full_mib:
        return None
    used = (held.use.framebuffer_max_bytes or 0) / (1 << 30)
    peaks = Own(f"{used:.1f} GiB of framebuffer and {peak(held.use)}% of the GPU")
    return Verdict(kind="too-big", why=say("{} would do: at most {} were used", smallest.type_name, peaks), to=smallest)


def fits(use: UsageRow, kind: VgpuType) -> bool:
    """Whether the peaks fit a type with headroom: its framebuffer, and its share, which is one of as many as fit.

    False if one of these is unknown, and for MIG-backed types: the driver measures no load of theirs.
    """
    most, load = use.framebuffer_max_bytes, peak(use)
    if most is None or load is None or not kind.size_mib or not kind.max or instances.is_mig_backed(kind):
        return False
    return most <= HEADROOM * kind.size_mib * _MIB and load <= HEADROOM * 100 / kind.max


def _of_series(held: Held) -> list[VgpuType]:
    """The types that it could have instead, itself among them: of its series, divided the same way, by size."""

    def alike(kind: VgpuType) -> tuple[object, ...]:
        return kind.parsed.board, kind.parsed.series, kind.parsed.suffix, instances.is_mig_backed(kind)

    same = (one for one in held.gpu.known_types.values() if alike(one) == alike(held.type))
    return sorted(same, key=lambda one: (one.full_mib, one.id))


def _full(use: UsageRow) -> str | None:
    most, size = use.framebuffer_max_bytes, use.framebuffer_size_bytes
    if most is None or not size or most < FULL * size:
        return None
    return say("its framebuffer was full: {}", Own(f"{most / (1 << 30):.1f} of {size / (1 << 30):.1f} GiB were used"))


def _waits(held: Held) -> str | None:
    """Under best-effort it may have more than its share, so it waits only where the whole GPU is busy."""
    policy, used = _policy(held.gpu), held.use.used_of_share
    if policy is None or used is None or used < WAITS or (policy == BEST_EFFORT and held.crowd < WAITS * 100):
        return None
    took = Own(f"{used * 100:.0f}%")
    return say("its VM took {} of its share of the GPU's time on average, and waits for more ({})", took, policy)


def _policy(gpu: Gpu) -> str | None:
    return gpu.scheduler.policy if gpu.rules.has_scheduler and gpu.scheduler is not None else None
