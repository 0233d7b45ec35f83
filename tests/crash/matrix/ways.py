"""What befalls a run at its k-th moment, and how it is mended before the same command is run again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.crash.matrix.operations import BOB, HOST, SLOT, small
from tests.model.wiring import POINT, HostProgramKilled, Trouble

if TYPE_CHECKING:
    from pathlib import Path

    from tests.model.fleet import Fleet

CONTROLLER = "controller killed"
PROGRAM = "host program killed"
CUT = "connection cut"
STOPPED = "stopped past the lease"
REBOOT = "host rebooted"
EIO = "EIO"
ENOSPC = "ENOSPC"
LIBVIRTD = "libvirtd killed"
WAYS = (CONTROLLER, PROGRAM, CUT, STOPPED, REBOOT, EIO, ENOSPC, LIBVIRTD)

_FILLER = "filler"
_PAGE = 4096
_NEVER = 10**9  # a Trouble that does nothing by itself


@dataclass(slots=True, kw_only=True)
class Strike:
    """Hears the moments of a run, and lets it happen at number `at` (from 1; 0: never). `heard`: all that were told till then."""

    fleet: Fleet
    way: str
    at: int
    trouble: Trouble = field(default_factory=lambda: Trouble(host=HOST, at=_NEVER))
    heard: list[tuple[str, str]] = field(default_factory=list)
    struck: bool = False

    def hear(self, host: str, kind: str, of: str) -> None:
        if host != HOST or self.struck:
            return
        self.heard.append((kind, of))
        if len(self.heard) == self.at:
            self.struck = True
            self._strike(in_step=kind == POINT)

    def _strike(self, *, in_step: bool) -> None:
        """`in_step`: the host program is in the middle of one."""
        machine = self.fleet.machines[HOST]
        match self.way:
            case "controller killed":
                self.trouble.kill()
            case "host program killed":
                for stream in self.trouble.streams:
                    stream.end()
            case "connection cut":
                for stream in self.trouble.streams:
                    stream.cut()
            case "stopped past the lease":
                for stream in self.trouble.streams:
                    stream.lapse()
                if not in_step:  # while it stands still, somebody else comes by
                    assert self.fleet.attach(HOST, BOB, SLOT, small(self.fleet), by="bob@ctl2").word in (
                        "done",
                        "unchanged",
                        "Cordoned",
                        "NoCapacity",  # what was resized in place fills its GPU
                    )
            case "host rebooted":
                self.fleet.reboot(HOST)
            case "EIO":
                machine.sick = True
            case "ENOSPC":
                for folder in machine.disks:
                    _fill(folder / _FILLER)
            case _:
                machine.libvirt.down = True
        if in_step and self.way in (PROGRAM, REBOOT):
            raise HostProgramKilled

    def mend(self) -> None:
        """The driver is well, there is room, libvirtd is back."""
        machine = self.fleet.machines[HOST]
        machine.sick = machine.libvirt.down = False
        for folder in machine.disks:
            (folder / _FILLER).unlink(missing_ok=True)


def _fill(file: Path) -> None:
    assert file.parent.is_mount(), f"{file.parent} is no small disk of its own: all memory would be filled"
    with suppress(OSError), file.open("wb", buffering=0) as out:
        while True:
            out.write(bytes(_PAGE))
