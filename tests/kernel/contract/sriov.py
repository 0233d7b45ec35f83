"""Virtual functions, and sriov_numvfs: sriov_numvfs_store() in drivers/pci/iov.c."""

from __future__ import annotations

from tests.kernel.contract.places import A40, L40S, T4, function
from tests.kernel.contract.row import KernelOnly, LabOnly, Row
from tests.kernel.contract.steps import gone, leads, looks, names, puts, refuses, tells

_SR_IOV = (A40, L40S)
_NUMVFS = function(A40.pci, "sriov_numvfs")
_REFUSED = "sriov-manage is the way on real cards (kernel-and-tools.md, section 4); the errno is likely"
_UNLIKE = ("", "x", "-1", "8x", " 8", "8 8", "0x", "65536", "99999", "08")

ROWS = (
    Row(
        name="all VFs are on, and as many as there can be",
        card="A40 L40S",
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
        source="the offset as seen on A2, A40 and H100 hosts",
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
        steps=(
            *(leads(function(vf, "physfn"), card.pci) for card in _SR_IOV for vf in card.vfs),
            *(gone(function(card.pci, "physfn")) for card in _SR_IOV),
        ),
    ),
    Row(
        name="a card without SR-IOV has none of its files",
        card="T4",
        steps=tuple(gone(function(T4.pci, name)) for name in ("sriov_totalvfs", "sriov_numvfs", "virtfn0")),
    ),
    Row(
        name="a VF has none of SR-IOV's own files",
        card="A40",
        steps=tuple(gone(function(A40.vfs[0], name)) for name in ("sriov_totalvfs", "sriov_numvfs", "virtfn0")),
    ),
    Row(
        name="the VFs' device id is the card's, and they are bound as they come",
        card="A40 L40S",
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
        steps=(*(puts(_NUMVFS, text) for text in ("8", "8\n", "0x8", "010", "+8", "")), tells(_NUMVFS, "8\n")),
    ),
    Row(
        name="turning VFs off by hand is refused",
        card="A40 L40S",
        source=_REFUSED,
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
        only=LabOnly(
            source="drivers/pci/iov.c for a driver without sriov_configure, which NVIDIA's is: its own sriov-manage binds the "
            "card to pci-pf-stub for this. The test module has one, so that tests need no pci-pf-stub."
        ),
        steps=(refuses("ENOENT", _NUMVFS, "3\n"), tells(_NUMVFS, "8\n")),
    ),
    Row(
        name="with a driver that can change it another number while VFs are on is EBUSY, before the driver is asked",
        card="A40",
        only=KernelOnly(reason="NVIDIA's driver offers no sriov_configure; the test module does"),
        steps=(refuses("EBUSY", _NUMVFS, "3\n"), refuses("EBUSY", _NUMVFS, "1"), tells(_NUMVFS, "8\n")),
    ),
    Row(
        name="more VFs than the card has is ERANGE",
        card="A40",
        steps=(refuses("ERANGE", _NUMVFS, "9"), refuses("ERANGE", _NUMVFS, "65535\n"), tells(_NUMVFS, "8\n")),
    ),
    Row(
        name="what is no number of 16 bits is EINVAL",
        card="A40",
        steps=(*(refuses("EINVAL", _NUMVFS, text + "\n") for text in _UNLIKE), tells(_NUMVFS, "8\n")),
    ),
    Row(
        name="a vGPU changes nothing of what SR-IOV shows",
        card="L40S",
        steps=(
            puts(function(L40S.vfs[3], "nvidia/current_vgpu_type"), str(L40S.kind("4Q").id)),
            tells(function(L40S.pci, "sriov_numvfs"), "8\n"),
            leads(function(L40S.pci, "virtfn3"), L40S.vfs[3]),
            names(function(L40S.vfs[3], "iommu_group/devices"), L40S.vfs[3]),
        ),
    ),
)
