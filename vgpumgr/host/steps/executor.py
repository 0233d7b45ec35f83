"""Execute one step of any kind: read it, check it, pass it to the module that implements it.

If the program is killed between any two of a step's points, running the step again gives the same result. If the host
is not as the step expects, nothing is written at all.
"""

import functools
from typing import Any, Callable, Dict, Optional, Tuple

from ..facts import driver_log
from ..fields import Checks, check_fields, one_of, reader
from ..files import Root
from ..ledger.ledger import read_ledger
from ..libvirt.service import Libvirt
from ..protocol import steps
from ..protocol.session import DEADLINE, LIBVIRT_REFUSED, NVML_REFUSED, SYSFS_REFUSED, TOOL_REFUSED
from ..refusal import Refusal
from ..timing import Timing
from .cordon_step import check_cordon, set_cordon
from .device_xml import check_has_ours, check_ours_goes_in, check_vgpu_comes_out
from .guard import RemovalGuard
from .instance_steps import InstanceSteps
from .keys import FILE_TEXT, KEYS, VGPU_XML, XML, check_vgpu, expecting
from .meant_instance import MeantInstances
from .mig_mode_step import set_mig
from .mode_step import set_mode
from .modprobe import write_modprobe
from .reservation_step import set_reservation
from .reset_step import reset_gpu
from .scheduler_step import SchedulerSet, check_scheduler, set_scheduler
from .steps import VgpuSteps
from .try_step import try_vf
from .vfs_step import set_vfs

_ITS_REFUSALS = (SYSFS_REFUSED, NVML_REFUSED, TOOL_REFUSED, DEADLINE, LIBVIRT_REFUSED)
_LIVE = (steps.PLUG_DEVICE, steps.UNPLUG_DEVICE, steps.START_DOMAIN)


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
        self.root = root
        self.nvml = load_nvml
        self.at = at
        self.timing = timing
        self.write = write
        self.instances = InstanceSteps(root, load_nvml, at)
        guard = guard or RemovalGuard(root, load_nvml, timing=timing)
        self.vgpus = VgpuSteps(root, guard, MeantInstances(root, load_nvml), write=write, at=at)
        self._libvirt = libvirt

    def execute(self, data: object, deadline_s: float) -> steps.Executed:
        """Carry out one step. Raises Refusal; if the driver may have refused, with its log lines since the step began.

        The deadline is for writes to /sys, which can hang in the driver for as long as a guest runs, for calls of
        libvirt, and for NVIDIA's own programs.
        """
        step = parse_step(data)
        with driver_log.from_now(self.root) as logged:
            try:
                outcome = VERBS[step["verb"]][0](self, step, deadline_s)
            except Refusal as refusal:
                if refusal.kind in _ITS_REFUSALS and (refusal.kind != LIBVIRT_REFUSED or step["verb"] in _LIVE):
                    refusal.fields["log"] = logged()
                raise
            if step["verb"] == steps.CREATE_VGPU and outcome:  # a note: the driver refused a part of it
                outcome = "; ".join((outcome, *logged()))
        if isinstance(outcome, SchedulerSet):
            return {"note": outcome.note, "scheduler": outcome.found}
        return {"note": outcome, "scheduler": None}

    def change_definition(self, step: steps.DefinitionStep, deadline_s: float) -> None:
        if step["verb"] == steps.ATTACH_DEVICE or step["verb"] == steps.PLUG_DEVICE:
            check_ours_goes_in(read_ledger(self.root), step)
        elif step["verb"] == steps.DETACH_DEVICE or step["verb"] == steps.UNPLUG_DEVICE:
            check_vgpu_comes_out(self.root, step)
        elif step["verb"] == steps.START_DOMAIN:
            check_has_ours(read_ledger(self.root), step["vm_uuid"])
        self._libvirt.change(step, deadline_s)
        self.at("definition: changed")


# For each verb: the function that carries it out (it may return a note; set_scheduler the scheduler, too), the checks
# of single keys in addition to KEYS, and the check of all keys together.
VERBS: Dict[str, Tuple[Callable[[Executor, Any, float], Any], Checks, Optional[Callable[[Any], None]]]] = {
    steps.CREATE_VGPU: (lambda on, *of: on.vgpus.create(*of), expecting(steps.EMPTY, steps.SAME), check_vgpu),
    steps.DESTROY_VGPU: (lambda on, *of: on.vgpus.destroy(*of), expecting(steps.PRESENT, steps.ABSENT), check_vgpu),
    steps.EVACUATE_VGPU: (lambda on, *of: on.vgpus.evacuate(*of), expecting(steps.PRESENT), check_vgpu),
    steps.DEFER_VGPU: (lambda on, step, _s: on.vgpus.defer(step), expecting(steps.ABSENT), check_vgpu),
    steps.SET_SCHEDULER: (lambda on, step, _s: set_scheduler(on.root, on.nvml, step, on.at), {}, check_scheduler),
    steps.SET_MODE: (lambda on, step, _s: set_mode(on.root, on.nvml, step, on.at), {}, None),
    steps.WRITE_MODPROBE: (lambda on, step, _s: write_modprobe(on.root, step, on.at), {"expect": FILE_TEXT}, None),
    steps.SET_CORDON: (lambda on, step, _s: set_cordon(on.root, step, on.at), {}, check_cordon),
    steps.SET_RESERVATION: (lambda on, step, _s: set_reservation(on.root, step, on.at), {}, None),
    steps.CREATE_INSTANCE: (lambda on, step, _s: on.instances.create(step), expecting(steps.EMPTY, steps.SAME), None),
    steps.DESTROY_INSTANCE: (
        lambda on, step, _s: on.instances.destroy(step),
        expecting(steps.PRESENT, steps.ABSENT),
        None,
    ),
    steps.SET_MIG: (lambda on, step, _s: set_mig(on.root, on.nvml, step, on.at), {}, None),
    steps.SET_VFS: (
        lambda on, step, end_s: set_vfs(on.root, on.nvml, step, on.at, deadline_s=end_s, timing=on.timing),
        {},
        None,
    ),
    steps.RESET_GPU: (lambda on, step, end_s: reset_gpu(on.root, on.nvml, step, on.at, deadline_s=end_s), {}, None),
    steps.TRY_VF: (lambda on, step, end_s: try_vf(on.root, on.nvml, step, on.write, deadline_s=end_s), {}, None),
    steps.SET_METADATA: (Executor.change_definition, XML, None),
    **dict.fromkeys(steps.DEVICE_VERBS, (Executor.change_definition, VGPU_XML, None)),
    steps.START_DOMAIN: (Executor.change_definition, {}, None),
}


def parse_step(data: object) -> steps.AnyStep:
    """The step; other keys are dropped. Raises Refusal(BadRequest) that names a missing or wrong key."""
    verb = check_fields(data, {"verb": (one_of(*VERBS), "one of {}".format(", ".join(VERBS)))}, "step")["verb"]
    step: steps.AnyStep = _reader(verb)(data)
    check = VERBS[verb][2]
    if check is not None:
        check(step)
    return step


@functools.lru_cache(maxsize=None)
def _reader(verb: str) -> Callable[[object], Any]:
    return reader(steps.SHAPES[verb], "step", {**KEYS, **VERBS[verb][1]})
