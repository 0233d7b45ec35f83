"""The same stories on hosts whose GPUs are in MIG mode, or on one such host beside one without; people make GPU instances there, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.model import promises
from tests.model.fleet import HOSTS, Fleet
from tests.model.machine import GPUS
from tests.model.plots import SUDDEN, Plot, plots
from tests.model.pool import POOL
from tests.model.story import Story, hosts, numbers, profiles, slots
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIG
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO

if TYPE_CHECKING:
    from tests.model.fleet import Outcome
    from tests.model.wiring import Trouble
    from vgpumgr.names import Slot

# What takes the place of the types of time-sliced GPUs: an amount, which either mode can give, and three types, of which the largest fills a GPU.
INSTEAD = {"4Q": "4G", "8Q": "1-5C", "8C": "3-20C", "16Q": "7-40C"}


class MigStory(Story):
    """One case: a fleet with GPU instances, and what happens to it."""

    @initialize(
        frameworks=st.sampled_from(((MDEV_VF, VENDOR_VFIO), (VENDOR_VFIO, MDEV_VF))),
        declared=st.lists(st.tuples(hosts, st.integers(0, 2), slots, profiles), max_size=4),
        kept=st.none() | st.tuples(hosts, profiles),
        in_mig=st.sampled_from((HOSTS, HOSTS[:1], HOSTS[1:])),
    )
    def install(
        self,
        frameworks: tuple[str, str],
        declared: list[tuple[str, int, Slot, str]],
        kept: tuple[str, str] | None,
        in_mig: tuple[str, ...] = (),
    ) -> None:
        machines = {host: POOL.machine(host, framework) for host, framework in zip(HOSTS, frameworks, strict=True)}
        self.in_mig = in_mig
        self._begin(Fleet.install(machines, {"kvm01": 3, "kvm02": 2}, in_mig=in_mig), declared, kept)

    def profile_on(self, host: str, profile: str) -> str:
        return INSTEAD[profile] if host in self.in_mig else profile

    @rule(host=hosts, everywhere=st.booleans(), plot=plots)
    def give_back(self, host: str, everywhere: bool, plot: Plot | None) -> None:
        """Of one host or of both; what goes wrong, goes wrong on the one. No vGPU goes, and what is not ours stays."""
        before = {each: promises.truth(machine).hardware for each, machine in self.fleet.machines.items()}
        foreign = {each: set(machine.foreign_instances) for each, machine in self.fleet.machines.items()}
        on = None if everywhere else host
        outcome = self.fleet.give_back(on, trouble=self._trouble(host, plot))
        self._tell("gc", plot, outcome, outcome)
        if plot is None:
            assert {each: promises.truth(machine).hardware for each, machine in self.fleet.machines.items()} == before
            assert {each: machine.foreign_instances for each, machine in self.fleet.machines.items()} == foreign
        if plot is None or plot.kind in SUDDEN:
            assert self.fleet.give_back(on).error is None
            stuck = any(machine.hung for machine in self.fleet.machines.values())
            assert self.fleet.give_back(on).word in ("unchanged", "refused" if stuck else "unchanged")

    @rule(host=hosts, number=numbers, on=st.sampled_from((True, False, False)), plot=plots)
    def mode(self, host: str, number: int, on: bool, plot: Plot | None) -> None:
        """Somebody turns a GPU's MIG mode on or off; a reset is allowed."""
        machine = self.fleet.machines[host]
        gpu = GPUS[number % len(GPUS)]
        if machine.driver.gpu(gpu).board.mig is None:
            return

        def run(trouble: Trouble | None = None, *, check: bool = False) -> Outcome:
            return self.fleet.set_mode(host, gpu, MIG if on else EQUAL_SIZE, check=check, trouble=trouble)

        outcome = self._command(host, None, run, plot, can_fail=self._creates_fail(host), moves=True)
        if outcome.word in ("done", "unchanged") and plot is None:
            found = machine.driver.gpu(gpu)
            assert (found.mig_on, found.mig_pending, found.vfs_on) == (on, on, True)

    @rule(host=hosts, gpu=st.integers(0, 1), profile=st.sampled_from((0, 9, 19)), start=st.integers(0, 7))
    def instance_by_hand(self, host: str, gpu: int, profile: int, start: int) -> None:
        """Somebody makes a GPU instance, where there is room for it."""
        machine = self.fleet.machines[host]
        found = machine.driver.gpu(GPUS[gpu])
        if found.mig_on:
            try:
                machine.make_instance(found, profile, start)
            except OSError:
                return
