"""A GPU in MIG mode beside a time-sliced one: what its vGPUs are known to use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import loads
from tests.acceptance.command import vgpumgr
from tests.lab_fixtures import MIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST = "kvm01"
GIB = 1 << 30
ENGINES = ("sm", "memory", "encoder", "decoder")


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Iterator[Lab]:
    """vm01 has a GPU instance for itself, vm02 shares the other GPU; both work."""
    with lab_factory.lend(MIG, wiped=True) as lab:
        for vm, wish in (("vm01", ("--mig-profile", "1g.5gb")), ("vm02", ("--profile", "4C"))):
            vgpumgr(lab, "attach", vm, *wish, "--on", HOST)
            lab.control(HOST, "hold", vm=vm)
            vgpumgr(lab, "lab", "load", vm, "--sm", "60", "--fb", "2G")
        loads.wait_for_tick()
        for _ in range(2):
            assert vgpumgr(lab, "collect", HOST).err == ""  # nothing is missing: NVML has no more to tell
        yield lab


def usage(lab: Lab, *arguments: str) -> dict[str, Any]:
    return vgpumgr(lab, "usage", *arguments, "-o", "json").document


def test_the_use_of_a_mig_backed_vgpu_is_its_framebuffer_and_all_else_is_unknown(lab: Lab) -> None:
    document = usage(lab, HOST)
    assert document["findings"] == []
    mine, other = sorted(document["vgpus"], key=lambda row: row["vm"])
    for engine in ENGINES:
        assert {mine[engine][key] for key in ("mean", "p50", "p95", "max")} == {None}, engine
        assert set(mine[engine]["series"]) == {None}, engine
    assert mine["used_of_share"] is None
    assert [mine[f"framebuffer_{what}_bytes"] for what in ("used", "max", "size", "headroom")] == [
        2 * GIB,
        2 * GIB,
        5 * GIB,
        3 * GIB,
    ]
    assert mine["samples"] > 0
    assert other["sm"]["max"] == 60


def test_the_tables_have_question_marks_and_the_framebuffer(lab: Lab) -> None:
    told = next(line for line in vgpumgr(lab, "usage", "vm01").out.splitlines() if "framebuffer " in line)
    assert "2.0 GiB now, at most 2.0 GiB of 5.0 GiB, 3.0 GiB never used" in told
    table = vgpumgr(lab, "top", HOST, "--once").out.splitlines()
    head, shown = (next(line for line in table if line.startswith(word)) for word in ("VM ", "vm01 "))
    assert head.split()[3:5] == ["SM", "FB"]
    assert shown.split()[3:6] == ["?", "2.0", "GiB"]
