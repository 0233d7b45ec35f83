"""What `top` is told of the time before it was opened: only while samples are being taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.store.samples_of import SECOND, T0, load, measured_round
from vgpumgr.controller import usage
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from pathlib import Path

DAY_S = 86400.0


def test_the_means_of_each_vgpu_are_there_while_samples_are_fresh(tmp_path: Path) -> None:
    samples = Samples(tmp_path / "samples.db")
    assert usage.past(samples, now_s=T0 / SECOND, since_s=DAY_S) is None
    assert not samples.path.exists()
    end = T0 + 3600 * SECOND
    samples.add([measured_round({"vm1": load(40), "vm2": None}, since_us=T0, until_us=end)], every_s=10)
    found = usage.past(samples, now_s=end / SECOND + 20, since_s=DAY_S)
    assert found is not None
    ((key, values),) = found.sm.items()
    assert (key.host, key.vm, key.slot, found.step_s) == ("kvm01", "vm1", "vgpu0", 3600)
    assert {value for value in values if value is not None} == {40}
    assert usage.past(samples, now_s=end / SECOND + 3600, since_s=DAY_S) is None, "nobody collects any more"
