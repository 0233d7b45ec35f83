"""What the host program, libvirt and lspci read of PCI functions, and what /proc/driver/nvidia tells of the cards."""

from __future__ import annotations

from tests.kernel.contract.places import A40, CARDS, HOST, L40S, PCI, PCI_DRIVER, PROC, T4, function
from tests.kernel.contract.row import Basis, Rows
from tests.kernel.contract.steps import (
    among,
    closed,
    gone,
    leads,
    like,
    looks,
    names,
    tells,
)

_ALL = tuple(pci for card in CARDS for pci in (card.pci, *card.vfs))
_OTHERS = "a machine has other functions, too"


def _information(name: str, pci: str, uuid: str, minor: int) -> str:
    return (
        f"Model: \t\t {name}\nIRQ:   \t\t {150 + minor}\nGPU UUID: \t {uuid}\nVideo BIOS: \t ??.??.??.??.??\n"
        f"Bus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t {pci}\n"
        f"Device Minor: \t {minor}\nGPU Excluded:\t No\n"
    )


ROWS = (
    Rows("T4 A40 L40S H100", Basis.KERNEL)(
        "every card and VF is a function of the PCI bus, with a NUMA node",
        among(PCI, *_ALL, missing=("0000:41:00.4", "0000:81:01.4"), varies=_OTHERS),
        leads(function(T4.pci), "devices", "pci0000:41", T4.pci),
        leads(function(A40.vfs[7]), "devices", "pci0000:81", A40.vfs[7]),
        *(tells(function(pci, "numa_node"), "0\n") for card in CARDS for pci in (card.pci, *card.vfs[:1])),
    ),
    Rows("T4 A40 L40S H100", Basis.CAPTURE, "an A2 and an RTX PRO 6000: VFs have class 0x0302, too")(
        "every function has vendor, device, class and revision, VFs as their card",
        *(
            step
            for card in CARDS
            for pci in (card.pci, *card.vfs[:1], *card.vfs[-1:])
            for step in (
                tells(function(pci, "vendor"), "0x10de\n"),
                tells(function(pci, "device"), f"0x{card.gpu.board.pci_device_id:04x}\n"),
                tells(function(pci, "class"), "0x030200\n"),
                tells(function(pci, "revision"), "0xa1\n"),
                tells(function(pci, "subsystem_vendor"), "0x10de\n"),
                tells(function(pci, "subsystem_device"), "0x145a\n"),
            )
        ),
    ),
    Rows("T4 A40 L40S H100", Basis.CAPTURE, "an A2 and an RTX PRO 6000")(
        "every function is bound to nvidia, and its driver lists all of them",
        *(leads(function(pci, "driver"), "pci", "drivers", "nvidia") for pci in _ALL),
        among(PCI_DRIVER, *_ALL, varies="a driver has files of its own beside them"),
    ),
    Rows("T4", Basis.KERNEL)(
        "a function's uevent says what it is, and what is read of a function can be read only",
        tells(
            function(T4.pci, "uevent"),
            "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:1EB8\nPCI_SUBSYS_ID=10DE:145A\nPCI_SLOT_NAME=0000:41:00.0\n"
            "MODALIAS=pci:v000010DEd00001EB8sv000010DEsd0000145Abc03sc02i00\n",
        ),
        tells(function(T4.pci, "modalias"), "pci:v000010DEd00001EB8sv000010DEsd0000145Abc03sc02i00\n"),
        *(looks(function(T4.pci, name), "file 0444") for name in ("vendor", "device", "class", "irq", "resource")),
        looks(function(T4.pci, "uevent"), "file 0644"),
        looks(function(T4.pci, "driver"), "link"),
        looks(function(T4.pci), "link"),
        closed("EACCES", function(T4.pci, "vendor"), "w"),
    ),
    Rows("T4 A40 L40S H100", Basis.OPEN_MODULES, "nv-procfs.c")(
        "nothing but the cards is in /proc/driver/nvidia/gpus, each with its model, UUID and place",
        names(f"{PROC}/gpus", *(card.pci for card in CARDS)),
        names(PROC, "gpus", "params", "version"),
        *(names(f"{PROC}/gpus/{card.pci}", "information", "registry", "unbindLock") for card in CARDS),
        gone(f"{PROC}/gpus/{A40.vfs[0]}"),
        *(
            tells(
                f"{PROC}/gpus/{card.pci}/information",
                _information(card.gpu.board.name, card.pci, card.spec.uuid, minor),
            )
            for minor, card in enumerate(CARDS)
        ),
    ),
    Rows("T4 A40 L40S H100", Basis.OPEN_MODULES, "nv-procfs.c, nv.c")(
        "/proc/driver/nvidia tells what the module was loaded with, and /sys its version",
        like(f"{PROC}/params", r'(\w+: .*\n)*RegistryDwords: ""\nRegistryDwordsPerDevice: ""\n(\w+: .*\n)*'),
        like(
            f"{PROC}/version",
            rf"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {HOST.driver_version}  .*\nGCC version: .*\n",
        ),
        tells("/sys/module/nvidia/version", f"{HOST.driver_version}\n"),
        tells("/sys/module/nvidia/initstate", "live\n"),
        tells(f"{PROC}/gpus/{L40S.pci}/unbindLock", "0\n"),
    ),
)
