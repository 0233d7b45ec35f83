"""Execute one step of any kind: read it, check it, pass it to the module that implements it.

If the program is killed between any two of a step's points, running the step again gives the same result. If the host
is not as the step expects, nothing is written at all.
"""

from typing import Any, Callable, Dict, Optional

from ..files import Root
from ..ledger.ledger import read_ledger
from ..libvirt.service import Libvirt
from ..protocol import steps
from ..timing import Timing
from .cordon_step import set_cordon
from .device_xml import check_has_ours, check_ours_goes_in, check_vgpu_comes_out
from .guard import RemovalGuard
from .instance_steps import InstanceSteps
from .meant_instance import MeantInstances
from .mig_mode_step import set_mig
from .mode_step import set_mode
from .modprobe import write_modprobe
from .reservation_step import set_reservation
from .reset_step import reset_gpu
from .scheduler_step import SchedulerSet, set_scheduler
from .step import parse_step
from .steps import VgpuSteps
from .vfs_step import set_vfs


def at_nothing(point: str) -> None:
    """The default observer of a step's points: it does nothing."""
    del point


class Executor:
    """Executes steps on one host. The caller holds the host's exclusive lock."""

    def __init__(
        self,
        root: Root,
        load_nvml: Callable[[], Any],
        libvirt: Libvirt,
        *,
        write: Callable[[str, bytes], None],
        at: Callable[[str], None],
        timing: Timing,
        guard: Optional[RemovalGuard] = None,
    ) -> None:
        self._root = root
        self._libvirt = libvirt
        self._at = at
        instances = InstanceSteps(root, load_nvml, at)
        guard = guard or RemovalGuard(root, load_nvml, timing=timing)
        vgpus = VgpuSteps(root, guard, MeantInstances(root, load_nvml), write=write, at=at)
        # Each returns a note if there is one; set_scheduler the scheduler, too.
        self._verbs: Dict[str, Callable[[Any, float], Any]] = {
            steps.CREATE_VGPU: vgpus.create,
            steps.DESTROY_VGPU: vgpus.destroy,
            steps.EVACUATE_VGPU: vgpus.evacuate,
            steps.SET_SCHEDULER: lambda step, _s: set_scheduler(root, load_nvml, step, at),
            steps.SET_MODE: lambda step, _s: set_mode(root, load_nvml, step, at),
            steps.WRITE_MODPROBE: lambda step, _s: write_modprobe(root, step, at),
            steps.SET_CORDON: lambda step, _s: set_cordon(root, step, at),
            steps.SET_RESERVATION: lambda step, _s: set_reservation(root, step, at),
            steps.CREATE_INSTANCE: lambda step, _s: instances.create(step),
            steps.DESTROY_INSTANCE: lambda step, _s: instances.destroy(step),
            steps.SET_MIG: lambda step, _s: set_mig(root, load_nvml, step, at),
            steps.SET_VFS: lambda step, deadline_s: set_vfs(
                root, load_nvml, step, at, deadline_s=deadline_s, timing=timing
            ),
            steps.RESET_GPU: lambda step, deadline_s: reset_gpu(root, load_nvml, step, at, deadline_s=deadline_s),
        }

    def execute(self, data: object, deadline_s: float) -> steps.Executed:
        """Carry out one step. Raises Refusal.

        The deadline is for writes to /sys, which can hang in the driver for as long as a guest runs, for calls of
        libvirt, and for NVIDIA's own programs.
        """
        step = parse_step(data)
        outcome = self._verbs.get(step["verb"], self._change_definition)(step, deadline_s)
        if isinstance(outcome, SchedulerSet):
            return {"note": outcome.note, "scheduler": outcome.found}
        return {"note": outcome, "scheduler": None}

    def _change_definition(self, step: steps.DefinitionStep, deadline_s: float) -> None:
        if step["verb"] == steps.ATTACH_DEVICE or step["verb"] == steps.PLUG_DEVICE:
            check_ours_goes_in(read_ledger(self._root), step)
        elif step["verb"] == steps.DETACH_DEVICE or step["verb"] == steps.UNPLUG_DEVICE:
            check_vgpu_comes_out(self._root, step)
        elif step["verb"] == steps.START_DOMAIN:
            check_has_ours(read_ledger(self._root), step["vm_uuid"])
        self._libvirt.change(step, deadline_s)
        self._at("definition: changed")
