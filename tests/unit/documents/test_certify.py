"""The report of certify: it is what its schema says, and nothing in it tells whose host it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit import captures, reports
from tests.unit.documents import published
from vgpumgr.documents import certify
from vgpumgr.documents.scrub import scrub

if TYPE_CHECKING:
    from pathlib import Path

UUID = "6a1f0000-0000-4000-8000-00000000000a"
OTHER = "6A1F0000-0000-4000-8000-00000000000B"
ZEROES = "00000000-0000-0000-0000-000000000000"
MACHINE = "0123456789abcdef0123456789abcdef"


def capture(**facts: Any) -> dict[str, Any]:
    snapshot = {
        "hostname": "kvm01.example.net",
        "machine": MACHINE,
        "gpus": [{"uuid": f"GPU-{UUID}"}],
        "unknown": [],
        **facts,
    }
    return {"snapshot": snapshot, "host": {}, "functions": [], "texts": [], "calls": [], "definitions": []}


def test_the_report_is_what_its_schema_says(tmp_path: Path) -> None:
    report = reports.of_capture(captures.captures()[0], tmp_path)
    assert published.problems("certify", report) == []
    assert report["schema"] == certify.SCHEMA


def test_the_same_name_or_uuid_has_the_same_substitute_everywhere_and_zeroes_stay() -> None:
    raw = capture(
        active=[{"vm_name": "payroll", "vm_uuid": UUID.upper(), "uuid": ZEROES}],
        handles=[{"vm_name": "payroll", "command": "qemu-system-x86"}],
        unknown=[{"gpu": None, "what": "x", "why": f"payroll on kvm01.example.net has {UUID}"}],
    )
    raw["definitions"] = [{"vm": "payroll", "vm_uuid": OTHER, "active": True, "hostdevs": [{"source": UUID}]}]
    raw["host"] = {"/proc/driver/nvidia/gpus/0000:41:00.0/information": f"GPU UUID: \t GPU-{UUID}"}
    found = scrub(raw)
    facts, [definition] = found["snapshot"], found["definitions"]
    text = json.dumps(found)
    for secret in (UUID, UUID.upper(), OTHER, OTHER.lower(), MACHINE, "payroll", "example"):
        assert secret not in text, secret
    [active], [handle] = facts["active"], facts["handles"]
    assert active["vm_name"] == handle["vm_name"] == definition["vm"] == "vm-1"
    assert facts["unknown"][0]["why"] == f"vm-1 on host-1 has {active['vm_uuid']}"
    assert facts["gpus"][0]["uuid"] == f"GPU-{active['vm_uuid']}"
    assert definition["hostdevs"][0]["source"] == active["vm_uuid"] != definition["vm_uuid"]
    assert found["host"]["/proc/driver/nvidia/gpus/0000:41:00.0/information"].endswith(active["vm_uuid"])
    assert active["uuid"] == ZEROES
    assert len(facts["machine"]) == len(MACHINE)


def test_what_is_not_the_drivers_is_left_out_and_what_names_a_vm() -> None:
    raw = capture(
        ledger=[{"vm_name": "payroll"}],
        cordons=[{"by": "anna@ctl1", "reason": "PSU"}],
        modprobe=[{"path": "/etc/modprobe.d/a.conf", "text": "# anna"}],
        qemus=[{"vm_name": "payroll"}],
        blocked_writes=None,
    )
    raw["calls"] = [{"call": "nvmlVgpuInstanceGetVmID", "gpu": None, "of": "[]", "answer": '["payroll", 0]', "code": 0}]
    found = scrub(raw)
    assert [found["snapshot"][key] for key in ("ledger", "cordons", "modprobe", "qemus")] == [[], [], [], []]
    assert found["snapshot"]["blocked_writes"] is None
    assert "anna" not in json.dumps(found)
    assert "payroll" not in json.dumps(found)


@given(name=st.text(min_size=1, max_size=12), driver=st.text(max_size=12))
def test_whatever_a_vm_is_called_the_driver_s_own_words_stay(name: str, driver: str) -> None:
    """A VM may be called as a word of the driver: nvidia, 1, ENXIO."""
    raw = capture(active=[{"vm_name": name, "vm_uuid": UUID, "uuid": None}])
    raw["texts"] = [{"nvidia/creatable_vgpu_types": f"{driver} nvidia {name}"}]
    raw["functions"] = [{"driver": name}]
    found = scrub(raw)
    assert found["snapshot"]["active"][0]["vm_name"] in ("vm-1", "host-1")
    assert found["texts"] == raw["texts"]
    assert found["functions"] == raw["functions"]
