"""A saved plan that a user reviewed and wants carried out: exactly that plan, and no other.

octoDNS binds the same way: its `--checksum` refuses if the plan that is made now has another checksum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlan:
    """A plan as it was saved. `fingerprint` is that of the state that the plan read.

    `steps` are in the form for documents; `hosts` are the hosts concerned; `where` is the file's name, for messages.
    """

    where: str
    fingerprint: str
    steps: tuple[Mapping[str, object], ...]
    hosts: tuple[str, ...]

    def guard(self, fingerprint: str, steps: Sequence[Mapping[str, object]]) -> None:
        """Raise PlanOutdated unless the same state was read and the steps are the same."""
        current = tuple(steps)
        if current == self.steps and fingerprint == self.fingerprint:
            return
        old = [f"no longer to do: {_text(step)}" for step in self.steps if step not in current]
        new = [f"now also to do: {_text(step)}" for step in current if step not in self.steps]
        raise errors.PlanOutdated(
            say("{}: what this plan read has changed since", self.where)
            if fingerprint != self.fingerprint
            else say("{}: the plan made now is different, although the hosts have not changed", self.where),
            details=[*old, *new],
            hint=say("plan again with {} and review the result; nothing was changed", Option("--out")),
        )


def _text(step: Mapping[str, object]) -> str:
    about = (step.get(key) for key in ("verb", "host", "vm", "slot", "gpu"))
    return " ".join(str(word) for word in about if word is not None)
