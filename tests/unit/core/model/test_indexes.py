"""A ledger, domains and functions that were changed row by row answer as those that were made afresh."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.builders import domain, vm_uuid
from tests.unit.core.law import LAW
from vgpumgr.core.model.domain_xml import Domain, Hostdev
from vgpumgr.core.model.functions import Parent, Parents
from vgpumgr.core.model.indexes import Domains, Ledger
from vgpumgr.core.model.vgpu import MADE, LedgerEntry, Vf, VgpuSpec
from vgpumgr.names import GpuUuid, PciAddress, Slot, VmName

VMS, GPUS, VFS = ("vm01", "vm02", "vm03"), (GpuUuid("GPU-a"), GpuUuid("GPU-b")), (0, 1, 2)
FUNCTIONS = tuple(PciAddress(f"0000:01:00.{number}") for number in range(1, 5))


@st.composite
def entries(draw: st.DrawFn) -> LedgerEntry:
    vm, vf = draw(st.sampled_from(VMS)), draw(st.sampled_from(VFS))
    spec = VgpuSpec(
        vm=vm_uuid(vm),
        vm_name=VmName(vm),
        slot=Slot("gpu0"),
        generation=draw(st.integers(1, 2)),
        gpu_uuid=draw(st.sampled_from(GPUS)),
        gpu=PciAddress("0000:01:00.0"),
        vf_index=vf,
        parent=FUNCTIONS[vf],
        uuid=None,
        type_id=1,
        type_name="A40-4Q",
    )
    return LedgerEntry(vgpu=spec, boot="boot", state=MADE)


def answers(ledger: Ledger) -> list[object]:
    """What a ledger says of everything that it could be asked of."""
    return [
        *ledger,
        *(ledger.of_vm(vm_uuid(vm)) for vm in VMS),
        *(ledger.of_device(Vf(pci)) for pci in FUNCTIONS),
        *(list(ledger.on(gpu).items()) for gpu in GPUS),
        *(ledger.newest_vf(gpu) for gpu in GPUS),
        *(ledger.on_vf(gpu, vf) for gpu, vf in product(GPUS, VFS)),
        *(ledger.named(entry.vgpu.key) for entry in ledger),
    ]


@LAW
@given(st.lists(st.tuples(entries(), st.booleans(), st.booleans()), max_size=12))
def test_a_ledger_that_grew_and_shrank_answers_as_a_fresh_one(changes: list[tuple[LedgerEntry, bool, bool]]) -> None:
    ledger = Ledger()
    for entry, stays, asked in changes:
        ledger = ledger.put(entry) if stays else ledger.without(entry.vgpu.key)
        if asked:
            assert answers(ledger) == answers(Ledger(ledger))
    assert answers(ledger) == answers(Ledger(ledger))


@LAW
@given(st.lists(entries(), min_size=1, max_size=6))
def test_a_key_that_two_entries_have_is_taken_out_with_both(rows: list[LedgerEntry]) -> None:
    ledger = Ledger([*rows, *rows])
    ledger.on(rows[0].vgpu.gpu_uuid)
    rest = ledger.without(rows[0].vgpu.key)
    assert answers(rest) == answers(Ledger(row for row in ledger if row.vgpu.key != rows[0].vgpu.key))


def with_devices(name: str, devices: tuple[PciAddress, ...], problem: str | None) -> Domain:
    named = tuple(Hostdev(source=Vf(pci), alias=None, managed=True) for pci in devices)
    return replace(domain(name), inactive=named, problem=problem)


@LAW
@given(
    st.lists(
        st.tuples(
            st.sampled_from(VMS),
            st.lists(st.sampled_from(FUNCTIONS), unique=True).map(tuple),
            st.sampled_from((None, "no XML")),
            st.booleans(),
        )
    )
)
def test_domains_that_became_others_answer_as_fresh_ones(
    changes: list[tuple[str, tuple[PciAddress, ...], str | None, bool]],
) -> None:
    def said(domains: Domains) -> list[object]:
        named = [domains.naming(Vf(pci)) for pci in FUNCTIONS]
        uuids = [sorted(domains.uuids_naming(Vf(pci))) for pci in FUNCTIONS]
        found = [(domains.find(vm_uuid(vm)), domains.of_name(VmName(vm))) for vm in VMS]
        return [*domains, *named, *uuids, *found, set(domains.named), domains.unreadable]

    domains = Domains(map(domain, VMS))
    for name, devices, problem, asked in changes:
        domains = domains.put(with_devices(name, devices, problem))
        if asked:
            assert said(domains) == said(Domains(domains))
    assert said(domains) == said(Domains(domains))


def test_functions_that_became_others_are_found_by_address_index_and_group() -> None:
    def vf(number: int, group: str | None) -> Parent:
        return Parent(pci=FUNCTIONS[number], vf_index=number, creatable=None, vgpus=(), group=group)

    functions = Parents(vf(number, str(number // 2)) for number in range(3))
    assert functions.by_group == {"0": functions[:2], "1": functions[2:]}
    other = functions.replaced(1, vf(1, None))
    assert other.by_group == {"0": functions[:1], "1": functions[2:]}
    assert [other.find(pci) for pci in FUNCTIONS] == [*other, None]
    assert [other.of_index(number) for number in range(4)] == [*other, None]
