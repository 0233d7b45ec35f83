"""The lab's boards: the rows of the shipped catalogue as the driver would show them."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from vgpumgr.core.driver.profiles import parse_type_name
from vgpumgr.errors import LabError
from vgpumgr.lab.driver.mig_boards import mig_of
from vgpumgr.lab.driver.model import BoardSpec, TypeSpec
from vgpumgr.names import nearest
from vgpumgr.resources import catalogue_text

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import MigSpec

# Branch → a full version of it, as the driver prints it. 16 = R535, 17 = R550, 18 = R570, 19 = R580, 20 = R595.
DRIVERS = {"535": "535.247.02", "550": "550.163.02", "570": "570.172.07", "580": "580.105.06", "595": "595.45.04"}

FIRST_INVENTED_ID = 60000  # for types whose id no public source gives; real ids are below 2000 today

# NVML's name of the board, and the framebuffer in MiB that NVML reports, where they differ from the catalogue's name
# and the largest type's nominal size (ECC takes some on GDDR boards). From public nvidia-smi output.
_NVML = {
    "T4": ("Tesla T4", 15360),
    "A40": ("NVIDIA A40", 46068),
    "A100": ("NVIDIA A100-PCIE-40GB", 40960),
    "L40S": ("NVIDIA L40S", 46068),
    "H100": ("NVIDIA H100 PCIe", 81559),
}
_VFS = {"A100": 16, "A100X": 16, "A100D": 20, "A100DX": 20, "A30": 16, "A2": 16, "A16": 16, "RTXPRO6000": 48}
_VF_OFFSET = {"RTXPRO6000": 2}  # seen there (580.105.06)
_USUAL_VF_OFFSET = 4  # seen on A2, A40 and H100 hosts
_SIZED_BY_NAME = {"RTXPRO4500", "RTXPRO6000"}  # the catalogue has no sizes for them; DC-3Q and DC-3A have 3 GB there
_FIRST_BLACKWELL = 0x2900  # PCI device ids: Hopper ends with 23xx, Ada has 26xx to 28xx, B200 is 2901
_USUAL_VFS = 32  # A40, L40S, H100 and most others
_LAST_VOLTA = 570  # 580 no longer has Maxwell, Pascal and Volta (NVIDIA's release notes of vGPU 19)
_FIRST_BLACKWELL_DRIVER = 580  # vGPU 19
_NO_TURING = ("M10", "M6", "M60", "P4", "P40", "P6")  # and P100 and V100 in all their forms
_SHORT_CODES = {
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTXPRO6000",
    "NVIDIA RTX PRO 4500 Blackwell Server Edition": "RTXPRO4500",
}


@cache
def _boards() -> dict[str, BoardSpec]:
    """Every board of the catalogue, by its code.

    Types without a size or a maximum are left out, and so are boards without any time-sliced type.
    """
    rows: dict[str, list[TypeSpec]] = {}
    facts: dict[str, tuple[str, int]] = {}
    next_id = FIRST_INVENTED_ID
    for row in csv.DictReader(catalogue_text().splitlines()):
        name = parse_type_name(row["type_name"])
        code = _SHORT_CODES.get(row["gpu"], name.board)
        facts.setdefault(code, (row["gpu"], _device_id(row)))
        type_id = int(row["type_id_if_known"] or next_id)
        next_id += not row["type_id_if_known"]  # every row counts, so that ids do not depend on the rows left out
        size_mib = int(row["fb_mb"] or (name.nominal_mib if code in _SIZED_BY_NAME else 0))
        if size_mib and row["max_per_gpu"]:
            rows.setdefault(code, []).append(
                TypeSpec(
                    id=type_id,
                    name=f"{_prefix(code, row['gpu'])} {row['type_name']}",
                    series=row["series"],
                    framebuffer_mib=size_mib,
                    max_instances=int(row["max_per_gpu"]),
                    profile=row["mig_gpu_instance_profile"] or None,
                )
            )
    return {
        code: made_of(code, *facts[code], tuple(sorted(kinds, key=lambda kind: kind.id)))
        for code, kinds in rows.items()
        if any(kind.profile is None for kind in kinds)
    }


def _device_id(row: dict[str, str]) -> int:
    """The PCI device id in a row of the catalogue. Raises LabError, which names the row."""
    try:
        return int(row["pci_device_id"], 16)
    except ValueError as error:
        raise LabError(
            f"vgpu-types.csv: {row['gpu']} {row['type_name']}: pci_device_id is {row['pci_device_id']!r}, not a PCI device id",
            hint="write its hexadecimal digits: 2235",
        ) from error


def made_of(code: str, catalogue_name: str, device: int, kinds: tuple[TypeSpec, ...]) -> BoardSpec:
    """The board of these types."""
    largest = max(kind.framebuffer_mib for kind in kinds)
    mig = mig_of(code, largest)
    name, framebuffer = _NVML.get(code, (catalogue_name.partition(" (")[0], largest))
    pre_ampere = _pre_ampere(catalogue_name)
    return BoardSpec(
        name=name,
        code=code,
        pci_device_id=device,
        framebuffer_mib=framebuffer,
        vfs=0 if pre_ampere else _VFS.get(code, _USUAL_VFS),
        placements=not pre_ampere and not _ampere(code),
        types=tuple(kind for kind in kinds if kind.profile is None),
        vf_offset=_VF_OFFSET.get(code, _USUAL_VF_OFFSET),
        even_places=device >= _FIRST_BLACKWELL,
        mig=mig,
        mig_types=tuple(_backed(kind, mig) for kind in kinds if kind.profile is not None) if mig else (),
    )


def _backed(kind: TypeSpec, mig: MigSpec) -> TypeSpec:
    """The MIG-backed type with the number of its vGPUs that share one GPU instance.

    The catalogue has only the maximum of a whole GPU, which holds as many instances of the type's profile as fit.
    """
    assert kind.profile is not None
    return replace(kind, per_instance=kind.max_instances // mig.profile(kind.profile).maximum)


def _pre_ampere(catalogue_name: str) -> bool:
    return catalogue_name.startswith(("Tesla", "Quadro"))


def _ampere(code: str) -> bool:
    """Whether this is an Ampere board (A2 to A800, RTX A4000 to A6000): no placement ids in equal-size mode."""
    return code.removeprefix("RTX")[:1] == "A" and code.removeprefix("RTX")[1:2].isdigit()


def _prefix(code: str, catalogue_name: str) -> str:
    """The prefix of the type's name: GRID before Ampere and on A100/A800, NVIDIA later (NVIDIA's user guide)."""
    if code.startswith("RTXPRO"):
        return f"NVIDIA RTX Pro {code.removeprefix('RTXPRO')} Blackwell"
    return "GRID" if _pre_ampere(catalogue_name) or code.startswith(("A100", "A800")) else "NVIDIA"


def board_codes() -> tuple[str, ...]:
    """Every board that the lab can simulate."""
    return tuple(sorted(_boards()))


def board(name: str, where: str) -> BoardSpec:
    """The board of that code (A40) or name (NVIDIA A40). Raises LabError, which names `where` it was requested."""
    for spec in _boards().values():
        if name.lower() in (spec.code.lower(), spec.name.lower()):
            return spec
    like = nearest(name, _boards(), typos=False)
    raise LabError(
        f"{where}: no board {name!r}",
        hint=(f"did you mean {like}? " if like else "") + "write one of: " + " ".join(board_codes()),
    )


def why_no_driver(spec: BoardSpec, branch: int) -> str | None:
    """Why no driver of that branch knows the board; None if one does."""
    if spec.pci_device_id >= _FIRST_BLACKWELL and branch < _FIRST_BLACKWELL_DRIVER:
        return f"{spec.code} has no driver before {_FIRST_BLACKWELL_DRIVER}"
    if branch > _LAST_VOLTA and (spec.code in _NO_TURING or spec.code.startswith(("P100", "V100"))):
        return f"{spec.code} has no driver after {_LAST_VOLTA}"
    return None


def type_of(spec: BoardSpec, name: str, where: str, *, mig: bool = False) -> TypeSpec:
    """The board's type of that name, A40-4Q or 4Q for short, in MIG mode A100-2-10C or 2-10C. Raises LabError."""
    kinds = spec.mig_types if mig else spec.types
    for kind in kinds:
        last = kind.name.split()[-1]
        if name.split()[-1:] in ([last], [parse_type_name(last).short]):
            return kind
    names = " ".join(kind.name.split()[-1] for kind in kinds)
    raise LabError(f"{where}: board {spec.code} has no type {name!r}", hint=f"write one of: {names}")
