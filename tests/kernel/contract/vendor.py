"""A VF with a vGPU of its own: the files of NVIDIA's driver below nvidia/ (kernel-and-tools.md, section 4).

The kernel's part is kstrtol() and sysfs; all else is the driver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kernel.contract.places import A40, L40S, T4, function, vgpu
from tests.kernel.contract.row import Basis, Rows
from tests.kernel.contract.steps import (
    gone,
    holds,
    leads,
    leads_like,
    lets_go,
    looks,
    names,
    one_name,
    puts,
    refuses,
    tells,
    unlisted,
    unreadable,
)

if TYPE_CHECKING:
    from tests.kernel.contract.row import Step
    from vgpumgr.lab.driver.model import TypeSpec

_VF0, _VF1, _VF2, _VF7 = L40S.vfs[0], L40S.vfs[1], L40S.vfs[2], L40S.vfs[7]
_Q4, _C4, _Q8, _Q24, _Q48 = (L40S.kind(name) for name in ("4Q", "4C", "8Q", "24Q", "48Q"))
_HEADER = "ID    : vGPU Name\n"
_SEEN = "seen on L40S and H100 hosts (kernel-and-tools.md, section 4)"
_NUMBER = "its number is the next that is free"
_NO_NUMBERS = ("", "x", "-", "1150x", " 1150", "1150 1151", "0x", "0x47e")
_NO_TYPES = ("4711", "1", "-1", "08", "4294967296", "99999999999")
_TOO_LONG = ("9223372036854775808", "99999999999999999999")


def current(vf: str) -> str:
    return vgpu(vf, "current_vgpu_type")


def creatable(vf: str) -> str:
    return vgpu(vf, "creatable_vgpu_types")


def typed(vf: str, kind: TypeSpec) -> Step:
    """The VF gets that type."""
    return puts(current(vf), str(kind.id))


def has(vf: str, kind: TypeSpec | None) -> Step:
    """The VF tells that type, or none."""
    return tells(current(vf), f"{kind.id if kind else 0}\n")


def listed(*kinds: TypeSpec) -> str:
    """The driver's list of them."""
    return _HEADER + "".join(f"{kind.id:<5} : {kind.name}\n" for kind in kinds)


def sized(mib: int) -> tuple[TypeSpec, ...]:
    """The card's types of that size."""
    return tuple(kind for kind in L40S.kinds if kind.framebuffer_mib == mib)


_open_part = Rows("L40S", Basis.OPEN_PART, "525.85.07: run on 5.19")
_open_modules = Rows("L40S", Basis.OPEN_MODULES, "kernel_vgpu_mgr.c, 595")
_field = Rows("L40S", Basis.FIELD, _SEEN)

