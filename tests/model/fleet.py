"""Two hosts, what is declared for them, and everything that can befall them: commands, people, reboots.

Commands are the real use cases. What people do by hand is done to the machines, and remembered where it makes a vGPU that
is not ours.
"""

from __future__ import annotations

import itertools
import uuid as uuid_module
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tests.model.machine import GPUS, Machine, Place, key_of, place
from tests.model.wiring import Trouble, connect
from vgpumgr import resources, templates
from vgpumgr.controller.attach import attach, detach
from vgpumgr.controller.context import Context
from vgpumgr.controller.defrag import DefragOptions, defrag
from vgpumgr.controller.drain import DrainOptions, drain
from vgpumgr.controller.gpu_setting import set_mode, set_scheduler
from vgpumgr.controller.instances import GcOptions, give_back
from vgpumgr.controller.maintenance import cordon
from vgpumgr.controller.migrate_framework import migrate_framework
from vgpumgr.controller.purge import purge
from vgpumgr.controller.reconcile import ReconcileOptions, reconcile
from vgpumgr.controller.requests import RequestsResult
from vgpumgr.controller.reservations import Changed, cancel, reservations, reserve
from vgpumgr.controller.results import (
    ChangeResult,
    Consent,
    DrainResult,
    FleetPlan,
    FleetResult,
    ModeResult,
    Planned,
    PlanT,
    PurgeResult,
    Reserved,
    SchedulerResult,
)
from vgpumgr.controller.together import TogetherOptions, serve_together
from vgpumgr.core.driver import catalogue
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.driver.profiles import ByMemory, ByProfile, Wish, parse_memory, parse_profile
from vgpumgr.core.driver.scheduler import Policy, SchedulerWish
from vgpumgr.core.inventory import HostDeclaration, Inventory, Location, SlotDeclaration, VmDeclaration
from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.core.policies.known import DEFAULT
from vgpumgr.core.reconcile.tasks import SetCordon, SetGpuMode, SetGpuScheduler
from vgpumgr.core.report.capacity import Question
from vgpumgr.core.slot.request import Replace, SlotRequest
from vgpumgr.core.slot.reserving import ReserveRequest
from vgpumgr.errors import VgpumgrError
from vgpumgr.lab.driver.upgrade import SAME, Upgrade
from vgpumgr.names import HostName, Slot, VmName, VmUuid
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from tests.model.libvirt_double import Vm
    from vgpumgr.controller.context import Done, Progress
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.gpu.cordon_plan import CordonPlan
    from vgpumgr.core.gpu.scheduler import SchedulerPlan
    from vgpumgr.core.reconcile.purging import PurgePlan
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.core.step import Step
    from vgpumgr.link.host import Host

HOSTS = ("kvm01", "kvm02")
SLOTS = (Slot("vgpu0"), Slot("vgpu1"))
# A minute of waiting for a VM's end or for a guest is an instant: nobody does anything to a VM while a command of a case waits.
SHORT = Timing(lock_wait_s=0, ending_s=0.05, busy_s=0.05, ending_poll_s=0.02, unplug_s=0.05, unplug_poll_s=0.02)
_CATALOGUE = catalogue.parse(resources.catalogue_text())
_WHERE = Location(file="host_vars/kvm.yml", line=1)


Result: TypeAlias = "ChangeResult[Plan] | ChangeResult[CordonPlan] | FleetResult | RequestsResult | SchedulerResult | ModeResult | DrainResult | PurgeResult | Changed"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """How a command ended: with a result, an error, or not at all (the controller was killed)."""

    result: Result | None = None
    error: VgpumgrError | None = None
    killed: bool = False
    agreed: list[Step] = field(default_factory=list)  # what a person was asked about, and said yes to
    told: list[bytes] = field(default_factory=list)  # the requests to the host programs

    @property
    def word(self) -> str:
        if self.killed:
            return "killed"
        match self.result:
            case ChangeResult() | SchedulerResult() | ModeResult() | Changed():
                return self.result.outcome
            case FleetResult():
                return " ".join(self.result.outcomes)
            case DrainResult():
                return self.result.outcome if self.result.error is None else type(self.result.error).__name__
            case PurgeResult():
                return self.result.outcome if not self.result.errors else type(self.result.errors[0]).__name__
            case RequestsResult():
                return " ".join(sorted({slot.outcome for slot in self.result.slots}))
            case None:
                return type(self.error).__name__


