"""Identifiers as types: each `parse_…` returns the canonical form or raises BadName. Other modules pass no bare str."""

from __future__ import annotations

import functools
import re
import uuid as uuid_module
from typing import TYPE_CHECKING, NewType

from vgpumgr.errors import BadName

if TYPE_CHECKING:
    from collections.abc import Iterable

PciAddress = NewType("PciAddress", str)  # dddd:bb:ss.f, lower case, as sysfs writes it
GpuUuid = NewType("GpuUuid", str)  # GPU-8-4-4-4-12, as NVML and /proc/driver/nvidia write it
HostName = NewType("HostName", str)  # the inventory's name of a host
VmName = NewType("VmName", str)  # libvirt's domain name
VmUuid = NewType("VmUuid", str)  # lower case, dashed
MdevUuid = NewType("MdevUuid", str)  # lower case, dashed
Slot = NewType("Slot", str)  # [A-Za-z0-9_-]{1,16}
OwnerName = NewType("OwnerName", str)  # whose a VM is: printable, at most 64 characters

DEFAULT_SLOT = Slot("vgpu0")

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")
_GPU = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SLOT = re.compile(r"[A-Za-z0-9_-]{1,16}")
_VM = re.compile(r"[^/\x00-\x1f\x7f]+")
_NUMBER = re.compile(r"(\d+)", re.ASCII)
_COUNTED = re.compile(r"(?<!\d)(?<!\d\.)(\d+)", re.ASCII)  # not the decimals of 0.25
_SEPARATOR = re.compile(r"[-_. ]")
_BETWEEN_NUMBERS = re.compile(r"(?<=\d)[-_. ](?=\d)", re.ASCII)  # without it 1-5C would be 15C
_A_WORD_OF_IT = 3  # as far away as three slips
_LONGEST_OWNER = 64
_LONGEST = 18  # digits of a number that are compared
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?")


def parse_pci_address(text: str) -> PciAddress:
    """Parse a PCI address; the domain can be missing (0000) or have eight digits, as nvidia-smi prints it."""
    match = _PCI.fullmatch(text.strip().lower())
    if match is None:
        raise BadName(f"not a PCI address: {text!r}", hint="write it as 0000:41:00.0")
    domain, bus, device, function = match.groups(default="0000")
    # Domains above ffff exist (VMD); sysfs prints them with as many digits as they need.
    return PciAddress(f"{int(domain, 16):04x}:{bus}:{device}.{function}")


def parse_gpu_uuid(text: str) -> GpuUuid:
    if _GPU.fullmatch(text.strip()) is None:
        raise BadName(f"not a GPU UUID: {text!r}", hint="write it as `nvidia-smi -L` prints it: GPU-8a6f…")
    return GpuUuid("GPU-" + text.strip()[4:].lower())


def parse_gpu_id(text: str) -> PciAddress | GpuUuid:
    """A GPU as a user names it: by PCI address or by UUID."""
    return parse_gpu_uuid(text) if text.strip().upper().startswith("GPU-") else parse_pci_address(text)


def parse_host_name(text: str) -> HostName:
    if _HOST.fullmatch(text) is None:
        raise BadName(f"not a host name: {text!r}")
    return HostName(text)


def parse_vm_name(text: str) -> VmName:
    """Any name that libvirt accepts: not empty, no slash, no control character."""
    if _VM.fullmatch(text) is None:
        raise BadName(f"not a VM name: {text!r}", hint="a VM's name has no slash and no control character")
    return VmName(text)


def parse_uuid(text: str) -> VmUuid:
    try:
        return VmUuid(str(uuid_module.UUID(text)))
    except ValueError as error:
        raise BadName(f"not a UUID: {text!r}") from error


def as_uuid(text: str | None) -> VmUuid | None:
    """The text as a UUID in its canonical form; None if it is none."""
    try:
        return None if text is None else parse_uuid(text)
    except BadName:
        return None


def parse_slot(text: str) -> Slot:
    if _SLOT.fullmatch(text) is None:
        raise BadName(f"not a slot name: {text!r}", hint="1 to 16 of A-Z a-z 0-9 _ -, for example vgpu0")
    return Slot(text)


