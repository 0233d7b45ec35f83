"""Each step of each operation refused once by the host: what the run did is undone, or what is left is told; then the same command ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.matrix.operations import HOST, Operation, fresh
from tests.crash.matrix.test_kill_matrix import ALL, frameworks, problem
from tests.dose import FULL
from tests.model import promises
from tests.model.pool import POOL
from vgpumgr import errors
from vgpumgr.host.protocol.session import TOOL_REFUSED
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.steps.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.model.fleet import Fleet

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

MOST = 60  # more than any operation has
# What nothing takes back (core/step/, is_final), so that what is left is told.
FINAL = {"destroy_vgpu", "reset_gpu", "plug_device", "unplug_device"}
# What is refused of one slot or GPU keeps these from none of the others.
GOES_ON = {
    *("reconcile", "attach several", "detach several", "drain", "host purge", "gc", "migrate-framework", "defrag"),
    *("drain of lazy vGPUs", "reconcile of lazy vGPUs", "end of a VM with a lazy vGPU"),
    "start of a VM with a lazy vGPU, on another GPU",
}


@pytest.fixture(scope="module", autouse=True)
def _machines() -> Iterator[None]:
    with POOL:
        yield


class Refusing:
    """The host program, which refuses step number `at` (from 1) of the first host, before it does anything. `told`: the verbs so far."""

    def __init__(self, fleet: Fleet, at: int) -> None:
        self.told: list[str] = []
        self._root = fleet.machines[HOST].root
        self._at = at

    def execute(self, real: Callable[..., dict[str, Any]], executor: Executor, data: Any, deadline_s: float) -> Any:
        if executor.root.path("/") == str(self._root) + "/" and len(self.told) < self._at:
            self.told.append(data["verb"])
            if len(self.told) == self._at:
                raise Refusal(TOOL_REFUSED, "refused by the test", command="/usr/bin/test", status=1, output="")
        return real(executor, data, deadline_s)


def state(fleet: Fleet) -> object:
    machine = fleet.machines[HOST]
    gpus = [
        (gpu.pci, gpu.mig_on, gpu.mig_pending, gpu.mixed, gpu.vfs_on, gpu.schedulers, _instances(gpu.instances))
        for gpu in machine.gpus()
    ]
    return promises.truth(machine), gpus


def _instances(found: Any) -> list[tuple[str, int]]:
    return sorted((one.profile.name, one.start) for one in found)


def cases() -> list[tuple[Operation, str]]:
    """All frameworks in the full dose; in the other one for each operation, in turn."""
    found = []
    for number, operation in enumerate(ALL):
        fitting = frameworks(operation)
        found += [(operation, one) for one in (fitting if FULL else (fitting[number % len(fitting)],))]
    return found


@pytest.mark.parametrize(("operation", "framework"), cases(), ids=str)
def test_a_refused_step_is_undone_or_told_and_the_same_command_then_ends_it(
    operation: Operation,
    framework: str,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    real = Executor.execute
    failed: list[str] = []
    for at in range(1, MOST):
        fleet = fresh(framework, mig=operation.mig)
        operation.prepare(fleet)
        before = state(fleet)
        refusing = Refusing(fleet, at)
        monkeypatch.setattr(Executor, "execute", lambda *data, one=refusing: one.execute(real, *data))
        error = problem(operation.run(fleet, None))
        monkeypatch.setattr(Executor, "execute", real)
        if len(refusing.told) < at:
            break
        promises.check_always(fleet)
        *done, verb = refusing.told
        where = f"step {at}, {verb}, after {' '.join(done)}: {error}"
        stays = operation.name in GOES_ON or bool(set(done) & FINAL)
        if "undoing it failed" in str(error) or (not stays and isinstance(error, errors.PartialApply)):
            failed.append(where)
        elif not stays and state(fleet) != before:
            failed.append(f"{where} (not as before)")
        again = operation.run(fleet, None)
        assert problem(again) is None, f"{where}; the same command again: {problem(again)}"
        promises.check_always(fleet)
        operation.check(fleet)
    else:
        pytest.fail(f"more than {MOST} steps")
    record_property("counted", f"refused steps: {operation} on {framework}: {at - 1}, all undone or told")
    assert at > 1
    assert not failed, "\n".join(failed)
