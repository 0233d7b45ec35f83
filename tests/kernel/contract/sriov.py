"""Virtual functions, and sriov_numvfs: sriov_numvfs_store() in drivers/pci/iov.c."""

from __future__ import annotations

from tests.kernel.contract.places import A40, L40S, T4, function
from tests.kernel.contract.row import Basis, Row
from tests.kernel.contract.steps import gone, leads, looks, names, puts, refuses, tells

_SR_IOV = (A40, L40S)
_NUMVFS = function(A40.pci, "sriov_numvfs")
_UNLIKE = ("", "x", "-1", "8x", " 8", "8 8", "0x", "65536", "99999", "08")

ROWS = (
    Row(
        name="all VFs are on, and as many as there can be",
        card="A40 L40S",
        rests=Basis.CAPTURE,
        source="an A2 (16 of 16) and an RTX PRO 6000 (48 of 48)",
        steps=tuple(
            step
            for card in _SR_IOV
            for step in (
                tells(function(card.pci, "sriov_totalvfs"), "8\n"),
                tells(function(card.pci, "sriov_numvfs"), "8\n"),
                looks(function(card.pci, "sriov_numvfs"), "file 0644"),
                looks(function(card.pci, "sriov_totalvfs"), "file 0444"),
            )
        ),
    ),
    Row(
        name="the first VF is function 4 of the card, and the ninth function is on the next device",
        card="A40 L40S",
        rests=Basis.CAPTURE,
        source="an A2: offset 4, stride 1; seen on A40 and H100 hosts, too. An RTX PRO 6000 has 2",
        steps=(
            *(tells(function(card.pci, "sriov_offset"), "4\n") for card in _SR_IOV),
            *(tells(function(card.pci, "sriov_stride"), "1\n") for card in _SR_IOV),
            *(leads(function(card.pci, f"virtfn{n}"), vf) for card in _SR_IOV for n, vf in enumerate(card.vfs)),
            leads(function(A40.pci, "virtfn4"), "0000:81:01.0"),
            *(gone(function(card.pci, "virtfn8")) for card in _SR_IOV),
        ),
    ),
    Row(
        name="each VF knows its physical function, which knows none",
        card="A40 L40S",
        rests=Basis.KERNEL,
        steps=(
            *(leads(function(vf, "physfn"), card.pci) for card in _SR_IOV for vf in card.vfs),
            *(gone(function(card.pci, "physfn")) for card in _SR_IOV),
        ),
    ),
    Row(
        name="a card without SR-IOV has none of its files",
        card="T4",
        rests=Basis.KERNEL,
        steps=tuple(gone(function(T4.pci, name)) for name in ("sriov_totalvfs", "sriov_numvfs", "virtfn0")),
    ),
    Row(
        name="a VF has none of SR-IOV's own files",
        card="A40",
        rests=Basis.KERNEL,
        steps=tuple(gone(function(A40.vfs[0], name)) for name in ("sriov_totalvfs", "sriov_numvfs", "virtfn0")),
    ),
    Row(
        name="the VFs' device id is the card's, and they are bound as they come",
        card="A40 L40S",
        rests=Basis.KERNEL,
        steps=tuple(
            step
            for card in _SR_IOV
            for step in (
                tells(function(card.pci, "sriov_vf_device"), f"{card.gpu.board.pci_device_id:x}\n"),
                tells(function(card.pci, "sriov_drivers_autoprobe"), "1\n"),
            )
        ),
    ),
    Row(
        name="the number that is there already can be written, in any base",
        card="A40",
        rests=Basis.KERNEL,
        steps=(*(puts(_NUMVFS, text) for text in ("8", "8\n", "0x8", "010", "+8", "")), tells(_NUMVFS, "8\n")),
    ),
    Row(
        name="turning VFs off by hand is refused",
        card="A40 L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: nvidia.ko has no sriov_configure, run on 5.15",
        steps=tuple(
            step
            for card in _SR_IOV
            for step in (
                refuses("ENOENT", function(card.pci, "sriov_numvfs"), "0\n"),
                tells(function(card.pci, "sriov_numvfs"), "8\n"),
            )
        ),
    ),
    Row(
        name="another number while VFs are on is ENOENT, because NVIDIA's driver offers no way to change it",
        card="A40",
        rests=Basis.OPEN_PART,
        source="525.85.07: nvidia.ko has no sriov_configure, run on 5.15",
        steps=(refuses("ENOENT", _NUMVFS, "3\n"), refuses("ENOENT", _NUMVFS, "1"), tells(_NUMVFS, "8\n")),
    ),
    Row(
        name="more VFs than the card has is ERANGE",
        card="A40",
        rests=Basis.KERNEL,
        steps=(refuses("ERANGE", _NUMVFS, "9"), refuses("ERANGE", _NUMVFS, "65535\n"), tells(_NUMVFS, "8\n")),
    ),
    Row(
        name="what is no number of 16 bits is EINVAL",
        card="A40",
        rests=Basis.KERNEL,
        steps=(*(refuses("EINVAL", _NUMVFS, text + "\n") for text in _UNLIKE), tells(_NUMVFS, "8\n")),
    ),
    Row(
        name="a vGPU changes nothing of what SR-IOV shows",
        card="L40S",
        rests=Basis.CAPTURE,
        source="an RTX PRO 6000 with vGPUs",
        steps=(
            puts(function(L40S.vfs[3], "nvidia/current_vgpu_type"), str(L40S.kind("4Q").id)),
            tells(function(L40S.pci, "sriov_numvfs"), "8\n"),
            leads(function(L40S.pci, "virtfn3"), L40S.vfs[3]),
            names(function(L40S.vfs[3], "iommu_group/devices"), L40S.vfs[3]),
        ),
    ),
)
