"""A VF with a vGPU of its own: the files of NVIDIA's driver below nvidia/ (kernel-and-tools.md, section 4).

The kernel's part is kstrtol() and sysfs; all else is the driver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kernel.contract.places import A40, L40S, T4, function, vgpu
from tests.kernel.contract.row import Basis, Row
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
    from vgpumgr.lab.driver.model import TypeSpec

_VF0, _VF1, _VF2, _VF7 = L40S.vfs[0], L40S.vfs[1], L40S.vfs[2], L40S.vfs[7]
_Q4, _C4, _Q8, _Q24, _Q48 = (L40S.kind(name) for name in ("4Q", "4C", "8Q", "24Q", "48Q"))
_HEADER = "ID    : vGPU Name\n"
_SEEN = "seen on L40S and H100 hosts (kernel-and-tools.md, section 4)"
_LIKELY = "likely: the closed driver's own, no public source shows the errno"
_ADMISSION = "open-gpu-kernel-modules 595, kernel_vgpu_mgr.c"
_NUMBER = "its number is the next that is free"
_NO_NUMBERS = ("", "x", "-", "1150x", " 1150", "1150 1151", "0x", "0x47e")
_NO_TYPES = ("4711", "1", "-1", "08", "4294967296", "99999999999")
_TOO_LONG = ("9223372036854775808", "99999999999999999999")


def current(vf: str) -> str:
    return vgpu(vf, "current_vgpu_type")


def creatable(vf: str) -> str:
    return vgpu(vf, "creatable_vgpu_types")


def listed(*kinds: TypeSpec) -> str:
    """The driver's list of them."""
    return _HEADER + "".join(f"{kind.id:<5} : {kind.name}\n" for kind in kinds)


def sized(mib: int) -> tuple[TypeSpec, ...]:
    """The card's types of that size."""
    return tuple(kind for kind in L40S.kinds if kind.framebuffer_mib == mib)


