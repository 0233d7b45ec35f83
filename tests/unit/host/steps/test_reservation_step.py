"""The step set_reservation: what the ledger says of it afterwards, when it ends, and what it does not write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.controllers import wait_until
from tests.unit.host.fakehost import MDEV_VF, FakeHost, execute, make_entry, make_step, observe

TERMS = {"owner": "team-a", "by": "anna@ctl1", "at": "2026-11-22T12:00:00Z", "left_s": 3600, "taker": None}
OF_VGPU = ("verb", "expect", "param", "replaces", "runs", "listed")
NAMED = {"vm_uuid": "11111111-0000-4000-8000-000000000001", "vm_name": "team", "slot": "vgpu0", "generation": 0}


def step(**more: Any) -> dict[str, Any]:
    place = {key: value for key, value in make_step(MDEV_VF).items() if key not in OF_VGPU}
    return {**place, **NAMED, "verb": "set_reservation", "terms": TERMS, **more}


def reservations(host: FakeHost) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = observe(host)["reservations"]
    return found


def test_a_place_is_kept_and_given_up(host: FakeHost) -> None:
    """The same step again passes, as does giving up what is not kept. Entries stay."""
    for _ in range(2):
        assert "ok" in execute(host, step())
    (row,) = reservations(host)
    assert (row["vm_name"], row["parent"], row["terms"]["owner"]) == ("team", step()["parent"], "team-a")
    assert 3590 < row["terms"]["left_s"] <= 3600
    for _ in range(2):
        assert "ok" in execute(host, step(terms=None))
    assert reservations(host) == []


def test_it_ends_by_the_hosts_clock_and_leaves_the_file_with_the_next_write(host: FakeHost) -> None:
    assert "ok" in execute(host, step(terms={**TERMS, "left_s": 1}))
    assert json.loads(host.ledger_file.read_text())["version"] == 6
    wait_until(lambda: not reservations(host), "the end of a second", 20)
    assert "ok" in execute(host, step(vm_uuid="11111111-0000-4000-8000-000000000002"))
    document = json.loads(host.ledger_file.read_text())
    assert [row["vm_uuid"] for row in document["reservations"]] == ["11111111-0000-4000-8000-000000000002"]
    assert "ok" in execute(host, step(vm_uuid="11111111-0000-4000-8000-000000000002", terms=None))
    document = json.loads(host.ledger_file.read_text())
    assert ("reservations" in document, document["version"]) == (False, 3)  # an older vgpumgr can use it again


def test_a_place_that_somebody_has_is_not_kept_for_another(host: FakeHost) -> None:
    host.put_ledger(make_entry(MDEV_VF))
    refused = execute(host, step())["err"]
    assert (refused["kind"], refused["found"]) == ("Changed", "one for vm01 slot vgpu0")
    assert "ok" in execute(host, step(vf_index=1, parent="0000:41:00.5", uuid=None))
    refused = execute(host, step(vf_index=1, parent="0000:41:00.5", uuid=None, slot="vgpu1"))["err"]
    assert (refused["kind"], refused["found"]) == ("Changed", "team vgpu0")
    refused = execute(host, step(vf_index=2, parent="0000:41:00.6", uuid=None))["err"]
    assert (refused["kind"], refused["found"]) == ("Changed", "0000:41:00.5")


@pytest.mark.parametrize(
    "wrong",
    [
        {"parent": "../41"},
        {"terms": {**TERMS, "owner": "two\nlines"}},
        {"terms": {**TERMS, "by": ""}},
        {"terms": {**TERMS, "left_s": -1}},
        {"terms": {"owner": "team-a"}},
        {"terms": "team-a"},
        {"mig": {"profile": "2g.10gb"}},
    ],
)
def test_what_is_no_such_step_is_refused_and_no_ledger_is_made(host: FakeHost, wrong: dict[str, Any]) -> None:
    assert execute(host, step(**wrong))["err"]["kind"] == "BadRequest"
    assert not host.ledger_file.exists()


@pytest.mark.parametrize("wrong", [{"until": "soon"}, {"mig": {}}, {"owner": 1}])
def test_a_row_of_another_shape_breaks_the_ledger(host: FakeHost, wrong: dict[str, Any]) -> None:
    assert "ok" in execute(host, step())
    document = json.loads(host.ledger_file.read_text())
    document["reservations"][0].update(wrong)
    host.ledger_file.write_text(json.dumps(document))
    assert "reservations[0]" in str(observe(host)["unknown"])
