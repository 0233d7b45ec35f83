"""What a new driver brings: boards and types that NVIDIA's list does not have. The driver's own word decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import turn
from tests.acceptance import near
from tests.acceptance.command import vgpumgr, vgpus
from tests.acceptance.near import document
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.driver.model import BoardSpec, TypeSpec

if TYPE_CHECKING:
    from tests.acceptance.near import Near, Sites

# Of a board without a row; without a series, as 595 has them; with an end that nobody knows; of no known form.
NAMES = (
    "NVIDIA A10G-6C",
    "GRID RTX T10-6",
    "NVIDIA RTX Pro 6000 Blackwell DC-6",
    "NVIDIA GB300-6QX",
    "NVIDIA GeForce RTX 3050",
)
VMS = tuple(f"vm{number:02}" for number in range(1, 3 * len(NAMES) + 1))


def board_of(number: int, name: str) -> BoardSpec:
    """A board of 48 GiB: eighths of that name, and the whole."""
    whole = name.replace("-6", "-48") if "-6" in name else "NVIDIA Whole"
    kinds = [
        TypeSpec(
            id=9000 + 10 * number + at, name=called, series="Q", framebuffer_mib=gib * 1024, max_instances=48 // gib
        )
        for at, (called, gib) in enumerate([(name, 6), (whole, 48)])
    ]
    return BoardSpec(
        name="NVIDIA Next",
        code="X",
        pci_device_id=0x3FFF,
        framebuffer_mib=49152,
        vfs=4,
        placements=False,
        types=tuple(kinds),
    )


def cards_of(*names: str) -> dict[str, BoardSpec]:
    return {f"0000:{0x41 + number:02x}:00.0": board_of(number, name) for number, name in enumerate(names)}


def spelt(host: Near) -> set[str]:
    """The names under which the hosts' types are shown."""
    return {row["profile"] for row in document(host, "profiles")["profiles"]}


@pytest.mark.parametrize("framework", turn.in_turn([MDEV_VF, VENDOR_VFIO]))
def test_types_that_nobody_knows_are_served_by_name_by_memory_and_by_fraction(framework: str, near_site: Sites) -> None:
    """And are no change the second time, after a boot, and once they are declared."""
    cards = cards_of(*NAMES)
    host = near_site({"kvm01": near.NearHost(vms=VMS, framework=framework, cards=cards)})
    anyway, left = "--even-if-it-will-not-start", iter(VMS)
    slots: dict[str, object] = {}
    for gpu, name in zip(cards, NAMES, strict=True):
        for wish in (("--profile", name), ("--gpu-memory", "5G", "--gpu-id", gpu), ("--gpu", "0.125", "--gpu-id", gpu)):
            vm = next(left)
            slots |= {vm: {"vgpu0": {"profile": name}}} if wish[0] == "--profile" else {}
            made = document(host, "attach", vm, *wish, anyway)
            said = [one["text"] for one in made["findings"] if one["kind"] == "may-not-start"]
            assert any("is of no series that vgpumgr knows" in text for text in said) is (name != NAMES[0]), said
            if wish[0] == "--gpu-memory":
                assert not document(host, "attach", vm, *wish, anyway, "--replace")["changed"], name
        assert f"{name}: room for 1 more" in vgpumgr(host, "capacity", "--profile", name).out
        assert document(host, "place", "--profile", name)["places"][0]["gpu"] == gpu
    last_words = sorted(name.split()[-1] for name in NAMES)
    assert sorted(row["type_name"] for row in vgpus(host)) == sorted([*last_words] * 3)
    host.machines["kvm01"].reboot()
    host.declare("kvm01", vgpumgr_vms=slots, vgpumgr_even_if_it_will_not_start=True)
    document(host, "reconcile", "--yes")
    document(host, "plan")
    assert sorted(vgpu.type.name for vgpu in host.machines["kvm01"].hardware().values()) == sorted([*NAMES] * 3)
    assert spelt(host) >= {"6C", "T10-6", "DC-6", "GB300-6QX", NAMES[-1], "NVIDIA Whole"}
    vgpumgr(host, "explain", "--on", "kvm01", "--profile", NAMES[-1])
    document(host, "doctor")
    document(host, "detach", *VMS, "--yes")


@pytest.mark.parametrize("asked", [("--gpu-memory", "5G"), ("--gpu", "0.125")])
def test_where_the_driver_gives_no_size_an_amount_is_refused_as_that_and_a_name_is_served(
    asked: tuple[str, str], near_site: Sites
) -> None:
    """As on virtual functions without NVML, whose list has names alone, and names of no known form say no size."""
    cards = {"0000:41:00.0": board_of(0, NAMES[-1])}
    host = near_site({"kvm01": near.NearHost(vms=VMS[:2], framework=VENDOR_VFIO, cards=cards)})
    host.machines["kvm01"].figures = {9000: (None, None), 9001: (None, None)}
    refused = vgpumgr(host, "attach", "vm01", *asked, code=5)
    assert "the driver says no size of a vGPU type" in refused.err
    document(host, "attach", "vm01", "--profile", NAMES[-1], "--even-if-it-will-not-start")
    assert not document(host, "attach", "vm01", "--profile", NAMES[-1])["changed"]
    other = vgpumgr(host, "attach", "vm02", "--profile", "NVIDIA Whole", code=5)
    assert "size is unknown" in other.err or "offers no" in other.err, other.err
