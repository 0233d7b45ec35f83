"""NVSwitches, Fabric Manager and its mode, as files and processes show them; what cannot be read is null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import FakeHost, observe
from tests.unit.host.fakenvml import FakeNvml
from vgpumgr.host.facts import fabric

if TYPE_CHECKING:
    from pathlib import Path


def test_a_plain_host_has_none(tmp_path: Path) -> None:
    facts = observe(FakeHost.build(tmp_path), FakeNvml())
    assert facts["fabric"] == {"switches": 0, "manager": "absent", "mode": None}
    assert [one["fabric"] for one in facts["gpus"]] == [False]


def test_switches_are_bridges_of_nvidia_and_the_last_mode_of_the_configuration_counts(host: FakeHost) -> None:
    host.add_function("0000:07:00.0", kind="0x068000")
    host.add_function("0000:08:00.0", kind="0x068000")
    host.add_function("0000:09:00.0", kind="0x068000", vendor="0x15b3")
    host.put(fabric.PROGRAM, "")
    host.put(fabric.CONFIGURATION, "# FABRIC_MODE=2\nFABRIC_MODE=1\n LOG_LEVEL=4\nFABRIC_MODE = 2\n")
    facts = observe(host)
    assert facts["fabric"] == {"switches": 2, "manager": "stopped", "mode": 2}
    host.add_process(9, name="nv-fabricmanage", command=("nv-fabricmanager", "-c", "x"))
    assert observe(host)["fabric"]["manager"] == "running"


@pytest.mark.parametrize("text", ["", "FABRIC_MODE=\n", "FABRIC_MODE=two\n", "FABRIC_MODE=99999\n"])
def test_a_configuration_without_a_mode_says_none(host: FakeHost, text: str) -> None:
    host.put(fabric.CONFIGURATION, text)
    assert observe(host)["fabric"]["mode"] is None


def test_where_the_processes_cannot_be_read_it_is_unknown_whether_it_runs(host: FakeHost) -> None:
    (host.path("/proc/9")).mkdir()
    host.put("/proc/9/stat", "9 (x) S " + "1 " * 30)
    host.put("/proc/9/fd", "no folder")
    facts = observe(host)
    assert (facts["handles"], facts["fabric"]["manager"]) == (None, None)


@pytest.mark.parametrize(
    ("state", "code", "known"),
    [(0, None, False), (1, None, True), (3, None, True), (3, 3, False), (3, 13, False), (3, 999, None)],
)
def test_nvml_says_whether_a_gpu_is_on_a_fabric(
    tmp_path: Path, state: int, code: int | None, known: bool | None
) -> None:
    fail: dict[str, Any] = {} if code is None else {"nvmlDeviceGetGpuFabricInfoV": code}
    facts = observe(FakeHost.build(tmp_path), FakeNvml(fabric=state, **fail))
    assert [one["fabric"] for one in facts["gpus"]] == [known]
    assert any(row["what"] == "fabric" for row in facts["unknown"]) is (known is None)
