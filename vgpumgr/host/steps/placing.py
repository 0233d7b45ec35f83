"""Where a vGPU lies in its GPU's framebuffer, in mixed-size mode: nvidia/placement_id.

A new vGPU lies at the first place that is free for its type. Writing another id moves it there: the driver takes the
new place before it leaves the old one (kernel_vgpu_mgr.c, 595.45.04: kvgpumgrSetPlacementId). If a driver lacks the
file or refuses the id, it chooses the place itself, which is no failure.
"""

from typing import Optional

from ..protocol.gpu import VgpuFact
from ..protocol.steps import Step

FILE = "placement_id"


def elsewhere(step: Step, found: Optional[VgpuFact]) -> bool:
    """Whether a vGPU lies elsewhere than the step says. Only a step for mixed-size mode says where."""
    return found is not None and step["placement_id"] is not None and found["placement_id"] != step["placement_id"]


def place_text(step: Step) -> bytes:
    return "{}\n".format(step["placement_id"]).encode("ascii")


def where_it_lies(step: Step, found: VgpuFact, why: str) -> str:
    """The note on a vGPU that does not lie where the step says."""
    place = "an unknown place" if found["placement_id"] is None else "placement id {}".format(found["placement_id"])
    return "{} of {} slot {} lies at {}, not at {}: {}".format(
        step["type_name"], step["vm_name"], step["slot"], place, step["placement_id"], why
    )
