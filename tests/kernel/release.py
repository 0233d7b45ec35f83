"""The Debian releases that a host VM is made of: what is installed, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

_PACKAGES = (
    # what boots, and what a KVM host has
    *("linux-image-amd64", "busybox-static", "systemd-sysv", "udev", "dbus", "kmod", "iproute2", "pciutils"),
    *(
        "openssh-server",
        "python3",
        "libvirt-daemon-system",
        "libvirt-clients",
        "qemu-system-x86",
        "qemu-utils",
        "mdevctl",
        "sudo",
    ),
    # what builds the kernel module; taken out of the disk again
    *("linux-headers-amd64", "gcc", "make"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One kind of host VM. `name` is what tests and logs call it, `suite` Debian's own word.

    `modular`: virtqemud in place of libvirtd, as RHEL has it (virtqemud/README.md).
    """

    name: str
    suite: str
    packages: tuple[str, ...] = _PACKAGES
    modular: bool = False


DEBIAN12 = Release(name="debian12", suite="bookworm")
DEBIAN13 = Release(name="debian13", suite="trixie")
DEBIAN13_MODULAR = Release(name="debian13-modular", suite="trixie", modular=True)
RELEASES = (DEBIAN12, DEBIAN13)  # what most tests run on
ALL = (*RELEASES, DEBIAN13_MODULAR)
