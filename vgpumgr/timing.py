"""How long the controller waits, for what: all in one value, which its Context passes down.

docs/timing.md lists the defaults. The host program's own waits are in host/timing.py; no request can change them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """The limit in seconds for each stage of reaching a host.

    `program`: for the start of the host program, and for each request, in addition to the request's own wait.
    """

    dns: float = 5
    tcp: float = 10
    banner: float = 10
    kex: float = 10
    auth: float = 10
    program: float = 20
    libvirt: float = 40
    """libvirtd waits 30 s for another job on a domain before it reports that; with 40, its answer comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All waits, in seconds. `within` applies --timeout to them, and `at` the pace of a lab."""

    deadlines: Deadlines = field(default_factory=Deadlines)
    """For each stage of reaching a host."""
    ping_every_s: float = 8.0
    """Between pings to a host that we locked: a fifth of the lease (host/protocol/session.py), so four may fail."""
    ping_s: float = 10.0
    """For the answer to a ping."""
    lock_wait_s: float = 60.0
    """For a host that another run has locked, and for the turn to divide quotas."""
    silent_wait_s: float = 2.0
    """For a busy host, before it is printed which run we wait for."""
    reconnect_s: tuple[float, float] = (0.3, 1.0)
    """Bounds of the pause before a reconnect: many hosts behind one gateway must not reconnect all at once."""
    ending_s: float = 60.0
    """For a QEMU that exits, and its plugin: a killed QEMU may stay in the driver for 30 s, its plugin longer."""
    busy_s: float = 30.0
    """For a plugin that the driver itself reports (vendor-vfio): it does so after 5 s each time, and loses nothing."""
    ending_poll_s: float = 1.0
    """Between two tries of a step that was refused because a holder is still ending."""
    unplug_s: float = 30.0
    """For a guest to release a device, which libvirt only requests; a guest with an idle driver takes 1 to 2 s."""
    unplug_poll_s: float = 1.0
    """Between two checks whether the guest has released the device."""
    drain_poll_s: float = 5.0
    """Between two checks by `drain --wait` of what still runs."""

    sample_settle_s: float = 2.0
    """Between a baseline and the reading that measures relative to it; the driver samples several times per second."""
    sample_lock_wait_s: float = 5.0
    """For a host that is locked, in a round of samples: a host whose change takes longer has a gap."""
    round_timeout_s: float = 30.0
    """For the slowest host of a round of samples."""
    slow_s: float = 5.0
    """After this long a host is named in the progress."""
    tell_every_s: float = 10.0
    """Between two lines that list the hosts still running."""
    watch_s: float = 0.5
    """Between two checks of the hosts' progress."""

    def within(self, timeout: float | None) -> Timing:
        """Return these times with `timeout` (--timeout) applied; None changes nothing.

        The timeout replaces the limits of all stages, and of the waits for a busy host and for a stopped VM, whether it
        is shorter or longer.
        """
        if timeout is None:
            return self
        every = Deadlines(**{stage.name: timeout for stage in fields(Deadlines)})
        return replace(self, deadlines=every, lock_wait_s=timeout, ending_s=timeout, busy_s=timeout)

    def at(self, pace: float) -> Timing:
        """Return these times for a lab whose driver is simulated at that pace: polls are more frequent, limits stay."""
        return replace(
            self,
            reconnect_s=(pace * self.reconnect_s[0], pace * self.reconnect_s[1]),
            ending_poll_s=pace * self.ending_poll_s,
            unplug_poll_s=pace * self.unplug_poll_s,
            drain_poll_s=pace * self.drain_poll_s,
        )
