"""One entry's mistake fails that entry alone and names it; and the diff is shown all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.collection.plays.plays import Plays

pytestmark = [pytest.mark.lab, pytest.mark.collection]


def vgpu(**options: Any) -> list[dict[str, Any]]:
    return [{"hosts": "localhost", "gather_facts": False, "tasks": [{"vgpumgr.kvm.vgpu": options}]}]


@pytest.fixture
def _clean(plays: Plays) -> Iterator[None]:
    """Nothing is left of what the test gave."""
    yield
    ran = plays.play(vgpu(vms=[{"name": name} for name in ("vm01", "vm02", "vm03")], state="absent"))
    assert ran.code == 0, ran.out


MISTAKES = [
    ({"name": "vm09", "profile": "4q!"}, "vm09", "not a profile: '4q!'"),
    ({"name": "vm09", "profile": None, "gpu": "many"}, "vm09", "gpu must be a number"),
    ({"name": "vm09", "slot": "no slot"}, "vm09", "not a slot name: 'no slot'"),
    ({"name": "vm09", "profile": "4Q", "gpu": "0.5"}, "vm09", "profile"),
    ({"name": "a/b"}, "a/b", "not a VM name: 'a/b'"),
    ({"name": "vm009"}, "vm009", "did you mean vm09?"),
    ({"name": "vm09", "host": "kvm77"}, "vm09", "no host 'kvm77'"),
    ({"name": "vm09", "series": "Z"}, "vm09", "value of series must be one of: A, B, C, Q, got: Z"),
    ({"name": "vm09", "max_waste": "much"}, "vm09", "max_waste"),
    ({"name": "vm09", "frofile": "4Q"}, "vm09", "unsupported parameter: vms.frofile"),
    ({"profile": "4Q"}, "vms[12]", "missing required arguments: name"),
    ("vm09", "vms[13]", "dictionary requested"),
]


@pytest.mark.usefixtures("_clean")
def test_each_mistake_is_its_entrys_own_and_the_others_are_served(plays: Plays) -> None:
    entries = [{"name": "vm01"}, {"name": "vm02"}, *(entry for entry, _name, _why in MISTAKES), {"name": "vm03"}]
    ran = plays.play(vgpu(vms=entries, profile="4Q"), "--diff")
    assert ran.code == 2, ran.out
    assert "Traceback" not in ran.out
    rows = ran.results[0]["vms"]
    assert [row["vm"] for row in rows] == ["vm01", "vm02", *(name for _entry, name, _why in MISTAKES), "vm03"]
    assert [rows[at]["outcome"] for at in (0, 1, -1)] == ["done"] * 3
    told = ran.results[0]["msg"]
    assert told.startswith(f"{len(MISTAKES)} of {len(entries)} slots failed, 3 changed\n")
    for row, (_entry, name, why) in zip(rows[2:-1], MISTAKES, strict=True):
        assert (row["changed"], row["outcome"] in ("usage", "refused")) == (False, True), row
        assert why in row["msg"], row
        assert any(
            line.startswith(f"{name} ") and line.endswith(row["msg"].splitlines()[0]) for line in told.splitlines()
        )
    # Ansible shows no difference of a task that failed. We do: what was done, and what was not.
    for vm in ("vm01", "vm02", "vm03"):
        assert f"+++ after: {vm} on kvm01" in ran.out
    assert "vm009 slot vgpu0: stays as it is" in ran.out
    assert "+    type_name: A40-4Q" in ran.out


@pytest.mark.usefixtures("_clean")
def test_a_slot_that_is_named_twice_is_refused_for_both_and_the_check_says_what_would_change(plays: Plays) -> None:
    entries = [{"name": "vm01"}, {"name": "vm02", "profile": "4Q"}, {"name": "vm01", "profile": "8Q"}]
    ran = plays.play(vgpu(vms=entries, profile="4Q"), "--check")
    assert [row["outcome"] for row in ran.results[0]["vms"]] == ["usage", "would_change", "usage"]
    assert ran.results[0]["msg"].splitlines()[:2] == [
        "2 of 3 slots failed, 1 would change",
        "vm01 vgpu0: vm01 slot vgpu0 is named twice",
    ]
    fine = plays.play(vgpu(vms=[{"name": "vm01"}, {"name": "vm02"}], profile="4Q"), "--check")
    assert (fine.code, fine.results[0]["msg"]) == (0, "2 of 2 slots would change")
    one = plays.play(vgpu(name="vm01", profile="4Q"), "--check")
    assert one.results[0]["msg"].startswith("vm01 slot vgpu0 would get A40-4Q on ")


def test_a_diff_is_not_shown_of_what_may_not_be_logged(plays: Plays) -> None:
    (play,) = vgpu(vms=[{"name": "vm01"}, {"name": "vm02", "profile": "none"}], profile="4Q")
    play["tasks"][0]["no_log"] = True
    ran = plays.play([play], "--check", "--diff")
    assert ran.code == 2
    assert "+++ after" not in ran.out
