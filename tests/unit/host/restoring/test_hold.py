"""The libvirt hook of a host that restores its vGPUs: which VM it holds back, and which it must not."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import MDEV, MDEV_PF, OTHER_VM, TYPES, VENDOR, VM, FakeHost, make_entry
from vgpumgr.host.dispatcher import DISPATCHER, HELD
from vgpumgr.host.files import Root
from vgpumgr.host.restoring.hold import find_why
from vgpumgr.host.restoring.unit import HOOK, texts

if TYPE_CHECKING:
    from pathlib import Path

ENTRY = make_entry(VENDOR)
FUNCTION = ENTRY["parent"]
NEXT = f"{FUNCTION[:-1]}5"
OTHER_TYPE = next(kind for kind in TYPES if kind != ENTRY["type_id"])
EARLIER = "an earlier boot"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost.build(tmp_path, VENDOR)


def definition(vm: str = VM, function: str = FUNCTION) -> bytes:
    """As libvirt has it: numbers in hexadecimal, and a network card's own address."""
    domain, bus, rest = function.split(":")
    slot, number = rest.split(".")
    return (
        f"<domain type='kvm'><uuid>{vm}</uuid><title>für A</title><metadata><a xmlns='urn:a'><uuid>{OTHER_VM}</uuid></a></metadata><devices>"
        "<interface type='network'><address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></interface>"
        "<hostdev mode='subsystem' type='pci' managed='no'><source>"
        f"<address domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' function='0x{number}'/>"
        "</source></hostdev></devices></domain>"
    ).encode()


def why(host: FakeHost, current: int, entry: dict[str, Any], text: bytes | None = None) -> str | None:
    host.put_ledger(entry)
    for function in (FUNCTION, NEXT) if current else ():
        host.make_vgpu(function, current, None)
    return find_why(Root(host.root), text or definition())


@pytest.mark.parametrize("current", [OTHER_TYPE, ENTRY["type_id"]])
def test_a_vm_is_held_back_from_what_somebody_else_made_since_the_boot(host: FakeHost, current: int) -> None:
    """Also from one of the same type: it is meant for another VM."""
    found = why(host, current, {**ENTRY, "boot": EARLIER})
    assert found is not None
    assert f"the vGPU on {FUNCTION} is not the {ENTRY['type_name']} that vgpumgr made for slot {ENTRY['slot']}" in found


def test_a_vm_is_held_back_from_a_type_that_somebody_put_in_place_of_ours(host: FakeHost) -> None:
    assert why(host, OTHER_TYPE, ENTRY) is not None


def test_a_vm_starts_with_its_own(host: FakeHost) -> None:
    assert why(host, ENTRY["type_id"], ENTRY) is None


def test_libvirt_itself_refuses_what_is_not_there(host: FakeHost) -> None:
    assert why(host, 0, {**ENTRY, "boot": EARLIER}) is None
    assert (
        why(host, 0, {**ENTRY, "boot": EARLIER, "parent": "0000:ff:00.4"}, definition(function="0000:ff:00.4")) is None
    )


@pytest.mark.parametrize(
    "text",
    [
        definition(vm=OTHER_VM),
        definition(function=NEXT),
        definition().replace(b"hostdev", b"nothing"),
    ],
)
def test_somebody_elses_vm_and_one_that_does_not_name_the_function_start(host: FakeHost, text: bytes) -> None:
    assert why(host, OTHER_TYPE, {**ENTRY, "boot": EARLIER}, text) is None


def test_an_mdev_has_a_name_of_its_own_and_is_libvirts(host: FakeHost) -> None:
    entry = {**make_entry(MDEV_PF, parent=FUNCTION, uuid=MDEV), "boot": EARLIER}
    assert why(host, OTHER_TYPE, entry) is None


@pytest.mark.parametrize(
    ("words", "status", "held"),
    [
        (("vm1", "prepare", "begin", "-"), HELD, True),
        (("vm1", "prepare", "begin", "-"), 0, False),
        (("vm1", "prepare", "begin", "-"), 1, False),  # as Python ends at an error
        (("vm1", "prepare", "begin", "-"), 126, False),  # as the dispatcher refuses
        (("vm1", "release", "end", "-"), HELD, False),
    ],
)
def test_the_hook_holds_back_only_a_vm_that_the_program_names(
    tmp_path: Path, words: tuple[str, ...], status: int, held: bool
) -> None:
    script = tmp_path / "dispatcher"
    script.write_text(
        f"import sys\nassert sys.argv[1:] == ['hold', 'prepare'] and sys.stdin.read() == 'it'\nsys.exit({status})\n"
    )
    hook = texts()[HOOK].decode().replace(DISPATCHER, str(script))
    done = subprocess.run(["sh", "-c", hook, "hook", *words], input="it", text=True, check=False)
    assert (done.returncode != 0) == held