ROWS = (
    Row(
        name="each VF has nvidia/ with five files, and its PF has none",
        card="L40S",
        rests=Basis.FIELD,
        source="seen on L40S and H100 hosts (kernel-and-tools.md, section 4); 525 has two of them, 580 one more",
        steps=(
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
    ),
    Row(
        name="VFs that are mdev parents have no nvidia/",
        card="A40 T4",
        rests=Basis.CAPTURE,
        source="an A2: its VFs have none",
        steps=(gone(function(A40.vfs[0], "nvidia")), gone(function(T4.pci, "nvidia"))),
    ),
    Row(
        name="an idle VF lists every type of its board under a header",
        card="L40S",
        rests=Basis.CAPTURE,
        source="an L40S, byte for byte",
        steps=(
            tells(creatable(_VF0), listed(*L40S.kinds)),
            tells(creatable(_VF7), listed(*L40S.kinds)),
            tells(current(_VF0), "0\n"),
        ),
    ),
    Row(
        name="a type that is written is there, and its VF lists no type any more",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19",
        steps=(
            puts(current(_VF0), f"{_Q4.id}\n"),
            tells(current(_VF0), f"{_Q4.id}\n"),
            tells(creatable(_VF0), _HEADER),
            tells(current(_VF1), "0\n"),
        ),
    ),
    Row(
        name="after the first vGPU the other VFs list only types of its size",
        card="L40S",
        rests=Basis.OPEN_MODULES,
        source="kernel_vgpu_mgr.c, 595",
        steps=(
            puts(current(_VF0), str(_Q4.id)),
            tells(creatable(_VF1), listed(*sized(4096))),
            tells(creatable(_VF7), listed(*sized(4096))),
        ),
    ),
    Row(
        name="a full card's free VFs list the header alone",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19",
        steps=(
            puts(current(_VF0), str(_Q24.id)),
            puts(current(_VF1), str(_Q24.id)),
            tells(creatable(_VF2), _HEADER),
            refuses("EIO", current(_VF2), str(_Q24.id)),
            tells(current(_VF2), "0\n"),
        ),
    ),
    Row(
        name="one vGPU of the whole card is all that it takes",
        card="L40S",
        rests=Basis.OPEN_MODULES,
        source="kernel_vgpu_mgr.c, 595",
        steps=(
            puts(current(_VF7), str(_Q48.id)),
            *(tells(creatable(vf), _HEADER) for vf in L40S.vfs),
            refuses("EIO", current(_VF0), str(_Q48.id)),
        ),
    ),
    Row(
        name="the newline may be missing, and the file opened with O_TRUNC",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19",
        steps=(puts(current(_VF0), f"{_Q4.id}", truncate=True), tells(current(_VF0), f"{_Q4.id}\n")),
    ),
    Row(
        name="a type is decimal whatever it begins with, and the driver sees 32 bits of it",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19, kstrtol(10)",
        steps=(
            puts(current(_VF0), f"0{_Q4.id}\n"),
            tells(current(_VF0), f"{_Q4.id}\n"),
            puts(current(_VF0), "00"),
            tells(current(_VF0), "0\n"),
            puts(current(_VF0), f"+{_Q4.id}\n"),
            puts(current(_VF0), "-0\n"),
            puts(current(_VF0), str((1 << 32) + _Q4.id)),
            tells(current(_VF0), f"{_Q4.id}\n"),
        ),
    ),
    Row(
        name="another size is EIO and reads back 0",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19",
        steps=(
            puts(current(_VF0), str(_Q4.id)),
            refuses("EIO", current(_VF1), str(_Q8.id)),
            tells(current(_VF1), "0\n"),
            tells(current(_VF0), f"{_Q4.id}\n"),
        ),
    ),
    Row(
        name="another series of the same size is taken on a sibling VF",
        card="L40S",
        rests=Basis.CAPTURE,
        source="an RTX PRO 6000: DC-3A is offered beside a DC-3Q; kernel_vgpu_mgr.c, 595, says so",
        steps=(puts(current(_VF0), str(_Q4.id)), puts(current(_VF1), str(_C4.id)), tells(current(_VF1), f"{_C4.id}\n")),
    ),
    Row(
        name="a type that the board does not have is EIO, and 32 bits of a longer number may be such a type",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19",
        steps=(*(refuses("EIO", current(_VF0), text) for text in _NO_TYPES), tells(current(_VF0), "0\n")),
    ),
    Row(
        name="a type on a VF that has one is EPERM, and nothing changes",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19",
        steps=(
            puts(current(_VF0), str(_Q4.id)),
            refuses("EPERM", current(_VF0), str(_C4.id)),
            refuses("EPERM", current(_VF0), str(_Q4.id)),
            tells(current(_VF0), f"{_Q4.id}\n"),
        ),
    ),
    Row(
        name="0 takes the type away, and all sizes are there again",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19",
        steps=(
            puts(current(_VF0), str(_Q4.id)),
            puts(current(_VF0), "0\n"),
            tells(current(_VF0), "0\n"),
            tells(creatable(_VF0), listed(*L40S.kinds)),
            puts(current(_VF0), str(_Q8.id)),
        ),
    ),
    Row(
        name="0 on a VF without a type is EPERM",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19",
        steps=(
            refuses("EPERM", current(_VF0), "0"),
            refuses("EPERM", current(_VF0), "0\n"),
            tells(current(_VF0), "0\n"),
        ),
    ),
    Row(
        name="what is no number is EINVAL, and what has more than 64 bits is ERANGE",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19, kstrtol(10)",
        steps=(
            *(refuses("EINVAL", current(_VF0), text + "\n") for text in _NO_NUMBERS),
            *(refuses("ERANGE", current(_VF0), text) for text in _TOO_LONG),
            puts(current(_VF0), ""),
            tells(current(_VF0), "0\n"),
        ),
    ),
    Row(
        name="a VF whose VM runs keeps its type: EPERM, until it is let go",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19",
        steps=(
            puts(current(_VF0), str(_Q4.id)),
            holds(_VF0),
            refuses("EPERM", current(_VF0), "0"),
            tells(current(_VF0), f"{_Q4.id}\n"),
            tells(creatable(_VF1), listed(*sized(4096))),
            lets_go(_VF0),
            puts(current(_VF0), "0"),
        ),
    ),
    Row(
        name="while one VF is held the others are made and cleared",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.19",
        steps=(
            puts(current(_VF0), str(_Q4.id)),
            holds(_VF0),
            puts(current(_VF1), str(_Q4.id)),
            puts(current(_VF1), "0"),
            tells(current(_VF0), f"{_Q4.id}\n"),
        ),
    ),
    Row(
        name="a VF has a placement once it has a type: ENXIO before, the lowest free place after",
        card="L40S",
        rests=Basis.FIELD,
        source="seen on L40S and H100 hosts (kernel-and-tools.md, section 4)",
        steps=(
            unreadable("ENXIO", vgpu(_VF0, "placement_id")),
            puts(current(_VF0), str(_Q4.id)),
            puts(current(_VF1), str(_Q4.id)),
            tells(vgpu(_VF0, "placement_id"), "0\n"),
            tells(vgpu(_VF1, "placement_id"), "4\n"),
            puts(current(_VF0), "0"),
            unreadable("ENXIO", vgpu(_VF0, "placement_id")),
            puts(current(_VF2), str(_Q4.id)),
            tells(vgpu(_VF2, "placement_id"), "0\n"),
        ),
    ),
    Row(
        name="in equal-size mode no placement can be chosen",
        card="L40S",
        rests=Basis.INFERRED,
        source="the file is of later branches than 525; nobody shows the errno",
        steps=(
            refuses("ENXIO", vgpu(_VF0, "placement_id"), "4"),
            puts(current(_VF0), str(_Q4.id)),
            refuses("EINVAL", vgpu(_VF0, "placement_id"), "4"),
            tells(vgpu(_VF0, "placement_id"), "0\n"),
        ),
    ),
    Row(
        name="without MIG there is no GPU instance: ENXIO, type or not",
        card="L40S",
        rests=Basis.FIELD,
        source="seen on L40S and H100 hosts (kernel-and-tools.md, section 4)",
        steps=(
            unreadable("ENXIO", vgpu(_VF0, "gpu_instance_id")),
            puts(current(_VF0), str(_Q4.id)),
            unreadable("ENXIO", vgpu(_VF0, "gpu_instance_id")),
        ),
    ),
    Row(
        name="vgpu_params can be set once there is a type and until a VM has it, and go with the type",
        card="L40S",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15, where mdevs have the file; on a VF it is of later branches, ENXIO without a vGPU as in its mdev part",
        steps=(
            tells(vgpu(_VF0, "vgpu_params"), "\n"),
            refuses("ENXIO", vgpu(_VF0, "vgpu_params"), "enable_uvm=1\n"),
            puts(current(_VF0), str(_Q4.id)),
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
    ),
    Row(
        name="a VF stays bound to nvidia, in an IOMMU group and with a VFIO device of its own, type or not",
        card="L40S",
        rests=Basis.CAPTURE,
        source="RTX PRO 6000 boards (cubecos issue 312)",
        steps=(
            leads(function(_VF0, "driver"), "drivers", "nvidia"),
            names(function(_VF0, "iommu_group/devices"), _VF0),
            names(function(_VF1, "iommu_group/devices"), _VF1),
            puts(current(_VF0), str(_Q4.id)),
            leads(function(_VF0, "driver"), "drivers", "nvidia"),
            names(function(_VF0, "iommu_group/devices"), _VF0),
            leads_like(function(_VF0, "iommu_group"), r"\d+", varies=_NUMBER),
            one_name(function(_VF0, "vfio-dev"), r"vfio\d+", varies=_NUMBER),
        ),
    ),
)
