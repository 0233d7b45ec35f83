"""How long the product waits, in one value: it comes with the controller's Context and is handed down, and nothing reads it from here.

Its numbers are the shipped ones, and docs/timing.md lists them. What the host program waits for on its own is in host/timing.py; no
request can change that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds that each stage of reaching a host may take. `program`: its start, and each request, beside the wait that the request names."""

    dns: float = 5
    tcp: float = 10
    banner: float = 10
    kex: float = 10
    auth: float = 10
    program: float = 20
    libvirt: float = 40
    """libvirtd itself waits 30 s for another job on a domain before it reports that; with 40, its answer comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds. `within` is what --timeout does with them, and `at` what a lab with a pace does."""

    deadlines: Deadlines = field(default_factory=Deadlines)
    """For each stage of reaching a host."""
    ping_every_s: float = 8.0
    """Between two lines to a host that we have locked; a fifth of the lock's lease (host/protocol/session.py): four pings may be lost."""
    ping_s: float = 10.0
    """For the answer to a ping."""
    lock_wait_s: float = 60.0
    """For a host that another run has locked."""
    silent_wait_s: float = 2.0
    """For a busy host before it is printed which run it waits for."""
    reconnect_s: tuple[float, float] = (0.3, 1.0)
    """Before a host is reached once more, between these: many hosts behind one gateway must not reconnect all at once."""
    ending_s: float = 60.0
    """For a QEMU that exits and the plugin behind it: a killed QEMU may stay in the driver for 30 s, and its plugin for longer."""
    busy_s: float = 30.0
    """For a plugin that the driver itself reports (vendor-vfio): it does so each time after 5 s, and loses nothing."""
    ending_poll_s: float = 1.0
    """Between two tries of a step that was refused because something still ends."""
    unplug_s: float = 30.0
    """For a guest to release a device, which libvirt only asks it for; one whose driver is idle takes one or two seconds."""
    unplug_poll_s: float = 1.0
    """Between two looks whether the guest has released it."""
    drain_poll_s: float = 5.0
    """Between two looks of `drain --wait` at what still runs."""

    sample_settle_s: float = 2.0
    """Between a baseline and the reading that measures relative to it; the driver samples several times per second."""
    sample_lock_wait_s: float = 5.0
    """For a host that is locked, in a round of samples: a host whose change takes longer has a gap."""
    round_timeout_s: float = 30.0
    """For the slowest host of a round of samples."""
    slow_s: float = 5.0
    """After this long a host is named in the progress."""
    tell_every_s: float = 10.0
    """Between two lines that name the hosts that still run."""
    watch_s: float = 0.5
    """Between two looks at how far the hosts are."""

    def within(self, timeout: float | None) -> Timing:
        """With --timeout, which replaces the limit of each stage and of the waits for a busy host and for a VM that was stopped, whether
        shorter or longer; None: as it is.
        """
        if timeout is None:
            return self
        every = Deadlines(**{stage.name: timeout for stage in fields(Deadlines)})
        return replace(self, deadlines=every, lock_wait_s=timeout, ending_s=timeout, busy_s=timeout)

    def at(self, pace: float) -> Timing:
        """For a lab whose driver is imitated at that pace: it looks more often. How long it waits at most stays."""
        return replace(
            self,
            reconnect_s=(pace * self.reconnect_s[0], pace * self.reconnect_s[1]),
            ending_poll_s=pace * self.ending_poll_s,
            unplug_poll_s=pace * self.unplug_poll_s,
            drain_poll_s=pace * self.drain_poll_s,
        )