ROWS = (
    Rows(
        "L40S",
        Basis.FIELD,
        f"{_SEEN}; 525 has two of them, 580 one more",
    )(
        "each VF has nvidia/ with five files, and its PF has none",
        *(
            names(
                function(vf, "nvidia"),
                *("creatable_vgpu_types", "current_vgpu_type", "gpu_instance_id", "placement_id", "vgpu_params"),
            )
            for vf in (_VF0, _VF7)
        ),
        unlisted("ENOENT", function(L40S.pci, "nvidia")),
        looks(current(_VF0), "file 0644"),
        looks(creatable(_VF0), "file 0444"),
        looks(vgpu(_VF0, "placement_id"), "file 0644"),
        looks(vgpu(_VF0, "gpu_instance_id"), "file 0444"),
        looks(vgpu(_VF0, "vgpu_params"), "file 0644"),
    ),
    Rows("A40 T4", Basis.CAPTURE, "an A2: its VFs have none")(
        "VFs that are mdev parents have no nvidia/",
        gone(function(A40.vfs[0], "nvidia")),
        gone(function(T4.pci, "nvidia")),
    ),
    Rows("L40S", Basis.CAPTURE, "an L40S, byte for byte")(
        "an idle VF lists every type of its board under a header",
        tells(creatable(_VF0), listed(*L40S.kinds)),
        tells(creatable(_VF7), listed(*L40S.kinds)),
        tells(current(_VF0), "0\n"),
    ),
    _open_part(
        "a type that is written, with O_TRUNC or without, is there until 0 is written; no other is taken meanwhile, nor 0 twice",
        refuses("EPERM", current(_VF0), "0"),
        puts(current(_VF0), f"{_Q4.id}\n"),
        has(_VF0, _Q4),
        tells(creatable(_VF0), _HEADER),
        has(_VF1, None),
        *(refuses("EPERM", current(_VF0), str(kind.id)) for kind in (_C4, _Q4)),
        has(_VF0, _Q4),
        puts(current(_VF0), "0\n"),
        has(_VF0, None),
        tells(creatable(_VF0), listed(*L40S.kinds)),
        refuses("EPERM", current(_VF0), "0\n"),
        puts(current(_VF0), str(_Q8.id), truncate=True),
        has(_VF0, _Q8),
    ),
    _open_modules(
        "after the first vGPU the other VFs list only types of its size, and after one of the whole card none",
        typed(_VF0, _Q4),
        tells(creatable(_VF1), listed(*sized(4096))),
        tells(creatable(_VF7), listed(*sized(4096))),
        puts(current(_VF0), "0"),
        typed(_VF7, _Q48),
        *(tells(creatable(vf), _HEADER) for vf in L40S.vfs),
        refuses("EIO", current(_VF0), str(_Q48.id)),
    ),
    _open_part(
        "a full card's free VFs list the header alone",
        typed(_VF0, _Q24),
        typed(_VF1, _Q24),
        tells(creatable(_VF2), _HEADER),
        refuses("EIO", current(_VF2), str(_Q24.id)),
        has(_VF2, None),
    ),
    _open_part(
        "another size is EIO and reads back 0, as does a type that the board does not have",
        *(refuses("EIO", current(_VF0), text) for text in _NO_TYPES),
        has(_VF0, None),
        typed(_VF0, _Q4),
        refuses("EIO", current(_VF1), str(_Q8.id)),
        has(_VF1, None),
        has(_VF0, _Q4),
    ),
    Rows("L40S", Basis.CAPTURE, "an RTX PRO 6000: DC-3A is offered beside a DC-3Q; kernel_vgpu_mgr.c, 595, says so")(
        "another series of the same size is taken on a sibling VF",
        typed(_VF0, _Q4),
        typed(_VF1, _C4),
        has(_VF1, _C4),
    ),
    Rows("L40S", Basis.OPEN_PART, "525.85.07: run on 5.19, kstrtol(10)")(
        "a type is decimal whatever it begins with; no number is EINVAL, more than 64 bits ERANGE, and of these the driver sees 32",
        *(refuses("EINVAL", current(_VF0), text + "\n") for text in _NO_NUMBERS),
        *(refuses("ERANGE", current(_VF0), text) for text in _TOO_LONG),
        puts(current(_VF0), ""),
        has(_VF0, None),
        puts(current(_VF0), f"0{_Q4.id}\n"),
        has(_VF0, _Q4),
        puts(current(_VF0), "00"),
        has(_VF0, None),
        puts(current(_VF0), f"+{_Q4.id}\n"),
        puts(current(_VF0), "-0\n"),
        puts(current(_VF0), str((1 << 32) + _Q4.id)),
        has(_VF0, _Q4),
    ),
    _open_part(
        "a VF whose VM runs keeps its type: EPERM, until it is let go; meanwhile the others are made and cleared",
        typed(_VF0, _Q4),
        holds(_VF0),
        refuses("EPERM", current(_VF0), "0"),
        tells(creatable(_VF1), listed(*sized(4096))),
        typed(_VF1, _Q4),
        puts(current(_VF1), "0"),
        has(_VF0, _Q4),
        lets_go(_VF0),
        puts(current(_VF0), "0"),
    ),
    _field(
        "a VF has a placement once it has a type, the lowest free one: ENXIO before; without MIG it never has a GPU instance",
        unreadable("ENXIO", vgpu(_VF0, "placement_id")),
        unreadable("ENXIO", vgpu(_VF0, "gpu_instance_id")),
        typed(_VF0, _Q4),
        typed(_VF1, _Q4),
        unreadable("ENXIO", vgpu(_VF0, "gpu_instance_id")),
        tells(vgpu(_VF0, "placement_id"), "0\n"),
        tells(vgpu(_VF1, "placement_id"), "4\n"),
        puts(current(_VF0), "0"),
        unreadable("ENXIO", vgpu(_VF0, "placement_id")),
        typed(_VF2, _Q4),
        tells(vgpu(_VF2, "placement_id"), "0\n"),
    ),
    Rows("L40S", Basis.INFERRED, "the file is of later branches than 525; nobody shows the errno")(
        "in equal-size mode no placement can be chosen",
        refuses("ENXIO", vgpu(_VF0, "placement_id"), "4"),
        typed(_VF0, _Q4),
        refuses("EINVAL", vgpu(_VF0, "placement_id"), "4"),
        tells(vgpu(_VF0, "placement_id"), "0\n"),
    ),
    Rows(
        "L40S",
        Basis.OPEN_PART,
        "525.85.07: run on 5.15, where mdevs have the file; on a VF it is of later branches, ENXIO without a vGPU as in its mdev part",
    )(
        "vgpu_params can be set once there is a type and until a VM has it, and go with the type",
        tells(vgpu(_VF0, "vgpu_params"), "\n"),
        refuses("ENXIO", vgpu(_VF0, "vgpu_params"), "enable_uvm=1\n"),
        typed(_VF0, _Q4),
        puts(vgpu(_VF0, "vgpu_params"), "enable_uvm=1,frame_rate_limiter=0\n"),
        tells(vgpu(_VF0, "vgpu_params"), "enable_uvm=1,frame_rate_limiter=0\n"),
        refuses("E2BIG", vgpu(_VF0, "vgpu_params"), "x" * 1025),
        holds(_VF0),
        refuses("EPERM", vgpu(_VF0, "vgpu_params"), "enable_uvm=0\n"),
        lets_go(_VF0),
        tells(vgpu(_VF0, "vgpu_params"), "enable_uvm=1,frame_rate_limiter=0\n"),
        puts(current(_VF0), "0"),
        tells(vgpu(_VF0, "vgpu_params"), "\n"),
    ),
    Rows("L40S", Basis.CAPTURE, "RTX PRO 6000 boards (cubecos issue 312)")(
        "a VF stays bound to nvidia, in an IOMMU group and with a VFIO device of its own, type or not",
        leads(function(_VF0, "driver"), "drivers", "nvidia"),
        names(function(_VF0, "iommu_group/devices"), _VF0),
        names(function(_VF1, "iommu_group/devices"), _VF1),
        typed(_VF0, _Q4),
        leads(function(_VF0, "driver"), "drivers", "nvidia"),
        names(function(_VF0, "iommu_group/devices"), _VF0),
        leads_like(function(_VF0, "iommu_group"), r"\d+", varies=_NUMBER),
        one_name(function(_VF0, "vfio-dev"), r"vfio\d+", varies=_NUMBER),
    ),
)
