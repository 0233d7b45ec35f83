"""A plan that somebody kept, looked at, and wants carried out: that one, and no other.

octoDNS binds the same way: its `--checksum` refuses where the plan that is made now has another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlan:
    """`fingerprint` of what the plan read, and its `steps` as documents have them; `where` it was kept, for messages.

    `hosts` are the hosts that it is about.
    """

    where: str
    fingerprint: str
    steps: tuple[Mapping[str, object], ...]
    hosts: tuple[str, ...]

    def guard(self, fingerprint: str, steps: Sequence[Mapping[str, object]]) -> None:
        """Raise PlanOutdated unless the same was read, and the same is to be done."""
        now = tuple(steps)
        if now == self.steps and fingerprint == self.fingerprint:
            return
        gone = [f"no longer to do: {_text(step)}" for step in self.steps if step not in now]
        new = [f"now also to do: {_text(step)}" for step in now if step not in self.steps]
        raise errors.PlanOutdated(
            f"{self.where}: what this plan read has changed since"
            if fingerprint != self.fingerprint
            else f"{self.where}: another plan comes out now, though the hosts are as they were",
            details=[*gone, *new],
            hint="plan again with --out, and look at what comes out; nothing was changed",
        )


def _text(step: Mapping[str, object]) -> str:
    about = (step.get(key) for key in ("verb", "host", "vm", "slot", "gpu"))
    return " ".join(str(word) for word in about if word is not None)
