"""An illness: something that is wrong, what shows it, what it leads to, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr import wording
from vgpumgr.wording import Command

if TYPE_CHECKING:
    from vgpumgr.names import HostName, PciAddress, Slot

Severity = Literal["critical", "warning", "notice"]
"""`critical`: a VM cannot start, a vGPU is lost, or a GPU cannot be used; `notice`: nothing has to be done."""

SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "notice")
"""The worst first."""

Certainty = Literal["certain", "likely"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Illness:
    """`kind`: one word for scripts. `host`: None for the controller's own machine. `gpu`: the PCI function concerned.

    `evidence`: what was read, and where. `harm`: what happens if nobody does anything. `mend`: what to do.
    """

    kind: str
    severity: Severity
    certainty: Certainty
    host: HostName | None
    gpu: PciAddress | None = None
    vm: str | None = None
    slot: Slot | None = None
    what: str
    evidence: str
    harm: str
    mend: str

    @property
    def command(self) -> str | None:
        """The first command that mends the illness; None if a person has to do something else."""
        return next((str(one) for one in wording.values(self.mend) if isinstance(one, Command)), None)

    @property
    def is_wrong(self) -> bool:
        """Whether something has to be done."""
        return self.severity != "notice"