def vm_uuid(host: str, name: str) -> VmUuid:
    return VmUuid(str(uuid_module.uuid5(uuid_module.NAMESPACE_DNS, f"{host}/{name}")))


def wish_of(asked: str) -> Wish:
    """A profile (`4Q`), or an amount of memory (`4G`)."""
    return ByMemory(mib=parse_memory(asked)) if asked.endswith("G") else ByProfile(profile=parse_profile(asked))


@dataclass(slots=True)
class Fleet:
    """The machines with their VMs. `handmade`: what people made in /sys, host → place → type id. `watched` and `done`: what the last command told of its progress and of its changes."""

    machines: Mapping[str, Machine]
    declared: dict[tuple[str, str], dict[Slot, str]] = field(default_factory=dict)
    handmade: dict[str, dict[Place, int]] = field(default_factory=dict)
    site: str = "lab1"  # what the inventory says that it is of
    lazy: set[str] = field(default_factory=set)  # the hosts with vgpumgr_lazy
    commands: int = 0
    watched: list[Progress] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    _minutes: int = 0
    _made_by_hand: int = 0
    _cards: int = 0

    @classmethod
    def install(cls, machines: Mapping[str, Machine], vms: Mapping[str, int], *, in_mig: Collection[str] = ()) -> Fleet:
        """Fresh hosts; `vms` says how many VMs each has: vm01, vm02 …, on each host its own. `in_mig`: those with GPUs in MIG mode."""
        fleet = cls(machines)
        for host, machine in machines.items():
            machine.install(in_mig=host in in_mig)
            fleet.handmade[host] = {}
            for number in range(1, vms[host] + 1):
                name = f"{host[-1]}vm{number:02}"
                machine.libvirt.define(name, vm_uuid(host, name))
        return fleet

    # the commands

    def context(
        self, trouble: Trouble | None = None, told: list[bytes] | None = None, *, by: str = "anna@ctl1"
    ) -> Context:
        """What one command is given. The clock goes on by a minute, and by a second whenever the command looks at it."""
        self._minutes += 1
        self.watched.clear()
        self.done.clear()
        minute = f"2026-11-{21 + self._minutes // 1440:02}T{self._minutes // 60 % 24:02}:{self._minutes % 60:02}"
        seconds = itertools.count()

        def reach(endpoint: Endpoint, *, writes: bool = False) -> Host:
            mine = trouble if trouble is not None and trouble.host == endpoint.host else None
            return connect(self.machines[endpoint.host], mine, [] if told is None else told, _CATALOGUE)

        return Context(
            inventory=self.inventory(),
            connect=reach,
            catalogue=_CATALOGUE,
            by=by,
            now=lambda: f"{minute}:{next(seconds) % 60:02}Z",
            progress=lambda _line: None,
            reading=self.watched.append,
            done=self.done.append,
            timing=SHORT,
        )

    def attach(
        self,
        host: str,
        vm: str,
        slot: Slot,
        profile: str,
        *,
        replace: bool = False,
        live: bool = False,
        check: bool = False,
        reservation: str | None = None,
        wait: bool = False,
        trouble: Trouble | None = None,
        by: str = "anna@ctl1",
    ) -> Outcome:
        """`profile`: or an amount of memory, `4G`."""
        again = Replace.ALWAYS if replace else Replace.NEVER
        request = SlotRequest(
            vm=vm,
            wish=wish_of(profile),
            slot=slot,
            on=host,
            replace=again,
            live=live,
            reservation=reservation,
            wait=wait,
        )
        return self._run(lambda context, end: attach(context, request, _consent(end, check=check)), trouble, by)

    def detach(
        self,
        host: str,
        vm: str,
        slot: Slot | None = None,
        *,
        keep_snapshots: bool = False,
        live: bool = False,
        check: bool = False,
        trouble: Trouble | None = None,
        by: str = "anna@ctl1",
    ) -> Outcome:
        request = SlotRequest(
            vm=vm, wish=None, slot=slot, every=slot is None, on=host, keep_snapshots=keep_snapshots, live=live
        )
        return self._run(lambda context, end: detach(context, request, _consent(end, check=check)), trouble, by)

    def serve(
        self,
        vms: Iterable[str],
        slot: Slot,
        profile: str | None,
        *,
        trouble: Trouble | None = None,
        by: str = "anna@ctl1",
    ) -> Outcome:
        """One command about several VMs: `attach`, or `detach` if there is no profile."""
        wish = ByProfile(profile=parse_profile(profile)) if profile else None
        requests = [SlotRequest(vm=vm, slot=slot, wish=wish, replace=Replace.NEVER) for vm in vms]
        options = TogetherOptions(requests=requests, asks=profile is None)

        def run(context: Context, end: Outcome) -> RequestsResult:
            def ask(plan: FleetPlan) -> None:
                end.agreed += plan.takes_away

            return serve_together(context, options, Consent(check=False, show=lambda _fleet: None, ask=ask))

        return self._run(run, trouble, by)

    def reconcile(
        self,
        *limit: str,
        check: bool = False,
        trouble: Trouble | None = None,
        by: str = "cron@ctl1",
        confirms: bool = True,
        strict: bool = False,
        record: bool = False,
    ) -> Outcome:
        """`confirms`: somebody looks at what the guard refused, and confirms it."""

        def run(context: Context, end: Outcome) -> FleetResult:
            def ask(plan: FleetPlan) -> None:
                end.agreed += plan.takes_away

            consent = Consent(check=check, show=lambda _fleet: None, ask=ask)
            result = reconcile(context, ReconcileOptions(limit=limit, strict=strict, record=record), consent)
            if result.guard is None or not confirms:
                return result
            destroys = sum(plan.destroys for plan in result.fleet.plans)
            return reconcile(context, ReconcileOptions(limit=limit, confirm_destroys=destroys), consent)

        return self._run(run, trouble, by)

    def set_scheduler(
        self,
        host: str,
        gpu: str,
        policy: Policy,
        *,
        trouble: Trouble | None = None,
        by: str = "anna@ctl1",
    ) -> Outcome:
        task = SetGpuScheduler(gpu_id=gpu, wish=SchedulerWish(policy=policy))
        consent: Consent[Planned[SchedulerPlan]] = Consent(
            check=False, show=lambda _planned: None, ask=lambda _planned: None
        )
        return self._run(lambda context, _end: set_scheduler(context, host, task, consent), trouble, by)

    def set_mode(
        self,
        host: str,
        gpu: str,
        mode: Mode,
        *,
        check: bool = False,
        trouble: Trouble | None = None,
        by: str = "anna@ctl1",
    ) -> Outcome:
        task = SetGpuMode(gpu_id=gpu, mode=mode, reset=True)
        return self._run(lambda context, end: set_mode(context, host, task, _consent(end, check=check)), trouble, by)

    def give_back(self, host: str | None = None, *, check: bool = False, trouble: Trouble | None = None) -> Outcome:
        options = GcOptions(on=host)
        consent: Consent[FleetPlan] = Consent(check=check, show=lambda _fleet: None, ask=lambda _fleet: None)
        return self._run(lambda context, _end: give_back(context, options, consent), trouble, "anna@ctl1")

    def cordon(
        self,
        host: str,
        task: SetCordon,
        *,
        check: bool = False,
        trouble: Trouble | None = None,
        by: str = "anna@ctl1",
    ) -> Outcome:
        consent: Consent[Planned[CordonPlan]] = Consent(
            check=check, show=lambda _planned: None, ask=lambda _planned: None
        )
        return self._run(lambda context, _end: cordon(context, host, task, consent), trouble, by)

    def reserve(
        self,
        profile: str,
        name: str,
        *hosts: str,
        count: int = 1,
        check: bool = False,
        trouble: Trouble | None = None,
        by: str = "anna@ctl1",
    ) -> Outcome:
        """Keep places on these hosts, or on all. `profile`: as for attach."""
        request = ReserveRequest(
            name=name,
            wish=wish_of(profile),
            conditions=NO_CONDITIONS,
            places=(),
            owner=None,
            ttl_s=3600,
        )

        def run(context: Context, end: Outcome) -> Changed:
            return reserve(context, request, hosts, _consent(end, check=check), policy=DEFAULT, count=count)

        return self._run(run, trouble, by)

    def cancel(self, name: str, *hosts: str, check: bool = False, trouble: Trouble | None = None) -> Outcome:
        """Give up a reservation on these hosts, or on all."""
        return self._run(
            lambda context, end: cancel(context, name, hosts, _consent(end, check=check)), trouble, "anna@ctl1"
        )

    def reserved(self) -> list[Reserved]:
        """What the hosts keep."""
        return [one for rows in reservations(self.context(None, [])).views for one in rows]

    def drain(
        self,
        options: DrainOptions,
        *,
        check: bool = False,
        trouble: Trouble | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """`meanwhile`: what happens while it waits."""

        def run(context: Context, end: Outcome) -> DrainResult:
            consent: Consent[FleetPlan] = Consent(
                check=check, show=lambda _fleet: None, ask=lambda fleet: end.agreed.extend(fleet.takes_away)
            )
            return drain(context, options, consent, rest=lambda _seconds: meanwhile())

        return self._run(run, trouble, "anna@ctl1")

    def defrag(self, profile: str, *hosts: str, trouble: Trouble | None = None) -> Outcome:
        """Make room for it on these hosts, or on all."""
        question = Question(wish=wish_of(profile), conditions=NO_CONDITIONS)
        options = DefragOptions(question=question, hosts=hosts)

        def run(context: Context, end: Outcome) -> FleetResult:
            consent: Consent[FleetPlan] = Consent(
                check=False, show=lambda _fleet: None, ask=lambda fleet: end.agreed.extend(fleet.takes_away)
            )
            return defrag(context, options, consent)[1]

        return self._run(run, trouble, "anna@ctl1")

    def purge(
        self,
        host: str,
        *,
        check: bool = False,
        trouble: Trouble | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """`meanwhile`: what happens while the question stands."""

        def run(context: Context, end: Outcome) -> PurgeResult:
            def ask(plan: PurgePlan) -> None:
                end.agreed.extend(plan.work.takes_away)
                meanwhile()

            consent: Consent[PurgePlan] = Consent(check=check, show=lambda _plan: None, ask=ask)
            return purge(context, host, consent)

        return self._run(run, trouble, "anna@ctl1")

    def _run(
        self,
        command: Callable[[Context, Outcome], Result],
        trouble: Trouble | None,
        by: str,
    ) -> Outcome:
        self.commands += 1
        for machine in self.machines.values():
            machine.libvirt.remember()
        outcome = Outcome()
        try:
            outcome.result = command(self.context(trouble, outcome.told, by=by), outcome)
        except VgpumgrError as error:
            outcome.error = error
        outcome.killed = trouble is not None and trouble.killed
        result = outcome.result
        found = result.problems if isinstance(result, FleetResult | RequestsResult) else [outcome.error]
        for problem in found:
            said = "" if problem is None else f"{problem.message} {problem.hint} {problem.details}"
            assert "bug in vgpumgr" not in said, said
            assert "Internal" not in said, said
        return outcome

    def inventory(self) -> Inventory:
        """What is declared, as if it had been read from files."""
        return Inventory(
            root="inventory", hosts={HostName(host): self._declaration(host) for host in self.machines}, findings=()
        )

    def _declaration(self, host: str) -> HostDeclaration:
        vms = {
            VmName(vm): VmDeclaration(
                name=VmName(vm),
                slots={
                    slot: SlotDeclaration(slot=slot, wish=wish_of(profile), where=_WHERE)
                    for slot, profile in sorted(slots.items())
                },
                where=_WHERE,
            )
            for (where, vm), slots in sorted(self.declared.items())
            if where == host
        }
        return HostDeclaration(
            name=HostName(host),
            endpoint=Endpoint(
                host=HostName(host), address=host, port=22, user="root", key_file=None, known_hosts="known_hosts"
            ),
            fgpu_per_gpu={},
            gpus=(),
            vms=vms,
            where=_WHERE,
            site=self.site,
            lazy=host in self.lazy,
        )

    # VMs

    def vms(self, host: str) -> list[Vm]:
        """In the order of their names, so that a number means the same VM each time."""
        return sorted(self.machines[host].libvirt.vms.values(), key=lambda vm: (vm.name, vm.uuid))

    def start(self, host: str, vm: Vm) -> bool:
        """virsh start: with the saved image's definition where there is one. False where a device is not to be had."""
        machine = self.machines[host]
        document = vm.image or vm.inactive
        devices = [str(device.source) for device in vm.hostdevs(document)]
        if any((found := machine.driver.find(key)) is None or found[1].holder_uuid for key in devices):
            return False
        for key in devices:
            machine.hold(key, vm.uuid, vm.name)
        vm.live, vm.image = document, None
        return True

    def stop(self, host: str, vm: Vm, *, save: bool = False) -> None:
        """The VM ends, or goes into a managed-save image."""
        if save:
            vm.image = vm.live
        vm.live = None
        self.machines[host].release(vm.uuid)

    # hands in /sys

    def remove_by_hand(self, host: str, number: int) -> bool:
        """Somebody removes a vGPU, whosever it is; the kernel does not let them while it is held."""
        machine = self.machines[host]
        found = [(gpu, vgpu) for gpu in machine.gpus() for vgpu in gpu.vgpus if vgpu.holder_uuid is None]
        if not found:
            return False
        gpu, vgpu = found[number % len(found)]
        self.handmade[host].pop(place(gpu, vgpu), None)
        if vgpu.uuid is not None:
            machine.driver.remove_mdev(vgpu.uuid)
        else:
            machine.driver.set_vf_type(key_of(gpu, vgpu), 0)
        machine.show()
        return True

    def make_by_hand(self, host: str, gpu_at: int, vf: int, kind_at: int) -> bool:
        """Somebody makes a vGPU in /sys; False where the driver refuses.

        On a VF without mdev, of the type that the ledger has there since this boot, it is what the ledger names: nobody can tell."""
        machine = self.machines[host]
        gpu = machine.driver.gpu(GPUS[gpu_at])
        kinds = gpu.board.mig_types if gpu.mig_on else gpu.board.types
        kind = kinds[kind_at % len(kinds)]
        self._made_by_hand += 1
        uuid = str(uuid_module.uuid5(uuid_module.NAMESPACE_OID, f"{host} {self._made_by_hand}"))
        before = machine.hardware()
        try:
            machine.make(gpu, vf, kind.id, uuid)
        except OSError:
            return False
        (new,) = machine.hardware().keys() - before.keys()
        since = [entry for entry in machine.ledger() if entry["boot"] == machine.boot]
        named = {(entry["gpu_uuid"], entry["vf_index"], entry["type_id"]) for entry in since}
        if new.uuid is not None or (new.gpu, new.vf, kind.id) not in named:
            self.handmade[host][new] = kind.id
        return True

    def exchange_card(self, host: str, number: int) -> None:
        """With the host off: another board of the same kind is in that GPU's slot."""
        self._cards += 1
        gpu = self.machines[host].driver.gpu(GPUS[number])
        gpu.uuid = f"GPU-{uuid_module.uuid5(uuid_module.NAMESPACE_DNS, f'{host} {number} {self._cards}')}"
        self.reboot(host)

    def swap_cards(self, host: str) -> None:
        """With the host off: each board is in the other's slot."""
        one, two = (self.machines[host].driver.gpu(pci) for pci in GPUS)
        one.uuid, two.uuid = two.uuid, one.uuid
        self.reboot(host)

    def lose_ledger(self, host: str) -> bool:
        return self.machines[host].lose_ledger()

    def copy_device(self, host: str, source: Vm, to: Vm) -> bool:
        """virsh edit: a VM's first host device stands in another's definition as well, without its alias."""
        libvirt = self.machines[host].libvirt
        found = source.hostdevs()
        if not found or any(device.source == found[0].source for device in to.hostdevs()):
            return False
        tree = ET.fromstring(templates.render_hostdev(found[0]))
        for alias in tree.findall("alias"):
            tree.remove(alias)
        libvirt.attach_device(to.uuid, ET.tostring(tree, encoding="unicode"))
        return True

    def migrate_framework(self, host: str, *, trouble: Trouble | None = None) -> Outcome:
        def run(context: Context, end: Outcome) -> FleetResult:
            consent: Consent[FleetPlan] = Consent(
                check=False, show=lambda _fleet: None, ask=lambda fleet: end.agreed.extend(fleet.takes_away)
            )
            return migrate_framework(context, (host,), consent)

        return self._run(run, trouble, "anna@ctl1")

    def reboot(self, host: str, upgrade: Upgrade = SAME) -> None:
        self.handmade[host].clear()
        self.machines[host].reboot(upgrade)


def _consent(outcome: Outcome, *, check: bool) -> Consent[Planned[PlanT]]:
    """Yes to everything, and a note of what was asked."""

    def ask(planned: Planned[PlanT]) -> None:
        outcome.agreed += planned.plan.takes_away

    return Consent(check=check, show=lambda _planned: None, ask=ask)
