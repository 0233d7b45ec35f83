"""The step set_cordon: what the ledger says of it afterwards, and what it does not write."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.host.fakehost import GPU_A, MDEV_VF, UUID_A, FakeHost, execute, make_entry, observe

TEXT = {"reason": "ECC errors", "by": "anna@ctl1", "at": "2026-11-22T12:00:00Z"}
OTHER = {**TEXT, "reason": "new PSU"}
OF_GPU = {"gpu_uuid": UUID_A, "gpu": GPU_A, "vf_index": None, "vf": None}
OF_VF = {**OF_GPU, "vf_index": 1, "vf": "0000:41:00.5"}
OF_HOST: dict[str, None] = dict.fromkeys(OF_GPU)


def step(**more: Any) -> dict[str, Any]:
    return {"verb": "set_cordon", **OF_HOST, "cordon": TEXT, "expect": None, **more}


def cordons(host: FakeHost) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = observe(host)["cordons"]
    return found


def test_a_host_each_of_its_gpus_and_each_function_have_one_each(host: FakeHost) -> None:
    """A second step with another text takes the place of the first; the same one again passes. Entries stay."""
    host.put_ledger(make_entry(MDEV_VF))
    assert "ok" in execute(host, step())
    assert "ok" in execute(host, step(**OF_GPU))
    assert "ok" in execute(host, step(cordon=OTHER, expect=TEXT))
    assert "ok" in execute(host, step(cordon=OTHER, expect=TEXT))
    assert "ok" in execute(host, step(**OF_VF))
    assert cordons(host) == [{**OF_GPU, **TEXT}, {**OF_HOST, **OTHER}, {**OF_VF, **TEXT}]
    assert "ok" in execute(host, step(cordon=None, expect=OTHER))
    assert "ok" in execute(host, step(**OF_GPU | {"cordon": None, "expect": TEXT}))
    assert cordons(host) == [{**OF_VF, **TEXT}]
    assert host.entries() == [make_entry(MDEV_VF)]


def test_a_cordon_that_somebody_else_set_meanwhile_is_not_overwritten(host: FakeHost) -> None:
    assert "ok" in execute(host, step(cordon=OTHER))
    refused = execute(host, step())["err"]
    assert (refused["kind"], refused["found"]) == ("Changed", "the cordon of anna@ctl1 at 2026-11-22T12:00:00Z")
    assert cordons(host) == [{**OF_HOST, **OTHER}]


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpu": GPU_A},
        {"gpu_uuid": UUID_A},
        {"gpu_uuid": UUID_A, "gpu": "../41"},
        {**OF_VF, "vf": None},
        {**OF_VF, "vf": "../41"},
        {**OF_VF, "vf_index": -1},
        {"vf_index": 1, "vf": "0000:41:00.5"},
        {"cordon": {**TEXT, "reason": ""}},
        {"cordon": {**TEXT, "reason": "two\nlines"}},
        {"cordon": {**TEXT, "by": "a" * 1001}},
        {"cordon": {"reason": "ECC"}},
        {"cordon": "ECC"},
        {"expect": 1},
    ],
)
def test_what_is_no_such_step_is_refused_and_no_ledger_is_made(host: FakeHost, wrong: dict[str, Any]) -> None:
    assert execute(host, step(**wrong))["err"]["kind"] == "BadRequest"
    assert not host.ledger_file.exists()
