"""What a file of VMs may say; the words of every problem with its line: tests/unit/inventory_files/test_vms_file.py."""

from __future__ import annotations

from vgpumgr.core.inventory import Location, Member, Value
from vgpumgr.core.inventory.report import Report
from vgpumgr.core.inventory.vms_file import read_vms_file

WHERE = Location("vms.yml", 1)
SLOTS = {"vgpu0": {"profile": "4Q"}}


def located(data: object) -> Value:
    if isinstance(data, dict):
        members = {key: Member(Value(WHERE, key, key), located(value)) for key, value in data.items()}
        return Value(WHERE, members)
    assert isinstance(data, str)
    return Value(WHERE, data, data)


def test_what_vgpumgr_vms_holds_is_the_same_with_and_without_its_name() -> None:
    found = []
    for content in ({"vm02": SLOTS, "vm01": SLOTS}, {"vgpumgr_vms": {"vm02": SLOTS, "vm01": SLOTS}}):
        report = Report()
        found.append(read_vms_file(located(content), report))
        assert report.problems() == ()
    assert found[0] == found[1]
    assert [*found[0]] == ["vm01", "vm02"]


def test_a_file_that_asks_for_nothing_is_a_mistake() -> None:
    contents: tuple[object, ...] = ({}, {"vgpumgr_vms": {}}, {"vm01": {}}, {"vm01": SLOTS, "vm02": {}})
    for content in contents:
        report = Report()
        read_vms_file(located(content), report)
        assert len(report.problems()) == 1, content
