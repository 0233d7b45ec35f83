"""What is done in the place of a refused step counts as steps of the run; and an undo after Ctrl-C waits for a VM's end, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from tests.unit.core import builders
from vgpumgr import errors
from vgpumgr.controller.engine import apply as apply_module
from vgpumgr.controller.engine.apply import apply
from vgpumgr.core import step as steps
from vgpumgr.core.driver import scheduler
from vgpumgr.core.model.mig import OurInstance
from vgpumgr.link.host import StepResult
from vgpumgr.names import PciAddress
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.slot.plan import AnyPlan

HOST, PCI = builders.HOST, PciAddress("0000:41:00.0")
SETTING = scheduler.Setting(policy="best-effort")
IN_USE = 19  # NVML_ERROR_IN_USE


def spec(number: int) -> VgpuSpec:
    return builders.created(builders.plan_attach(builders.host(vms=5), f"vm{number:02}")).vgpu


EVACUATIONS = tuple(steps.EvacuateVgpu(host=HOST, vgpu=spec(number)) for number in (4, 5))
SET = steps.SetScheduler(
    host=HOST,
    gpu_uuid=builders.gpu_uuid(PCI),
    gpu=PCI,
    api=1,
    setting=SETTING,
    before=SETTING,
    expect={},
    around=EVACUATIONS,
)
MODPROBE = steps.WriteModprobe(host=HOST, path="/etc/modprobe.d/vgpumgr.conf", text=None, expect=None)

FULL = errors.LedgerUnwritable(HOST, "full", path="/var/lib/vgpumgr", errno_name="ENOSPC", hint="make room")
CORDON = steps.SetCordon(host=HOST, gpu_uuid=None, gpu=None, cordon=None, expect=None)


class Host:
    """Answers every step, but for what `refuse` raises. It gets what was asked so far, the newest last."""

    def __init__(self, refuse: Callable[[list[str]], None]) -> None:
        self.asked: list[str] = []
        self._refuse = refuse

    def execute(self, step: steps.HostStep) -> StepResult:
        of = f" {step.vgpu.vm_name}" if isinstance(step, steps.VgpuStep) else ""
        self.asked.append(step.verb + of)
        if self.asked == ["set_scheduler"] and SET.around:
            raise errors.NvmlRefused(HOST, "in use", function="nvmlDeviceSetVgpuSchedulerState", code=IN_USE)
        self._refuse(self.asked)
        return StepResult(note=None, scheduler=None)


def go(
    refuse: Callable[[list[str]], None], *steps: steps.Step, unwritable: errors.LedgerUnwritable | None = None
) -> tuple[Host, list[str]]:
    """Apply the steps; what was asked and told, whatever it raised (which is the last line told)."""
    host, told = Host(refuse), list[str]()
    session = SimpleNamespace(
        declaration=SimpleNamespace(name=HOST),
        context=SimpleNamespace(progress=told.append, timing=Timing(ending_poll_s=0.001)),
        link=host,
        unwritable=unwritable,
    )
    try:
        apply(cast("Session", session), cast("AnyPlan", SimpleNamespace(steps=steps)))
    except (errors.VgpumgrError, KeyboardInterrupt) as error:
        told.append(f"{type(error).__name__}: {error}")
    return host, told


def at(last: str, error: Exception, *, times: int = 1) -> Callable[[list[str]], None]:
    def refuse(asked: list[str]) -> None:
        if asked[-1] == last and asked.count(last) == times:
            raise error

    return refuse


def test_what_was_moved_out_comes_back_where_the_next_move_ends_as_nobody_foresaw() -> None:
    host, told = go(at("evacuate_vgpu vm05", KeyError("x")), SET, MODPROBE)
    assert host.asked[-2:] == ["create_vgpu vm05", "create_vgpu vm04"]
    assert "undoing 1 of 6 steps" in told[-2]


def test_what_was_moved_out_comes_back_though_nobody_knows_whether_the_scheduler_was_set() -> None:
    host, told = go(at("set_scheduler", KeyError("x"), times=2), SET)
    assert host.asked[-2:] == ["create_vgpu vm05", "create_vgpu vm04"]
    assert "it is not known whether set_scheduler was done; the idle vGPUs that were moved out are back" in told[-1]


def test_a_move_whose_end_the_ledger_could_not_take_is_named_as_the_step_that_was_done() -> None:
    unwritten = errors.LedgerUnwritable(
        HOST, "full", path="/var/lib/vgpumgr/ledger.json", errno_name="ENOSPC", written=True, hint="make room"
    )
    _, told = go(at("evacuate_vgpu vm05", unwritten), SET, MODPROBE)
    assert told[-1].startswith("PartialApply")
    assert "(evacuate_vgpu was done, after evacuate_vgpu)" in told[-1]


def test_a_full_disk_is_told_before_a_scheduler_is_set_for_which_vgpus_may_be_moved() -> None:
    host, told = go(lambda _: None, SET, unwritable=FULL)
    assert not host.asked
    assert told[-1].startswith("LedgerUnwritable")


def test_an_undo_that_fails_goes_on_as_long_as_vgpus_are_moved_out() -> None:
    def refuse(asked: list[str]) -> None:
        if CORDON.verb in asked:
            raise FULL

    host, told = go(refuse, SET, MODPROBE, CORDON)
    back = ["write_modprobe", "evacuate_vgpu vm05", "evacuate_vgpu vm04", "set_scheduler"]
    assert host.asked[host.asked.index(CORDON.verb) + 1 :] == [*back, "create_vgpu vm05", "create_vgpu vm04"]
    assert told[-1].startswith("PartialApply")


def test_what_an_earlier_run_did_is_not_undone() -> None:
    instance = OurInstance(gpu_uuid=SET.gpu_uuid, gpu=PCI, profile="2g.10gb", profile_id=14, start=2, size=2)
    done: list[steps.Step] = [
        steps.CreateVgpu(host=HOST, vgpu=spec(4), expect=steps.SAME),
        steps.EnterVgpu(host=HOST, vgpu=spec(5)),
        steps.CreateInstance(host=HOST, instance=instance, expect=steps.SAME),
        steps.DestroyInstance(host=HOST, instance=instance, expect=steps.ABSENT),
    ]
    host, _ = go(at(CORDON.verb, FULL), *done, CORDON)
    assert host.asked[-1] == CORDON.verb


def test_after_an_interrupt_the_undo_waits_for_a_vm_that_is_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        """The main thread gets Ctrl-C once the steps are done."""

        def __init__(self, call: Callable[[], None], *, name: str) -> None:
            self._call, self._name = call, name

        def result(self, _: float) -> None:
            self._call()
            raise KeyboardInterrupt

    def ending(asked: list[str]) -> None:
        if asked[-1] == "destroy_vgpu vm04" and asked.count("destroy_vgpu vm04") < 3:
            raise errors.StillEnding("vm04 ended 3 s ago", details=["its VM ended 3 s ago"])

    monkeypatch.setattr(apply_module, "Bounded", Interrupted)
    host, told = go(ending, steps.CreateVgpu(host=HOST, vgpu=spec(4), expect=steps.EMPTY))
    assert host.asked == ["create_vgpu vm04", *["destroy_vgpu vm04"] * 3]
    assert told[-1].startswith("KeyboardInterrupt")
