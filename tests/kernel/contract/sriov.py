"""Virtual functions, and sriov_numvfs: sriov_numvfs_store() in drivers/pci/iov.c."""

from __future__ import annotations

from tests.kernel.contract.places import A40, L40S, T4, function
from tests.kernel.contract.row import Basis, Rows
from tests.kernel.contract.steps import gone, leads, looks, names, puts, refuses, tells

_SR_IOV = (A40, L40S)
_FILES = ("sriov_totalvfs", "sriov_numvfs", "virtfn0")
_NUMVFS = function(A40.pci, "sriov_numvfs")
_UNLIKE = ("", "x", "-1", "8x", " 8", "8 8", "0x", "65536", "99999", "08")
_kernel = Rows("A40 L40S", Basis.KERNEL)

ROWS = (
    Rows("A40 L40S", Basis.CAPTURE, "an A2 (16 of 16) and an RTX PRO 6000 (48 of 48)")(
        "all VFs are on, and as many as there can be",
        *(tells(function(card.pci, name), "8\n") for card in _SR_IOV for name in ("sriov_totalvfs", "sriov_numvfs")),
        *(looks(function(card.pci, "sriov_numvfs"), "file 0644") for card in _SR_IOV),
        *(looks(function(card.pci, "sriov_totalvfs"), "file 0444") for card in _SR_IOV),
    ),
    Rows(
        "A40 L40S", Basis.CAPTURE, "an A2: offset 4, stride 1; seen on A40 and H100 hosts, too. An RTX PRO 6000 has 2"
    )(
        "the first VF is function 4 of the card, and the ninth function is on the next device",
        *(tells(function(card.pci, "sriov_offset"), "4\n") for card in _SR_IOV),
        *(tells(function(card.pci, "sriov_stride"), "1\n") for card in _SR_IOV),
        *(leads(function(card.pci, f"virtfn{n}"), vf) for card in _SR_IOV for n, vf in enumerate(card.vfs)),
        leads(function(A40.pci, "virtfn4"), "0000:81:01.0"),
        *(gone(function(card.pci, "virtfn8")) for card in _SR_IOV),
    ),
    _kernel(
        "each VF knows its physical function, which knows none; their device id is its own, and they are bound as they come",
        *(leads(function(vf, "physfn"), card.pci) for card in _SR_IOV for vf in card.vfs),
        *(gone(function(card.pci, "physfn")) for card in _SR_IOV),
        *(tells(function(card.pci, "sriov_vf_device"), f"{card.gpu.board.pci_device_id:x}\n") for card in _SR_IOV),
        *(tells(function(card.pci, "sriov_drivers_autoprobe"), "1\n") for card in _SR_IOV),
    ),
    Rows("T4 A40", Basis.KERNEL)(
        "neither a card without SR-IOV nor a VF has any of its files",
        *(gone(function(pci, name)) for pci in (T4.pci, A40.vfs[0]) for name in _FILES),
    ),
    Rows("A40", Basis.KERNEL)(
        "the number that is there already can be written, in any base; more is ERANGE, and what is no number of 16 bits EINVAL",
        *(puts(_NUMVFS, text) for text in ("8", "8\n", "0x8", "010", "+8", "")),
        *(refuses("ERANGE", _NUMVFS, text) for text in ("9", "65535\n")),
        *(refuses("EINVAL", _NUMVFS, text + "\n") for text in _UNLIKE),
        tells(_NUMVFS, "8\n"),
    ),
    Rows("A40 L40S", Basis.OPEN_PART, "525.85.07: nvidia.ko has no sriov_configure, run on 5.15")(
        "another number while VFs are on, 0 as well, is ENOENT, because NVIDIA's driver offers no way to change it",
        *(
            refuses("ENOENT", function(card.pci, "sriov_numvfs"), text)
            for card in _SR_IOV
            for text in ("0\n", "3\n", "1")
        ),
        *(tells(function(card.pci, "sriov_numvfs"), "8\n") for card in _SR_IOV),
    ),
    Rows("L40S", Basis.CAPTURE, "an RTX PRO 6000 with vGPUs")(
        "a vGPU changes nothing of what SR-IOV shows",
        puts(function(L40S.vfs[3], "nvidia/current_vgpu_type"), str(L40S.kind("4Q").id)),
        tells(function(L40S.pci, "sriov_numvfs"), "8\n"),
        leads(function(L40S.pci, "virtfn3"), L40S.vfs[3]),
        names(function(L40S.vfs[3], "iommu_group/devices"), L40S.vfs[3]),
    ),
)
