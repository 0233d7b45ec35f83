"""Idle and short vGPUs: what was not measured is neither."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vgpumgr.core.usage import selection
from vgpumgr.core.usage.tally import ENGINES
from vgpumgr.core.usage.usage_rows import EngineUse, State, UsageRow
from vgpumgr.names import HostName, PciAddress

GIB = 1 << 30


def engine(most: int | None, coverage: float) -> EngineUse:
    return EngineUse(mean=None, p50=None, p95=None, max=most, series=(), coverage=coverage)


def row(
    most: int | None = 0,
    *,
    coverage: float = 1.0,
    state: State = "running",
    of_share: float | None = None,
    framebuffer: int | None = None,
    off: float = 0.0,
    **engines: EngineUse,
) -> UsageRow:
    """A vGPU whose engines had that maximum; `engines`: those that are otherwise."""
    return UsageRow(
        vm="vm01",
        vm_uuid=None,
        slot="vgpu0",
        host=HostName("kvm01"),
        gpu=PciAddress("0000:41:00.0"),
        type_name="A40-4Q",
        origin="ours",
        state=state,
        entitled=None,
        used_of_share=of_share,
        coverage=coverage,
        samples=1,
        engines=dict.fromkeys(ENGINES, engine(most, coverage)) | engines,
        framebuffer_used_bytes=None,
        framebuffer_max_bytes=framebuffer,
        framebuffer_size_bytes=4 * GIB,
        framebuffer_headroom_bytes=None,
        framebuffer_series=(),
        last_us=None,
        off=off,
    )


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (row(0), True),
        (row(1), True),
        (row(2), False),
        (row(0, state="off"), True),
        (row(0, state="gone"), False),
        (row(0, coverage=0.96), True),
        (row(0, coverage=0.94), None),
        (row(None, coverage=0.0), None),
        (row(None, coverage=0.0, state="off"), None),
        (row(None, coverage=0.0, state="off", off=0.96), True),
        (row(None, coverage=0.0, state="off", off=0.94), None),
        (row(0, coverage=0.3, state="off", off=0.7), True),  # it did nothing, then it was off
        (row(40, coverage=0.3, state="off", off=0.7), False),
        (row(0, encoder=engine(40, 1.0)), False),
        (row(0, encoder=engine(0, 0.5)), None),
        (row(0, encoder=engine(40, 0.1)), False),
    ],
)
def test_idle_is_what_was_measured_and_did_nothing_on_any_engine(found: UsageRow, verdict: bool | None) -> None:
    """One busy sample is enough for a no, however little was measured; a yes needs the whole window."""
    assert selection.idle(found, most=1) is verdict


@pytest.mark.parametrize(
    ("of_share", "framebuffer", "verdict"),
    [
        (0.91, GIB, True),
        (0.1, int(3.7 * GIB), True),
        (0.9, GIB, False),
        (None, GIB, None),
        (0.1, None, None),
        (None, 4 * GIB, True),
        (1.7, None, True),
    ],
)
def test_over_is_by_share_or_by_framebuffer(
    of_share: float | None, framebuffer: int | None, verdict: bool | None
) -> None:
    assert selection.over(row(of_share=of_share, framebuffer=framebuffer), percent=90) is verdict


def test_a_vgpu_whose_framebuffer_has_no_known_size_is_not_judged() -> None:
    assert selection.over(replace(row(of_share=0.1, framebuffer=GIB), framebuffer_size_bytes=None), percent=90) is None
