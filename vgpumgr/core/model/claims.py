"""The claim: what a VM wants and where it was placed, kept in the domain's metadata. The types, and their only reader.

    <v:vgpumgr xmlns:v="urn:vgpumgr:domain:2" vm="UUID">
      <v:claim slot generation from [site] [declared] state by at><v:ask …/>[<v:granted …/>]<v:binding …/></v:claim> …
      <v:wait slot from [site] by at><v:ask …/></v:wait> …

`vm` names the domain that the claims were written for: in a clone it differs from the domain's own UUID. libvirt is
passed the same tree without prefix and xmlns. Both forms are read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, get_args

from vgpumgr import names
from vgpumgr.core.driver import asking, modes, profiles
from vgpumgr.core.model.vgpu import ExactPlace, device_of
from vgpumgr.errors import BadName
from vgpumgr.names import GpuUuid, MdevUuid, PciAddress, Slot, VmUuid

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.model.vgpu import Device, VgpuSpec

VERSION = 2
_FAMILY = "urn:vgpumgr:domain:"
NAMESPACE = f"{_FAMILY}{VERSION}"
KEY = "v"
MAX_BYTES = 16 * 1024  # libvirt's RPC fails at a few MB; a claim document never needs more than this

_MIG_PROFILE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,31}"
)  # whatever NVML may call one, as the host program takes it
_PERCENT = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,2})?")

State = Literal["pending", "bound", "leaving"]
PENDING: Final = "pending"
BOUND: Final = "bound"
LEAVING: Final = "leaving"
_STATES: dict[str, State] = {state: state for state in get_args(State)}

Origin = Literal["attach", "inventory"]
ATTACH: Final = "attach"
INVENTORY: Final = "inventory"
_ORIGINS: dict[str, Origin] = {origin: origin for origin in get_args(Origin)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Where a claim was placed. `host` is the machine-id; `uuid` is the mdev's, None on vendor-vfio.

    `placement_id`: as in VgpuSpec. `mig_profile` and `mig_start` (both or none): the GPU instance that it is meant to
    be in. A vGPU is the same wherever it lies in its GPU, so these are not compared.
    """

    host: str
    gpu_uuid: GpuUuid
    parent: PciAddress
    vf_index: int | None
    type_name: str
    type_id: int
    uuid: MdevUuid | None
    placement_id: int | None = field(default=None, compare=False)
    mig_profile: str | None = field(default=None, compare=False)
    mig_start: int | None = field(default=None, compare=False)

    @property
    def lies_at(self) -> tuple[int | None, str | None, int | None]:
        """Where in its GPU the vGPU is meant to be: placement id, MIG profile, first memory slice. Not compared."""
        return self.placement_id, self.mig_profile, self.mig_start

    @property
    def exact_place(self) -> ExactPlace:
        return ExactPlace(self.gpu_uuid, self.placement_id if self.mig_start is None else self.mig_start)

    @property
    def made_in(self) -> Mode:
        """The mode of its GPU when its place was chosen."""
        return modes.made_in(self.placement_id, self.mig_profile)

    @property
    def device(self) -> Device:
        return device_of(self.uuid, self.parent)


