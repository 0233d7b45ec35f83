"""Candidates as placing offers them."""

from __future__ import annotations

from typing import Any

from vgpumgr.core.policies.policy import Candidate
from vgpumgr.names import HostName, PciAddress


def candidate(place: int, **given: Any) -> Candidate:
    """An empty A40 at that position, for a 4Q."""
    values: dict[str, Any] = {
        "host": HostName("kvm01"),
        "gpu": PciAddress(f"0000:{place:02x}:00.0"),
        "board": "A40",
        "mode": "equal-size",
        "type_name": "A40-4Q",
        "size_mib": 4096,
        "framebuffer_mib": 49152,
        "share": 0.0,
        "alike": 0,
        "others": 0,
        "cost_mib": 40000.0,
        "place": place,
    }
    return Candidate(**(values | given))


def busy(place: int, alike: int, **given: Any) -> Candidate:
    """An A40 in equal-size mode that has as many 4Q."""
    values: dict[str, Any] = {"share": alike / 12, "alike": alike, "cost_mib": 410.0}
    return candidate(place, **(values | given))
