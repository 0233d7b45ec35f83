"""The host program on a machine with a real NVIDIA GPU: `make test-gpu`. Reads only. Says which vGPU facts are not there.

Not run by `make test`. It wants the NVIDIA driver (its libnvidia-ml.so.1), no root and no vGPU licence; on most machines the
GPU is no vGPU host, and each vGPU question is then answered `not supported`, which must be a row of `unknown` and no traceback.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from vgpumgr.core.usage import readings
from vgpumgr.host.facts.facts import observe
from vgpumgr.host.facts.nvml import load_binding
from vgpumgr.host.facts.sample import sample
from vgpumgr.host.files import Root
from vgpumgr.link.values import sampling_facts, snapshot_facts
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

pytestmark = pytest.mark.gpu

HOST = HostName("here")


@pytest.fixture(scope="module", autouse=True)
def names() -> list[str]:
    """The GPUs that NVML shows here; without one these tests fail, since they were asked for."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        pytest.fail(f"no NVIDIA GPU here that NVML can speak to: {error}")
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [f"{pynvml.nvmlDeviceGetName(handle)} ({pynvml.nvmlDeviceGetUUID(handle)})" for handle in handles]
    finally:
        pynvml.nvmlShutdown()


def told(what: str, rows: Iterable[Mapping[str, Any]]) -> None:
    print(f"\n{what}: not told here")  # noqa: T201 -- with -s, and after a failure
    for row in rows:
        print(f"  {row['gpu'] or 'host'} {row['what']}: {row['why']}")  # noqa: T201


def test_observe_says_what_it_can_and_why_not_the_rest(names: list[str]) -> None:
    facts = observe(Root(), load_binding)
    told(f"observe on {', '.join(names)}", facts["unknown"])
    snapshot = snapshot_facts.parse(HOST, facts)
    assert not any("Traceback" in row.why or "binding:" in row.why for row in snapshot.unknown)
    for gpu in facts["gpus"]:
        unknown = {row["what"] for row in facts["unknown"] if row["gpu"] == gpu["pci"]}
        assert gpu["framework"] is not None or "framework" in unknown


def test_sample_says_what_it_can_and_why_not_the_rest(names: list[str]) -> None:
    facts = sample(Root(), load_binding, {})
    told(f"sample on {', '.join(names)}", facts["unknown"])
    reading = sampling_facts.parse(HOST, facts)
    assert not any("Traceback" in row.why or "binding:" in row.why for row in reading.unknown)
    assert reading.driver is None or re.fullmatch(r"[0-9.]+", reading.driver)
    _measured, cursor = readings.advance(readings.Cursor(), reading)
    again = sampling_facts.parse(HOST, sample(Root(), load_binding, cursor.since()))
    for gpu in again.gpus:
        assert gpu.sm is None or 0 <= gpu.sm <= 100
        assert gpu.framebuffer_size_bytes is None or gpu.framebuffer_size_bytes > 1 << 30
