"""A VF with a vGPU of its own: the files of NVIDIA's driver below nvidia/ (kernel-and-tools.md, section 4).

The kernel's part is kstrtouint() and sysfs; all else is the closed driver's, seen on cards where a row's source says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kernel.contract.places import A40, L40S, T4, function, vgpu
from tests.kernel.contract.row import Row
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
    from vgpumgr.lab.model import TypeSpec

_VF0, _VF1, _VF2, _VF7 = L40S.vfs[0], L40S.vfs[1], L40S.vfs[2], L40S.vfs[7]
_Q4, _C4, _Q8, _Q24, _Q48 = (L40S.kind(name) for name in ("4Q", "4C", "8Q", "24Q", "48Q"))
_HEADER = "ID    : vGPU Name\n"
_SEEN = "seen on L40S and H100 hosts (kernel-and-tools.md, section 4)"
_LIKELY = "likely: the closed driver's own, no public source shows the errno"
_ADMISSION = "open-gpu-kernel-modules 595, kernel_vgpu_mgr.c"
_NUMBER = "its number is the next that is free"
_BAD = ("", "x", "-1", "1150x", " 1150", "1150 1151", "0x", "4294967296", "99999999999", "08")


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
        source=_SEEN,
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
        steps=(gone(function(A40.vfs[0], "nvidia")), gone(function(T4.pci, "nvidia"))),
    ),
    Row(
        name="an idle VF lists every type of its board under a header",
        card="L40S",
        source=_SEEN,
        steps=(
            tells(creatable(_VF0), listed(*L40S.kinds)),
            tells(creatable(_VF7), listed(*L40S.kinds)),
            tells(current(_VF0), "0\n"),
        ),
    ),
    Row(
        name="a type that is written is there, and its VF lists no type any more",
        card="L40S",
        source=_SEEN,
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
        source=_ADMISSION,
        steps=(
            puts(current(_VF0), str(_Q4.id)),
            tells(creatable(_VF1), listed(*sized(4096))),
            tells(creatable(_VF7), listed(*sized(4096))),
        ),
    ),
    Row(
        name="a full card's free VFs list the header alone",
        card="L40S",
        source=_SEEN,
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
        source=_ADMISSION,
        steps=(
            puts(current(_VF7), str(_Q48.id)),
            *(tells(creatable(vf), _HEADER) for vf in L40S.vfs),
            refuses("EIO", current(_VF0), str(_Q48.id)),
        ),
    ),
    Row(
        name="the newline may be missing, and the file opened with O_TRUNC",
        card="L40S",
        steps=(puts(current(_VF0), f"{_Q4.id}", truncate=True), tells(current(_VF0), f"{_Q4.id}\n")),
    ),
    Row(
        name="a type may be written in hexadecimal or octal, and reads as decimal",
        card="L40S",
        source="kstrtouint() with base 0, as drivers do it; the closed driver's own parser is not known",
        steps=(
            puts(current(_VF0), f"{_Q4.id:#x}\n"),
            tells(current(_VF0), f"{_Q4.id}\n"),
            puts(current(_VF0), "0x0"),
            tells(current(_VF0), "0\n"),
            puts(current(_VF0), f"0{_Q4.id:o}\n"),
            tells(current(_VF0), f"{_Q4.id}\n"),
        ),
    ),
    Row(
        name="another size is EIO and reads back 0",
        card="L40S",
        source=_SEEN,
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
        source=_ADMISSION,
        steps=(puts(current(_VF0), str(_Q4.id)), puts(current(_VF1), str(_C4.id)), tells(current(_VF1), f"{_C4.id}\n")),
    ),
    Row(
        name="a type that the board does not have is EINVAL",
        card="L40S",
        source=_LIKELY,
        steps=(
            refuses("EINVAL", current(_VF0), "4711"),
            refuses("EINVAL", current(_VF0), "1"),
            tells(current(_VF0), "0\n"),
        ),
    ),
    Row(
        name="a type on a VF that has one is EPERM, and nothing changes",
        card="L40S",
        source=_LIKELY,
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
        source=_SEEN,
        steps=(
            puts(current(_VF0), str(_Q4.id)),
            puts(current(_VF0), "0\n"),
            tells(current(_VF0), "0\n"),
            tells(creatable(_VF0), listed(*L40S.kinds)),
            puts(current(_VF0), str(_Q8.id)),
        ),
    ),
    Row(
        name="0 on a VF without a type is taken and does nothing",
        card="L40S",
        source=_LIKELY,
        steps=(puts(current(_VF0), "0"), puts(current(_VF0), "0"), tells(current(_VF0), "0\n")),
    ),
    Row(
        name="what is no number is no type",
        card="L40S",
        source="kstrtouint() with base 0, as drivers do it; ERANGE for what has more than 32 bits",
        steps=(
            *(refuses("EINVAL", current(_VF0), text + "\n") for text in _BAD if not text.isdigit() or text == "08"),
            *(refuses("ERANGE", current(_VF0), text) for text in _BAD if text.isdigit() and text != "08"),
            puts(current(_VF0), ""),
            tells(current(_VF0), "0\n"),
        ),
    ),
    Row(
        name="a VF whose VM runs keeps its type: EPERM, until it is let go",
        card="L40S",
        source=_SEEN,
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
        source=_SEEN,
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
        source=_LIKELY,
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
        source=_SEEN,
        steps=(
            unreadable("ENXIO", vgpu(_VF0, "gpu_instance_id")),
            puts(current(_VF0), str(_Q4.id)),
            unreadable("ENXIO", vgpu(_VF0, "gpu_instance_id")),
        ),
    ),
    Row(
        name="vgpu_params can be set once there is a type and until a VM has it, and go with the type",
        card="L40S",
        source=f"accepted only before QEMU opens the device (kernel-and-tools.md, section 4); the errno: {_LIKELY}",
        steps=(
            tells(vgpu(_VF0, "vgpu_params"), "\n"),
            refuses("ENXIO", vgpu(_VF0, "vgpu_params"), "enable_uvm=1"),
            puts(current(_VF0), str(_Q4.id)),
            puts(vgpu(_VF0, "vgpu_params"), "enable_uvm=1,frame_rate_limiter=0\n"),
            tells(vgpu(_VF0, "vgpu_params"), "enable_uvm=1,frame_rate_limiter=0\n"),
            holds(_VF0),
            refuses("EPERM", vgpu(_VF0, "vgpu_params"), "enable_uvm=0"),
            lets_go(_VF0),
            tells(vgpu(_VF0, "vgpu_params"), "enable_uvm=1,frame_rate_limiter=0\n"),
            puts(current(_VF0), "0"),
            tells(vgpu(_VF0, "vgpu_params"), "\n"),
        ),
    ),
    Row(
        name="a VF stays bound to nvidia, in an IOMMU group and with a VFIO device of its own, type or not",
        card="L40S",
        source=_SEEN,
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
