"""Execute one step of any kind: read it, check it, pass it to the module that implements it.

After a kill between any two of a step's points, running the same step again gives the same result. If the host is not as
the step expects, nothing is written at all.
"""

from typing import Any, Callable, Dict, Optional

from ..fields import check_fields, one_of
from ..files import Root
from ..libvirt.service import Libvirt
from ..protocol import (
    ATTACH_DEVICE,
    CREATE_VGPU,
    DESTROY_VGPU,
    DETACH_DEVICE,
    EVACUATE_VGPU,
    PLUG_DEVICE,
    SET_CORDON,
    SET_METADATA,
    SET_MODE,
    SET_SCHEDULER,
    UNPLUG_DEVICE,
    WRITE_MODPROBE,
)
from .cordon_step import parse_cordon_step, set_cordon
from .definition_step import parse_definition_step
from .guard import RemovalGuard
from .mode_step import set_mode
from .modprobe import write_modprobe
from .scheduler_step import set_scheduler
from .setting_steps import parse_mode_step, parse_modprobe_step, parse_scheduler_step
from .step import parse_vgpu_step
from .steps import VgpuSteps, answer


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
        guard: Optional[RemovalGuard] = None,
    ) -> None:
        self._root = root
        self._load_nvml = load_nvml
        self._libvirt = libvirt
        self._at = at
        self._vgpus = VgpuSteps(root, guard or RemovalGuard(root, load_nvml), write=write, at=at)
        self._verbs: Dict[str, Callable[[Any, float], Dict[str, Any]]] = {
            CREATE_VGPU: lambda data, deadline_s: self._vgpus.create(parse_vgpu_step(data), deadline_s),
            DESTROY_VGPU: lambda data, deadline_s: self._vgpus.destroy(parse_vgpu_step(data), deadline_s),
            EVACUATE_VGPU: lambda data, deadline_s: self._vgpus.evacuate(parse_vgpu_step(data), deadline_s),
            SET_SCHEDULER: self._set_scheduler,
            SET_MODE: self._set_mode,
            WRITE_MODPROBE: self._write_modprobe,
            SET_CORDON: self._set_cordon,
            SET_METADATA: self._change_definition,
            ATTACH_DEVICE: self._change_definition,
            DETACH_DEVICE: self._change_definition,
            PLUG_DEVICE: self._change_definition,
            UNPLUG_DEVICE: self._change_definition,
        }

    def execute(self, data: Any, deadline_s: float) -> Dict[str, Any]:
        """Carry out one step. Raises Refusal.

        The deadline is for writes to /sys, which can hang in the driver for as long as a guest runs, and for calls of libvirt.
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

    def _change_definition(self, data: Any, deadline_s: float) -> Dict[str, Any]:
        self._libvirt.change(parse_definition_step(data), deadline_s)
        self._at("definition: changed")
        return answer()