def parse_owner(text: str) -> OwnerName:
    """The name of a team, project or customer, without the space around it."""
    name = text.strip()
    if not 0 < len(name) <= _LONGEST_OWNER or not name.isprintable():
        raise BadName(f"not an owner's name: {text[:_LONGEST_OWNER]!r}", hint="1 to 64 printable characters: team-a")
    return OwnerName(name)


@functools.lru_cache(maxsize=1024)
def compute_mdev_uuid(vm: VmUuid, slot: Slot, generation: int) -> MdevUuid:
    """uuid5(VM's UUID, "vgpumgr:SLOT:GENERATION"): the same mdev for a retry, a second controller or a restore."""
    return MdevUuid(str(uuid_module.uuid5(uuid_module.UUID(vm), f"vgpumgr:{slot}:{generation}")))


def compute_reservation_uuid(name: str) -> VmUuid:
    """The UUID in place of a VM's for a reservation: uuid5(the DNS namespace, "NAME.reservation.vgpumgr")."""
    return VmUuid(str(uuid_module.uuid5(uuid_module.NAMESPACE_DNS, f"{name}.reservation.vgpumgr")))


def nearest(wrong: str, valid: Iterable[str], *, typos: bool = True) -> str | None:
    """The valid name that the wrong one most likely means; None if none is near enough.

    Near are: the same name in another case or with other separators (4q, kvm-01), and the first part of a longer host
    name (kvm01 of kvm01.example.net). With `typos` also: one typo in a word of three to five letters, two in a longer
    one, and one word of a name without numbers (slice of time_slice). Numbers must be equal, leading zeros aside: vm1
    is not vm31, and A100-1-5C is not A100-5C. For vGPU types `typos` is off: one letter makes another product.
    """
    words, numbers = _pieces(wrong)
    best: tuple[int, str] | None = None
    for name in valid:
        if name.lower().partition(".")[0] == wrong.lower():
            slips: int | None = 0
        else:
            slips = _slips(words, numbers, *_pieces(name))
        if (
            slips is None
            and not numbers
            and len(wrong) > 3
            and wrong.lower().lstrip("-") in _SEPARATOR.split(name.lower())
        ):
            slips = _A_WORD_OF_IT
        if slips is not None and (slips == 0 or typos) and (best is None or (slips, name) < best):
            best = slips, name
    return None if best is None else best[1]


def _pieces(name: str) -> tuple[list[str], list[int]]:
    """A name's words, without case and separators, and its numbers. A word is the text around or between numbers."""
    parts = _NUMBER.split(_SEPARATOR.sub("", _BETWEEN_NUMBERS.sub("|", name.lower())))
    return parts[::2], [int(digits[:_LONGEST]) for digits in parts[1::2]]


def _slips(words: list[str], numbers: list[int], others: list[str], other_numbers: list[int]) -> int | None:
    """The number of typos between two names; None if there are too many."""
    if numbers != other_numbers:
        return None
    total = 0
    for one, other in zip(words, others, strict=True):
        if one != other:
            short, long = sorted((len(one), len(other)))
            limit = 0 if long < 3 or (short < 3 and numbers) else 1 if short < 6 else 2
            if abs(len(one) - len(other)) > limit:
                return None
            total += _distance(one, other)
            if total > limit:
                return None
    return total


def _distance(one: str, other: str) -> int:
    """The number of letters that were added, omitted, replaced, or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, target in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != target))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == target:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def natural_order(text: str) -> tuple[object, ...]:
    """Sort key of names with numbers: 4Q before 12Q, kvm2 before kvm10. PCI addresses (hexadecimal) sort as text."""
    parts: list[object] = [text] if _PCI.fullmatch(text) else [*_COUNTED.split(text)]
    for at in range(1, len(parts), 2):
        digits = str(parts[at]).lstrip("0")
        parts[at] = (len(digits), digits)  # compares as the number does, however long it is
    return tuple(parts), text


def slot_order(slot: str) -> tuple[str, int, str]:
    """Sort key: vgpu2 before vgpu10. The same for VMs: vm2 before vm10."""
    stem = slot.rstrip("0123456789")
    digits = slot[len(stem) :]
    return stem, int(digits) if digits else -1, slot