def binding_of(host: str, vgpu: VgpuSpec) -> Binding:
    """What a claim records about its vGPU, without the GPU's address: the UUID identifies the GPU."""
    return Binding(
        host=host,
        gpu_uuid=vgpu.gpu_uuid,
        parent=vgpu.parent,
        vf_index=vgpu.vf_index,
        type_name=vgpu.type_name,
        type_id=vgpu.type_id,
        uuid=vgpu.uuid,
        placement_id=vgpu.placement_id,
        mig_profile=vgpu.mig.profile if vgpu.mig else None,
        mig_start=vgpu.mig.start if vgpu.mig else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One slot's claim. `by` and `at` (RFC 3339, UTC) say who wrote it and when.

    `site` and `declared` are for declarations only: the inventory's vgpumgr_site, and the part of it that declares the
    host's VMs (`host_vars/kvm01`, `group gpus`). Both are None if the inventory names no site. `grant`: what the wish
    came to on this host; None if unknown.
    """

    slot: Slot
    generation: int
    origin: Origin
    state: State
    by: str
    at: str
    wish: profiles.Wish
    binding: Binding
    site: str | None = None
    declared: str | None = None
    conditions: asking.Conditions = asking.NO_CONDITIONS
    grant: asking.Grant | None = None

    @property
    def asked(self) -> str:
        """The wish and its conditions, as options."""
        return asking.describe(self.wish, self.conditions)


def said_by(claim: Claim) -> str:
    """The claim's origin in words: `from attach`, `from inventory of lab1 (host_vars/kvm01)`."""
    site = f" of {claim.site}" if claim.site is not None else ""
    return f"from {claim.origin}{site}" + (f" ({claim.declared})" if claim.declared is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a slot is to get once its host has room. `at`: since when; `by`: who asked, or whose reconcile noted it."""

    slot: Slot
    origin: Origin
    by: str
    at: str
    wish: profiles.Wish
    conditions: asking.Conditions = asking.NO_CONDITIONS
    site: str | None = None

    @property
    def asked(self) -> str:
        """The wish and its conditions, as options."""
        return asking.describe(self.wish, self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimDocument:
    """All claims of one domain, and what waits for room. `vm` is the UUID they were written for."""

    vm: VmUuid
    claims: tuple[Claim, ...] = ()
    waits: tuple[Wait, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.claims or self.waits)

    def with_wait(self, slot: Slot, wait: Wait | None) -> ClaimDocument:
        """The document with the wish that waits for a slot. `wait` None: the slot does not wait."""
        rest = [other for other in self.waits if other.slot != slot] + ([] if wait is None else [wait])
        return replace(self, waits=tuple(sorted(rest, key=lambda item: names.slot_order(item.slot))))

    def claim(self, slot: Slot) -> Claim | None:
        for claim in self.claims:
            if claim.slot == slot:
                return claim
        return None

    def put(self, claim: Claim) -> ClaimDocument:
        rest = [other for other in self.claims if other.slot != claim.slot]
        return replace(self, claims=tuple(sorted([*rest, claim], key=lambda item: names.slot_order(item.slot))))

    def drop(self, slot: Slot) -> ClaimDocument:
        return replace(self, claims=tuple(claim for claim in self.claims if claim.slot != slot))


_DIGITS = 9  # of a version, that are read as a number: anybody can write more of them than int() takes


class UnreadableClaim(ValueError):
    """The VM has an element of ours that cannot be understood. `namespace` is the element's."""

    def __init__(self, why: str, namespace: str = NAMESPACE) -> None:
        super().__init__(why)
        self.namespace = namespace


def read(domain_xml: ET.Element) -> ClaimDocument | None:
    """The claims in a domain's XML, or None if it has none. Raises UnreadableClaim."""
    metadata = domain_xml.find("metadata")
    if metadata is None:
        return None
    ours = [
        element for element in metadata if element.tag.startswith("{" + _FAMILY) and _local(element.tag) == "vgpumgr"
    ]
    for element in ours:
        _guard_version(element.tag[1:].rpartition("}")[0])
    return read_element(ours[0]) if ours else None


def _guard_version(namespace: str) -> None:
    if namespace == NAMESPACE:
        return
    version = namespace.removeprefix(_FAMILY)
    newer = version.isdecimal() and (len(version) > _DIGITS or int(version) > VERSION)
    with_which = (
        "use the vgpumgr that wrote it, or a newer one" if newer else "detach the VM with the vgpumgr that wrote it"
    )
    raise UnreadableClaim(f"its version is {version[:40]}, but this vgpumgr knows {VERSION}: {with_which}", namespace)


def read_element(element: ET.Element) -> ClaimDocument:
    """Read the stored form (namespaced) or the passed one (bare). Raises UnreadableClaim."""
    try:
        document = ClaimDocument(vm=names.parse_uuid(element.attrib["vm"]))
        for child in element:
            if _local(child.tag) == "claim":
                document = document.put(_claim(child))
            elif _local(child.tag) == "wait":
                wait = _wait(child)
                document = document.with_wait(wait.slot, wait)
    except KeyError as error:
        raise UnreadableClaim(f"{error.args[0]} is missing") from error
    except (ValueError, BadName) as error:
        raise UnreadableClaim(str(error)) from error
    return document


def _claim(element: ET.Element) -> Claim:
    parts = {_local(child.tag): child for child in element}
    state = _STATES.get(element.attrib["state"])
    if state is None:
        raise UnreadableClaim(
            f"its state is {element.attrib['state']!r}, which is none of {PENDING}, {BOUND} and {LEAVING}"
        )
    conditions, wish = asking.split(parts["ask"].attrib)
    grant = parts.get("granted")
    return Claim(
        slot=names.parse_slot(element.attrib["slot"]),
        generation=_number(element.attrib["generation"], "generation"),
        origin=_origin(element),
        state=state,
        by=element.attrib["by"],
        at=element.attrib["at"],
        wish=profiles.from_attributes(wish),
        binding=_binding(parts["binding"].attrib),
        site=element.get("site"),
        declared=element.get("declared"),
        conditions=conditions,
        grant=_grant(grant.attrib) if grant is not None else None,
    )


def _origin(element: ET.Element) -> Origin:
    origin = _ORIGINS.get(element.attrib["from"])
    if origin is None:
        raise UnreadableClaim(f"it is from {element.attrib['from']!r}, which is neither {ATTACH} nor {INVENTORY}")
    return origin


def _wait(element: ET.Element) -> Wait:
    parts = {_local(child.tag): child for child in element}
    conditions, wish = asking.split(parts["ask"].attrib)
    return Wait(
        slot=names.parse_slot(element.attrib["slot"]),
        origin=_origin(element),
        by=element.attrib["by"],
        at=element.attrib["at"],
        wish=profiles.from_attributes(wish),
        conditions=conditions,
        site=element.get("site"),
    )


def ask_attributes(claim: Claim | Wait) -> dict[str, str]:
    """The attributes of <ask>, from which `read` makes the same wish and conditions: only what was requested."""
    wish = {name: str(value) for name, value in profiles.attributes(claim.wish).items()}
    return wish | asking.attributes(claim.conditions)


def grant_attributes(grant: asking.Grant) -> dict[str, str]:
    return {
        "asked_mib": str(grant.asked_mib),
        "framebuffer_mib": str(grant.framebuffer_mib),
        "guest_mib": str(grant.guest_mib),
        "waste_pct": f"{grant.waste_pct:g}",
    }


def _grant(row: dict[str, str]) -> asking.Grant:
    waste = row["waste_pct"]
    if _PERCENT.fullmatch(waste) is None:
        raise UnreadableClaim(f"waste_pct is {waste[:40]!r}, which is not a percentage")
    return asking.Grant(
        asked_mib=_number(row["asked_mib"], "asked_mib"),
        framebuffer_mib=_number(row["framebuffer_mib"], "framebuffer_mib"),
        guest_mib=_number(row["guest_mib"], "guest_mib"),
        waste_pct=float(waste),
    )


def binding_attributes(binding: Binding) -> dict[str, str]:
    pairs = {
        "host": binding.host,
        "gpu_uuid": binding.gpu_uuid,
        "parent": binding.parent,
        "vf_index": None if binding.vf_index is None else str(binding.vf_index),
        "type": binding.type_name,
        "type_id": str(binding.type_id),
        "uuid": binding.uuid,
        "placement_id": None if binding.placement_id is None else str(binding.placement_id),
        "mig_profile": binding.mig_profile,
        "mig_start": None if binding.mig_start is None else str(binding.mig_start),
    }
    return {name: value for name, value in pairs.items() if value is not None}


def _binding(row: dict[str, str]) -> Binding:
    vf_index = row.get("vf_index")
    uuid = row.get("uuid")
    placement_id = row.get("placement_id")
    mig_profile, mig_start = row.get("mig_profile"), row.get("mig_start")
    if (mig_profile is None) != (mig_start is None):
        raise UnreadableClaim("it has only one of mig_profile and mig_start")
    if mig_profile is not None and _MIG_PROFILE.fullmatch(mig_profile) is None:
        raise UnreadableClaim(f"mig_profile is {mig_profile[:40]!r}, which is not a profile's name")
    return Binding(
        host=row["host"],
        gpu_uuid=names.parse_gpu_uuid(row["gpu_uuid"]),
        parent=names.parse_pci_address(row["parent"]),
        vf_index=_number(vf_index, "vf_index") if vf_index is not None else None,
        type_name=row["type"],
        type_id=_number(row["type_id"], "type_id"),
        uuid=MdevUuid(names.parse_uuid(uuid)) if uuid is not None else None,
        placement_id=_number(placement_id, "placement_id") if placement_id is not None else None,
        mig_profile=mig_profile,
        mig_start=_number(mig_start, "mig_start") if mig_start is not None else None,
    )


def _number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UnreadableClaim(f"{what} is {text[:40]!r}, which is not a number") from None


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
