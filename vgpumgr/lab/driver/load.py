"""What each vGPU of a GPU gets of its demand under the scheduler policy: pure functions; docs/load.md has the formulae.

Percentages are of the whole GPU, 0 to 100. Sources: the vGPU user guide (how the three policies share the graphics
engine) and nvml.h (the encoders have their own policy). The lab's own choices are marked `chosen`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.lab.driver.model import Engine, Policy, Use

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WHOLE = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A vGPU that a VM holds: what its guest wants, and how many of its type a GPU takes."""

    wants: Use
    max_instances: int


def share_out(policies: Mapping[Engine, Policy], running: Sequence[Running]) -> tuple[Use, ...]:
    """What each of a GPU's running vGPUs gets, in their order. `policies` has the engines that the board has.

    Both encoder engines count as one, under NVENC 0's policy (chosen); a board without encoders gives none. The decoder
    has no settable policy: best effort (chosen). A guest reads memory as fast as its work runs: its memory demand
    shrinks with its part of the SMs, and the reduced demands are shared by best effort (chosen).
    """
    if not running:
        return ()
    turns = max(len(running), *(one.max_instances for one in running))
    sm = share(policies[Engine.GRAPHICS], [one.wants.sm for one in running], turns)
    memory = share(Policy.BEST_EFFORT, [_memory(one.wants, part) for one, part in zip(running, sm, strict=True)], turns)
    nvenc = policies.get(Engine.NVENC0)
    encoder = share(nvenc, [one.wants.encoder for one in running], turns) if nvenc else (0.0,) * len(running)
    decoder = share(Policy.BEST_EFFORT, [one.wants.decoder for one in running], turns)
    return tuple(
        Use(sm=parts[0], memory=parts[1], encoder=parts[2], decoder=parts[3])
        for parts in zip(sm, memory, encoder, decoder, strict=True)
    )


def share(policy: Policy, wants: Sequence[float], turns: int) -> tuple[float, ...]:
    """One engine's parts. Fixed share divides the GPU by `turns`, the type's maximum per GPU, at least len(wants).

    In equal-size mode all vGPUs of a GPU have the same framebuffer size and so the same maximum (except for one oddity
    in a board's catalogue, for which the largest counts).
    """
    match policy:
        case Policy.BEST_EFFORT:
            return _even(wants)
        case Policy.EQUAL_SHARE:
            return tuple(min(want, WHOLE / len(wants)) for want in wants)
        case Policy.FIXED_SHARE:
            return tuple(min(want, WHOLE / turns) for want in wants)


def _even(wants: Sequence[float]) -> tuple[float, ...]:
    """Max-min fair: round robin among busy vGPUs; what one of them does not want of its part goes to the others."""
    parts = [0.0] * len(wants)
    rest = WHOLE
    smallest_first = sorted(range(len(wants)), key=wants.__getitem__)
    for place, index in enumerate(smallest_first):
        parts[index] = min(wants[index], rest / (len(wants) - place))
        rest -= parts[index]
    return tuple(parts)


def _memory(wants: Use, sm: float) -> float:
    """The memory demand at that SM part. A guest that wants no SM at all (only copies) is not slowed."""
    return wants.memory * (sm / wants.sm) if wants.sm else wants.memory
