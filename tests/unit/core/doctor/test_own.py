"""What the controller's machine lacks, by what was read of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vgpumgr.core.doctor import own
from vgpumgr.core.doctor.own import OwnMachine

HEALTHY = OwnMachine(
    modules=dict.fromkeys(own.EXTRAS, True),
    inventory=None,
    known_hosts={},
    configured=0,
    ssh=None,
    state="/var/lib/vgpumgr",
    state_problem=None,
    state_open=False,
)


@pytest.mark.parametrize(
    ("lacks", "kinds"),
    [
        ({}, []),
        ({"configured": 3, "ssh": "/usr/bin/ssh"}, []),
        ({"configured": 3}, ["no-ssh"]),
        ({"inventory": "x.yml:3: no"}, ["inventory"]),
        ({"known_hosts": {"/root/.ssh/known_hosts": 4}}, ["known-hosts"]),
        ({"state_problem": "no permission", "state_open": True}, ["state-folder"]),
        ({"state_open": True}, ["state-open"]),
        ({"modules": {**dict.fromkeys(own.EXTRAS, True), "ortools": False}}, ["no-module"]),
    ],
)
def test_each_lack_is_one_illness_without_a_host(lacks: dict[str, Any], kinds: list[str]) -> None:
    found = [*own.illnesses(replace(HEALTHY, **lacks))]
    assert [one.kind for one in found] == kinds
    assert {one.host for one in found} <= {None}
