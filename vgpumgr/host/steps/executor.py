"""Execute one step of any kind: read it, check it, pass it to the module that implements it.

If the program is killed between any two of a step's points, running the step again gives the same result. If the host
is not as the step expects, nothing is written at all.
"""

import functools
from typing import Any, Callable, Dict, NamedTuple, Optional

from ..fields import Checks, check_fields, one_of, reader
from ..files import Root
from ..ledger.ledger import read_ledger
from ..libvirt.service import Libvirt
from ..protocol import steps
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
        self.root = root
        self.nvml = load_nvml
        self.at = at
        self.timing = timing
        self.instances = InstanceSteps(root, load_nvml, at)
        guard = guard or RemovalGuard(root, load_nvml, timing=timing)
        self.vgpus = VgpuSteps(root, guard, MeantInstances(root, load_nvml), write=write, at=at)
        self._libvirt = libvirt

    def execute(self, data: object, deadline_s: float) -> steps.Executed:
        """Carry out one step. Raises Refusal.

        The deadline is for writes to /sys, which can hang in the driver for as long as a guest runs, for calls of
        libvirt, and for NVIDIA's own programs.
        """
        step = parse_step(data)
        outcome = VERBS[step["verb"]].do(self, step, deadline_s)
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


_NONE: Checks = {}


class Verb(NamedTuple):
    """How a step of this verb is carried out: `do(executor, step, deadline_s)`.

    It returns a note if there is one; set_scheduler the scheduler, too. `keys`: what only this verb's keys must be;
    `check`: what they must be together.
    """

    do: Callable[[Executor, Any, float], Any]
    keys: Checks = _NONE
    check: Optional[Callable[[Any], None]] = None


VERBS: Dict[str, Verb] = {
    steps.CREATE_VGPU: Verb(lambda on, *of: on.vgpus.create(*of), expecting(steps.EMPTY, steps.SAME), check_vgpu),
    steps.DESTROY_VGPU: Verb(lambda on, *of: on.vgpus.destroy(*of), expecting(steps.PRESENT, steps.ABSENT), check_vgpu),
    steps.EVACUATE_VGPU: Verb(lambda on, *of: on.vgpus.evacuate(*of), expecting(steps.PRESENT), check_vgpu),
    steps.SET_SCHEDULER: Verb(lambda on, step, _s: set_scheduler(on.root, on.nvml, step, on.at), check=check_scheduler),
    steps.SET_MODE: Verb(lambda on, step, _s: set_mode(on.root, on.nvml, step, on.at)),
    steps.WRITE_MODPROBE: Verb(lambda on, step, _s: write_modprobe(on.root, step, on.at), {"expect": FILE_TEXT}),
    steps.SET_CORDON: Verb(lambda on, step, _s: set_cordon(on.root, step, on.at), check=check_cordon),
    steps.SET_RESERVATION: Verb(lambda on, step, _s: set_reservation(on.root, step, on.at)),
    steps.CREATE_INSTANCE: Verb(lambda on, step, _s: on.instances.create(step), expecting(steps.EMPTY, steps.SAME)),
    steps.DESTROY_INSTANCE: Verb(
        lambda on, step, _s: on.instances.destroy(step), expecting(steps.PRESENT, steps.ABSENT)
    ),
    steps.SET_MIG: Verb(lambda on, step, _s: set_mig(on.root, on.nvml, step, on.at)),
    steps.SET_VFS: Verb(
        lambda on, step, limit_s: set_vfs(on.root, on.nvml, step, on.at, deadline_s=limit_s, timing=on.timing)
    ),
    steps.RESET_GPU: Verb(lambda on, step, limit_s: reset_gpu(on.root, on.nvml, step, on.at, deadline_s=limit_s)),
    steps.SET_METADATA: Verb(Executor.change_definition, XML),
    steps.ATTACH_DEVICE: Verb(Executor.change_definition, VGPU_XML),
    steps.DETACH_DEVICE: Verb(Executor.change_definition, VGPU_XML),
    steps.PLUG_DEVICE: Verb(Executor.change_definition, VGPU_XML),
    steps.UNPLUG_DEVICE: Verb(Executor.change_definition, VGPU_XML),
    steps.START_DOMAIN: Verb(Executor.change_definition),
}


def parse_step(data: object) -> steps.AnyStep:
    """The step, without keys that such a step does not have. Raises Refusal(BadRequest) naming the wrong key."""
    verb = check_fields(data, {"verb": (one_of(*VERBS), "one of {}".format(", ".join(VERBS)))}, "step")["verb"]
    step: steps.AnyStep = _reader(verb)(data)
    check = VERBS[verb].check
    if check is not None:
        check(step)
    return step


@functools.lru_cache(maxsize=None)
def _reader(verb: str) -> Callable[[object], Any]:
    return reader(steps.SHAPES[verb], "step", {**KEYS, **VERBS[verb].keys})
