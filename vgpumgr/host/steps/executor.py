"""Execute one step of any kind: read it, check it, pass it to the module that implements it.

After a kill between any two of a step's points, running the same step again gives the same result. If the host is not as
the step expects, nothing is written at all.
"""

from typing import Any, Callable, Dict, Optional

from ..fields import check_fields, one_of
from ..files import Root
from ..ledger.ledger import read_ledger
from ..libvirt.service import Libvirt
from ..protocol import (
    ATTACH_DEVICE,
    CREATE_INSTANCE,
    CREATE_VGPU,
    DESTROY_INSTANCE,
    DESTROY_VGPU,
    DETACH_DEVICE,
    EVACUATE_VGPU,
    PLUG_DEVICE,
    RESET_GPU,
    SET_CORDON,
    SET_METADATA,
    SET_MIG,
    SET_MODE,
    SET_SCHEDULER,
    SET_VFS,
    UNPLUG_DEVICE,
    WRITE_MODPROBE,
)
from ..timing import Timing
from .cordon_step import parse_cordon_step, set_cordon
from .definition_step import parse_definition_step
from .device_xml import check_ours_goes_in, check_vgpu_comes_out
from .guard import RemovalGuard
from .instance_steps import InstanceSteps
from .meant_instance import MeantInstances
from .mig_mode_step import set_mig
from .mig_steps import parse_instance_step, parse_mig_mode_step, parse_reset_step, parse_vfs_step
from .mode_step import set_mode
from .modprobe import write_modprobe
from .reset_step import reset_gpu
from .scheduler_step import set_scheduler
from .setting_steps import parse_mode_step, parse_modprobe_step, parse_scheduler_step
from .step import parse_vgpu_step
from .steps import VgpuSteps, answer
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
        self._load_nvml = load_nvml
        self._libvirt = libvirt
        self._at = at
        self._timing = timing
        self._instances = InstanceSteps(root, load_nvml, at)
        guard = guard or RemovalGuard(root, load_nvml, timing=timing)
        self._vgpus = VgpuSteps(root, guard, MeantInstances(root, load_nvml), write=write, at=at)
        self._verbs: Dict[str, Callable[[Any, float], Dict[str, Any]]] = {
            CREATE_VGPU: lambda data, deadline_s: self._vgpus.create(parse_vgpu_step(data), deadline_s),
            DESTROY_VGPU: lambda data, deadline_s: self._vgpus.destroy(parse_vgpu_step(data), deadline_s),
            EVACUATE_VGPU: lambda data, deadline_s: self._vgpus.evacuate(parse_vgpu_step(data), deadline_s),
            SET_SCHEDULER: self._set_scheduler,
            SET_MODE: self._set_mode,
            WRITE_MODPROBE: self._write_modprobe,
            SET_CORDON: self._set_cordon,
            CREATE_INSTANCE: self._create_instance,
            DESTROY_INSTANCE: self._destroy_instance,
            SET_MIG: self._set_mig,
            SET_VFS: self._set_vfs,
            RESET_GPU: self._reset_gpu,
            SET_METADATA: self._change_definition,
            ATTACH_DEVICE: self._change_definition,
            DETACH_DEVICE: self._change_definition,
            PLUG_DEVICE: self._change_definition,
            UNPLUG_DEVICE: self._change_definition,
        }

    def execute(self, data: Any, deadline_s: float) -> Dict[str, Any]:
        """Carry out one step. Raises Refusal.

        The deadline is for writes to /sys, which can hang in the driver for as long as a guest runs, for calls of libvirt, and for
        NVIDIA's own programs.
        """
        wanted = "one of {}".format(", ".join(self._verbs))
        verb = check_fields(data, {"verb": (one_of(*self._verbs), wanted)}, "step")["verb"]
        return self._verbs[verb](data, deadline_s)

    def _set_scheduler(self, data: Any, _deadline_s: float) -> Dict[str, Any]:
        done = set_scheduler(self._root, self._load_nvml, parse_scheduler_step(data), self._at)
        return answer(scheduler=done.found, note=done.note)

    def _set_mode(self, data: Any, _deadline_s: float) -> Dict[str, Any]:
        set_mode(self._root, self._load_nvml, parse_mode_step(data), self._at)
        return answer()

    def _write_modprobe(self, data: Any, _deadline_s: float) -> Dict[str, Any]:
        write_modprobe(self._root, parse_modprobe_step(data), self._at)
        return answer()

    def _set_cordon(self, data: Any, _deadline_s: float) -> Dict[str, Any]:
        set_cordon(self._root, parse_cordon_step(data), self._at)
        return answer()

    def _create_instance(self, data: Any, _deadline_s: float) -> Dict[str, Any]:
        self._instances.create(parse_instance_step(data))
        return answer()

    def _destroy_instance(self, data: Any, _deadline_s: float) -> Dict[str, Any]:
        self._instances.destroy(parse_instance_step(data))
        return answer()

    def _set_mig(self, data: Any, _deadline_s: float) -> Dict[str, Any]:
        return answer(note=set_mig(self._root, self._load_nvml, parse_mig_mode_step(data), self._at))

    def _set_vfs(self, data: Any, deadline_s: float) -> Dict[str, Any]:
        step = parse_vfs_step(data)
        set_vfs(self._root, self._load_nvml, step, self._at, deadline_s=deadline_s, timing=self._timing)
        return answer()

    def _reset_gpu(self, data: Any, deadline_s: float) -> Dict[str, Any]:
        reset_gpu(self._root, self._load_nvml, parse_reset_step(data), self._at, deadline_s=deadline_s)
        return answer()

    def _change_definition(self, data: Any, deadline_s: float) -> Dict[str, Any]:
        step = parse_definition_step(data)
        if step["verb"] == ATTACH_DEVICE or step["verb"] == PLUG_DEVICE:
            check_ours_goes_in(read_ledger(self._root), step)
        elif step["verb"] == DETACH_DEVICE or step["verb"] == UNPLUG_DEVICE:
            check_vgpu_comes_out(self._root, step)
        self._libvirt.change(step, deadline_s)
        self._at("definition: changed")
        return answer()
