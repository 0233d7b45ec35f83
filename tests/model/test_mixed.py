"""The same histories on GPUs whose mode somebody changes now and then: of one size, or of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.dose import dose
from tests.model import promises
from tests.model.machine import GPUS
from tests.model.plots import Plot, plots
from tests.model.story import Story, hosts, numbers
from tests.model.test_fleet import many
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIXED_SIZE

if TYPE_CHECKING:
    from tests.model.fleet import Outcome
    from tests.model.wiring import Trouble

CASES = dose(8, 250)


class Mixed(Story):
    """With `mode set`. What it says that it did, it did; what it refused, it left."""

    @rule(host=hosts, number=numbers, mixed=st.sampled_from([True, True, False]), plot=plots)
    def mode(self, host: str, number: int, mixed: bool, plot: Plot | None) -> None:
        gpu = GPUS[number % len(GPUS)]
        machine = self.fleet.machines[host]

        def run(trouble: Trouble | None = None, *, check: bool = False) -> Outcome:
            return self.fleet.set_mode(host, gpu, MIXED_SIZE if mixed else EQUAL_SIZE, check=check, trouble=trouble)

        outcome = self._command(host, None, run, plot, can_fail=self._creates_fail(host), moves=True)
        if outcome.word in ("done", "unchanged") and plot is None:
            assert machine.driver.gpu(gpu).mixed == mixed
            promises.check_places(machine, gpu)


TestMixed = many(Mixed, 3, CASES)
