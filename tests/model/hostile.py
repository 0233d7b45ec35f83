"""What befalls two hosts in a soak, beside all that a Story has: cards are exchanged, ledgers are lost, and others work there, too.

A vGPU that its ledger has lost is nobody's for the ledger, and ours all the same: it is remembered as an orphan (machine.py).
It may be entered again, once, or freed by its detach; and nothing is made a second time beside it.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.model import forging, promises
from tests.model.fleet import vm_uuid
from tests.model.machine import GPUS, VFS, Place
from tests.model.people import MAX_VMS
from tests.model.story import Story, hosts, numbers, profiles, slots

if TYPE_CHECKING:
    from tests.model.machine import Machine
    from vgpumgr.core.model.claims import Claim, State
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.names import Slot

ALL = ("cards", "ledgers", "inventories", "copies", "edits", "claims")
WITH = tuple(os.environ.get("SOAK_WITH", ",".join(ALL)).split(","))


class HostileStory(Story):
    """A Story with worse neighbours. `counts`: how much of each thing happened, over all cases."""

    counts: ClassVar[Counter[str]] = Counter()

    def teardown(self) -> None:
        self.counts["cases"] += 1
        try:
            super().teardown()
        finally:
            if hasattr(self, "fleet"):
                self.counts["commands"] += self.fleet.commands

    @precondition(lambda self: "cards" in WITH)
    @rule(host=hosts, number=st.integers(0, len(GPUS) - 1))
    def card_exchanged(self, host: str, number: int) -> None:
        """The host is off meanwhile; another board of the same kind is in the slot after it."""
        self.counts["cards exchanged"] += 1
        self.fleet.exchange_card(host, number)

    @precondition(lambda self: "cards" in WITH)
    @rule(host=hosts)
    def cards_swapped(self, host: str) -> None:
        """Each board is in the other's slot after it."""
        self.counts["cards swapped"] += 1
        self.fleet.swap_cards(host)

    @precondition(lambda self: "ledgers" in WITH)
    @rule(host=hosts)
    def ledger_lost(self, host: str) -> None:
        """rm ledger.json; nobody writes at that moment."""
        self.counts["ledgers lost"] += self.fleet.lose_ledger(host)

    @precondition(lambda self: "inventories" in WITH)
    @rule(host=hosts, declared=st.lists(st.tuples(st.integers(0, 2), slots, profiles), max_size=2))
    def another_inventory(self, host: str, declared: list[tuple[int, Slot, str]]) -> None:
        """A second controller, of somebody who knows nothing of ours and declares what he wants on that host."""
        self.counts["reconciles by another inventory"] += 1
        machine = self.fleet.machines[host]
        before = promises.truth(machine)
        theirs = {(host, f"{host[-1]}vm{number + 1:02}"): {slot: profile} for number, slot, profile in declared}
        mine = self.fleet.declared, self.fleet.site
        self.fleet.declared, self.fleet.site = theirs, "lab2"
        try:
            outcome = self.fleet.reconcile(host, by="bob@ctl2")
        finally:
            self.fleet.declared, self.fleet.site = mine
        promises.check_command(machine, before, outcome, alone=True)
        now = promises.truth(machine)
        for uuid, domain in before.domains.items():
            for claim in domain.claims.claims if domain.claims else ():
                if claim.site == self.fleet.site and claim.state == "bound":
                    _check_kept(machine, before, domain, claim, now.domains[uuid].claim(claim.slot))

    @precondition(lambda self: "copies" in WITH)
    @rule(host=hosts, number=numbers)
    def copied_without_metadata(self, host: str, number: int) -> None:
        """A definition under another name and UUID: with the devices, and without our element."""
        vm, libvirt = self._vm(host, number), self.fleet.machines[host].libvirt
        if vm is None or len(libvirt.vms) >= MAX_VMS:
            return
        name = f"{vm.name}-copy"
        if vm_uuid(host, name) not in libvirt.vms:
            self.counts["copies without metadata"] += 1
            libvirt.redefine(libvirt.define(name, vm_uuid(host, name), like=vm), metadata=True, hostdevs=False)

    @precondition(lambda self: "edits" in WITH)
    @rule(host=hosts, number=numbers, other=numbers)
    def device_put_into_another(self, host: str, number: int, other: int) -> None:
        """By virsh edit: a VM's first device stands in another VM's definition, too."""
        one, two = self._vm(host, number), self._vm(host, other)
        if one is not None and two is not None and one is not two:
            self.counts["devices put into another definition"] += self.fleet.copy_device(host, one, two)

    @precondition(lambda self: "claims" in WITH)
    @rule(
        host=hosts,
        number=numbers,
        slot=slots,
        like=numbers,
        at=st.tuples(st.integers(0, len(GPUS) - 1), st.integers(0, VFS - 1)),
        profile=profiles,
        state=forging.states,
        generation=forging.generations,
        device=st.booleans(),
    )
    def claim_forged(
        self,
        *,
        host: str,
        number: int,
        slot: Slot,
        like: int,
        at: tuple[int, int],
        profile: str,
        state: State,
        generation: int,
        device: bool,
    ) -> None:
        """By whoever may edit a VM: a claim for what another VM has, or for a place of his choice."""
        vm, other = self._vm(host, number), self._vm(host, like)
        if vm is None or other is None:
            return
        self.counts["claims forged"] += 1
        forging.forge(
            self.fleet.machines[host],
            vm,
            slot,
            like=other.uuid if other is not vm else None,
            at=at,
            profile=profile,
            state=state,
            generation=generation,
            device=device,
        )


def _check_kept(machine: Machine, before: promises.Truth, domain: Domain, claim: Claim, after: Claim | None) -> None:
    """What another site's claim says stays; where its vGPU is gone, the claim may say at most another place for the same."""
    said = claim.binding
    place = Place(gpu=said.gpu_uuid, vf=None if said.uuid else said.vf_index, uuid=said.uuid)
    device = str(said.device)
    named = device in {str(one.source) for one in domain.inactive} and device == promises.name_of(machine, place)
    expected = claim
    if after is not None and not (before.hardware.get(place) == said.type_id and named):
        expected = replace(claim, by=after.by, at=after.at, generation=after.generation, binding=after.binding)
    assert after == expected, f"{domain.name}: another site's {claim} became {after}"
