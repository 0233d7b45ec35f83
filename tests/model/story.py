"""One case: a fleet, and whatever befalls it, in any order; the promises are looked at after every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import event, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.model import ending, promises
from tests.model.fleet import HOSTS, SLOTS, Fleet, Outcome
from tests.model.machine import GPUS, TYPES, VFS, Machine
from tests.model.people import MAX_VMS, PEOPLE
from tests.model.plots import SUDDEN, Plot, plots
from tests.model.pool import POOL
from tests.model.wiring import HostProgramKilled, Trouble
from vgpumgr.core.driver.profiles import ByMemory, ByProfile, read_type_name
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.libvirt_double import Vm
    from vgpumgr.names import Slot

hosts = st.sampled_from(HOSTS)
numbers = st.integers(0, MAX_VMS - 1)
slots = st.sampled_from(SLOTS)
profiles = st.sampled_from(tuple(TYPES))
often_not = st.sampled_from((False, False, True))
reservations = st.sampled_from(("team-a", "team-b"))


class Story(RuleBasedStateMachine):
    """One case: a fleet, and what happens to it."""

    fleet: Fleet

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []  # a note can only be made in the test's own thread

    @initialize(
        frameworks=st.sampled_from(((MDEV_VF, VENDOR_VFIO), (VENDOR_VFIO, MDEV_PF), (MDEV_PF, MDEV_VF))),
        declared=st.lists(st.tuples(hosts, st.integers(0, 2), slots, profiles), max_size=4),
        kept=st.none() | st.tuples(hosts, profiles),
    )
    def install(
        self,
        frameworks: tuple[str, str],
        declared: list[tuple[str, int, Slot, str]],
        kept: tuple[str, str] | None,
    ) -> None:
        """Two hosts of a framework each, where what is declared has been carried out; one may keep places, too."""
        machines = {host: POOL.machine(host, framework) for host, framework in zip(HOSTS, frameworks, strict=True)}
        self._begin(Fleet.install(machines, {"kvm01": 3, "kvm02": 2}), declared, kept)

    def _begin(self, fleet: Fleet, declared: list[tuple[str, int, Slot, str]], kept: tuple[str, str] | None) -> None:
        self.fleet = fleet
        for row in declared:
            self.declare(*row)
        if declared:
            self.fleet.reconcile()
        if kept is not None:
            host, profile = kept
            self.fleet.reserve(self.profile_on(host, profile), "team-a", host, count=2)

    def profile_on(self, host: str, profile: str) -> str:
        """What takes the place of one of TYPES on a host."""
        return profile

    # commands

    @rule(
        host=hosts,
        number=numbers,
        slot=slots,
        profile=profiles,
        replace=st.booleans(),
        live=often_not,
        wait=often_not,
        takes=st.sampled_from((False, True, True)),
        plot=plots,
    )
    def attach(
        self,
        *,
        host: str,
        number: int,
        slot: Slot,
        profile: str,
        replace: bool,
        live: bool,
        wait: bool,
        takes: bool,
        plot: Plot | None,
    ) -> None:
        """Without `replace` a slot that is claimed is asked for again as it is: another wish is refused, and no more.

        `live`: to a VM that runs, or is started before. `takes`: a place that a host keeps, if there is one; what it is kept for is asked for.
        """
        host = next((one for one in HOSTS if takes and self._kept(one)), host)
        vm, profile = self._vm(host, number), self.profile_on(host, profile)
        before, reservation = self._kept(host), None
        if takes and before:
            reservation, profile = before[0].name, self._short(host, before[0])
            domains = promises.truth(self.fleet.machines[host]).domains
            free = [one for one in self.fleet.vms(host) if domains[one.uuid].claim(slot) is None]
            vm = free[number % len(free)] if free else vm
        if vm is None:
            return
        live = live and (vm.active or self.fleet.start(host, vm))
        claim = promises.truth(self.fleet.machines[host]).domains[vm.uuid].claim(slot)
        declared = self.fleet.declared.get((host, vm.name), {}).get(slot)
        if not replace and declared is not None:
            profile = declared
        elif not replace and claim is not None and isinstance(claim.wish, ByProfile | ByMemory):
            wish = claim.wish
            profile = wish.profile.text if isinstance(wish, ByProfile) else f"{wish.mib // 1024}G"

        def run(trouble: Trouble | None = None, *, check: bool = False) -> Outcome:
            return self.fleet.attach(
                host,
                vm.name,
                slot,
                profile,
                replace=replace,
                live=live,
                wait=wait,
                reservation=reservation,
                check=check,
                trouble=trouble,
            )

        outcome = self._command(host, vm, run, plot, can_fail=self._creates_fail(host), ends=reservation)
        left = {one.key for one in self._kept(host)}
        assert len([one for one in before if one.key not in left]) <= 1, f"{reservation} lost more than the one place"
        if live:
            event(f"attach --live: {outcome.word}")
        if outcome.word in ("done", "unchanged") and plot is None:
            if wait and promises.waits(self.fleet.machines[host], vm.uuid, slot):
                event("attach --wait: waits")
                return
            promises.check_attached(self.fleet.machines[host], vm.uuid, slot, profile)
            if live:
                promises.check_runs_with(self.fleet.machines[host], vm.uuid, slot)
            if reservation is not None:
                event(f"attach --reservation: {outcome.word}")
                promises.check_taken(self.fleet.machines[host], vm.uuid, slot, reservation)

    @rule(host=hosts, name=reservations, profile=profiles, count=st.integers(1, 2), plot=plots)
    def reserve(self, *, host: str, name: str, profile: str, count: int, plot: Plot | None) -> None:
        """Keep places on the host. Those that it keeps under that name are asked for again, or more of them."""
        kept = [one for one in self._kept(host) if one.name == name]
        profile = self._short(host, kept[0]) if kept else self.profile_on(host, profile)

        def run(trouble: Trouble | None = None, *, check: bool = False) -> Outcome:
            return self.fleet.reserve(profile, name, host, count=count, check=check, trouble=trouble)

        outcome = self._command(host, None, run, plot)
        if outcome.word in ("done", "unchanged") and plot is None:
            event(f"reserve: {outcome.word}")
            places = {one.slot for one in kept} | {f"vgpu{number}" for number in range(count)}
            assert {one.slot for one in self._kept(host) if one.name == name} == places

    @rule(host=hosts, name=reservations, plot=plots)
    def cancel(self, host: str, name: str, plot: Plot | None) -> None:
        """Give up a reservation on the host."""

        def run(trouble: Trouble | None = None, *, check: bool = False) -> Outcome:
            return self.fleet.cancel(name, host, check=check, trouble=trouble)

        outcome = self._command(host, None, run, plot, ends=name)
        if outcome.word == "done":
            promises.check_given_up(self.fleet.machines[host], name)

    @rule(host=hosts, number=numbers, slot=st.none() | slots, keep=st.booleans(), live=often_not, plot=plots)
    def detach(self, *, host: str, number: int, slot: Slot | None, keep: bool, live: bool, plot: Plot | None) -> None:
        """Mostly of a VM that has something to lose. `live`: also from one that runs, if its guest lets go."""
        machine = self.fleet.machines[host]
        having = {entry.vm for entry in promises.truth(machine).entries}
        vms = [vm for vm in self.fleet.vms(host) if vm.uuid in having] or self.fleet.vms(host)
        if not vms:
            return
        vm = vms[number % len(vms)]

        def run(trouble: Trouble | None = None, *, check: bool = False) -> Outcome:
            return self.fleet.detach(host, vm.name, slot, keep_snapshots=keep, live=live, check=check, trouble=trouble)

        frozen = live and vm.active and not vm.lets_go
        outcome = self._command(host, vm, run, plot, keep_snapshots=keep, can_fail=frozen)
        if live and vm.active:
            event(f"detach --live: {outcome.word}, {type(outcome.error).__name__}")
        if outcome.word in ("done", "unchanged") and plot is None:
            for each in SLOTS if slot is None else (slot,):
                promises.check_detached(machine, vm.uuid, each)

    @rule(host=hosts, everywhere=st.booleans(), plot=plots)
    def reconcile(self, host: str, everywhere: bool, plot: Plot | None) -> None:
        """Of one host or of both; what goes wrong, goes wrong on the one."""
        limit = () if everywhere else (host,)
        before = {each: promises.truth(machine) for each, machine in self.fleet.machines.items()}
        planned = self.fleet.reconcile(*limit, check=True)
        assert {each: promises.truth(machine) for each, machine in self.fleet.machines.items()} == before
        outcome = self.fleet.reconcile(*limit, trouble=self._trouble(host, plot))
        self._tell("reconcile", plot, planned, outcome)
        sudden = plot is not None and plot.kind in SUDDEN
        for each, machine in self.fleet.machines.items():
            alone = plot is None or sudden or each != host
            promises.check_command(machine, before[each], outcome, alone=alone)
        if plot is None:
            ending.check_residual(self.fleet, outcome, *limit)
        elif sudden:
            ending.check_residual(self.fleet, self.fleet.reconcile(*limit), *limit)

    def _tell(self, verb: str, plot: Plot | None, planned: Outcome, outcome: Outcome) -> None:
        for line in self.told:
            note(line)
        self.told.clear()
        note(f"planned {planned.word}, ended {outcome.word}: {outcome.error}")
        event(f"{verb} {plot.kind if plot else 'alone'}: {outcome.word}")

    def _command(
        self,
        host: str,
        vm: Vm | None,
        run: Callable[..., Outcome],
        plot: Plot | None,
        *,
        can_fail: bool = False,
        keep_snapshots: bool = False,
        moves: bool = False,
        ends: str | None = None,
    ) -> Outcome:
        """First what it would do, then the deed, with what goes wrong in it; then, after a sudden end, the same once more."""
        machine = self.fleet.machines[host]
        before = promises.truth(machine)
        planned = run(check=True)
        promises.check_command(machine, before, planned, alone=True)
        assert promises.truth(machine) == before, "--check changed something"
        outcome = run(self._trouble(host, plot, vm))
        self._tell("command", plot, planned, outcome)
        sudden = plot is not None and plot.kind in SUDDEN
        alone = plot is None or sudden
        out = moves and sudden
        promises.check_command(
            machine, before, outcome, alone=alone, keep_snapshots=keep_snapshots, moves=out, ends=ends
        )
        wanted = {"would_change": ("done",), "unchanged": ("unchanged",)}.get(planned.word, (planned.word,))
        if plot is None and not can_fail:
            assert outcome.word in wanted, f"planned {planned.word}, came to {outcome.word}: {outcome.error}"
        if sudden and not can_fail and planned.error is None:
            self._converge(machine, run, keep_snapshots=keep_snapshots, ends=ends)
        return outcome

    def _converge(
        self, machine: Machine, run: Callable[..., Outcome], *, keep_snapshots: bool, ends: str | None
    ) -> None:
        """The same command again, after a sudden end, comes to its end; and once more it has nothing to do."""
        before = promises.truth(machine)
        again = run()
        note(f"again: {again.word}: {again.error}")
        promises.check_command(machine, before, again, alone=True, keep_snapshots=keep_snapshots, ends=ends)
        assert again.error is None, f"after a sudden end the same command is refused: {again.error}"
        assert run().word == "unchanged"

    def _trouble(self, host: str, plot: Plot | None, vm: Vm | None = None) -> Trouble | None:
        """`vm`: the one that the command is about, where it is about one."""
        if plot is None:
            return None

        def act() -> None:
            match plot.kind:
                case "host-program-killed":
                    raise HostProgramKilled
                case "reboot":
                    self.host_event(host, "reboots", plot.number)
                case "remove":
                    self.host_event(host, "loses a vGPU", plot.number)
                case "make":
                    self.host_event(host, "gets a vGPU", plot.number)
                case "start":
                    if (found := vm or self._vm(host, plot.number)) is not None:
                        PEOPLE["starts it"](self.fleet, host, found)
                case _:
                    self._second_controller(host, plot)

        return Trouble(
            host=host,
            at=plot.at,
            act=None if plot.kind == "kill" else act,
            point=plot.point,
            inside=plot.inside,
        )

    def _second_controller(self, host: str, plot: Plot) -> None:
        """Bob's command in the middle of Anna's: whole where she does not hold the host, and nothing at all where she does."""
        vm = self._vm(host, plot.number)
        if vm is None:
            return
        machine = self.fleet.machines[host]
        before, locked = promises.truth(machine), machine.is_locked()
        match plot.kind:
            case "other-attach":
                outcome = self.fleet.attach(host, vm.name, SLOTS[0], self.profile_on(host, "4Q"), by="bob@ctl2")
            case "other-detach":
                outcome = self.fleet.detach(host, vm.name, SLOTS[0], by="bob@ctl2")
            case "other-reserve":
                outcome = self.fleet.reserve(self.profile_on(host, "4Q"), "bob", host, by="bob@ctl2")
            case _:
                outcome = self.fleet.reconcile(host, by="bob@ctl2")
        self.told.append(f"bob, {'locked out' if locked else 'free'}: {outcome.word}")
        promises.check_command(machine, before, outcome, alone=True)
        if locked:
            assert promises.truth(machine) == before, "two controllers at once on one host"

    # what is declared

    @rule(host=hosts, number=numbers, slot=slots, profile=profiles)
    def declare(self, host: str, number: int, slot: Slot, profile: str) -> None:
        """By name; there may be no such VM, and it may already have something else."""
        vm = f"{host[-1]}vm{number + 1:02}"
        self.fleet.declared.setdefault((host, vm), {})[slot] = self.profile_on(host, profile)

    @rule(number=st.integers(0, 9))
    def undeclare(self, number: int) -> None:
        rows = sorted((vm, slot) for vm, declared in self.fleet.declared.items() for slot in declared)
        if rows:
            vm, slot = rows[number % len(rows)]
            del self.fleet.declared[vm][slot]

    # people

    @rule(host=hosts, number=numbers, what=st.sampled_from(tuple(PEOPLE)))
    def person(self, host: str, number: int, what: str) -> None:
        """Somebody does something to a VM, with virsh or virt-clone."""
        vm = self._vm(host, number)
        if vm is not None:
            PEOPLE[what](self.fleet, host, vm)

    @rule(
        host=hosts,
        what=st.sampled_from(
            ("reboots", "loses a vGPU", "gets a vGPU", "fails", "is well", "hangs", "goes on", "ends reservations")
        ),
        number=numbers,
    )
    def host_event(self, host: str, what: str, number: int) -> None:
        """It reboots, a hand in /sys removes or makes a vGPU, creates begin to fail or work again, a write to a GPU does not
        return, or does at last, the time of what is reserved is over.
        """
        match what:
            case "reboots":
                self.fleet.reboot(host)
            case "loses a vGPU":
                self.fleet.remove_by_hand(host, number)
            case "gets a vGPU":
                self.fleet.make_by_hand(host, number % 2, number % VFS, number)
            case "hangs":
                machine = self.fleet.machines[host]
                machine.hang(machine.gpus()[number % len(GPUS)])
            case "goes on":
                self.fleet.machines[host].let_go()
            case "ends reservations":
                self.fleet.machines[host].end_reservations()
            case _:
                self.fleet.machines[host].fail_creates(what == "fails")

    # what holds

    @invariant()
    def promises_hold(self) -> None:
        if hasattr(self, "fleet"):
            promises.check_always(self.fleet)

    def teardown(self) -> None:
        if hasattr(self, "fleet"):
            ending.check(self.fleet)

    def _vm(self, host: str, number: int) -> Vm | None:
        vms = self.fleet.vms(host)
        return vms[number % len(vms)] if vms else None

    def _kept(self, host: str) -> list[promises.Kept]:
        """What is reserved on a host."""
        return sorted(promises.truth(self.fleet.machines[host]).kept, key=lambda one: one.key)

    def _short(self, host: str, kept: promises.Kept) -> str:
        """The profile that a place is kept for."""
        kinds = (kind for gpu in self.fleet.machines[host].gpus() for kind in gpu.board.all_types)
        name = read_type_name(next(kind.name for kind in kinds if kind.id == kept.type_id))
        assert name is not None
        return name.short

    def _creates_fail(self, host: str) -> bool:
        with self.fleet.machines[host].driver.reading() as state:
            return bool(state.faults)
