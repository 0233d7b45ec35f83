"""Two or twelve at the same instant."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.crash.rig import check, held, must

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab


def test_two_attaches_of_one_vm_make_one_vgpu(rig: Rig) -> None:
    """Both end well, whoever comes first; the other finds it made."""
    for vm in ("a01", "a02", "a03", "a04"):
        both = [rig.attach(vm), rig.attach(vm)]
        for one in both:
            must(one)
        assert sorted("already has it" in one.out for one in both) == [False, True], [str(one) for one in both]
    check(rig, "vf01", dict.fromkeys(("a01", "a02", "a03", "a04"), "2Q"))


def test_two_wishes_for_one_slot_end_with_one_of_them(rig: Rig) -> None:
    """One gets it, the other is told of the conflict."""
    small, large = rig.attach("a01"), rig.attach("a01", profile="4Q")
    assert sorted((small.wait(), large.wait())) == [0, 5], f"{small}{large}"
    winner, loser = (small, large) if small.wait() == 0 else (large, small)
    assert "--replace" in loser.err, str(loser)
    check(rig, "vf01", {"a01": "2Q" if winner is small else "4Q"})


@pytest.mark.parametrize(("profile", "before"), [("48Q", 0), ("24Q", 1)], ids=["of-a-host", "of-a-card"])
def test_the_last_slot_goes_to_exactly_one(rig: Rig, profile: str, before: int) -> None:
    """The other ends 5 and says why; and when the first is freed, it gets it."""
    if before:
        must(rig.attach("c12", profile=profile))
    for _ in range(2):
        two = {"c01": rig.attach("c01", profile=profile), "c02": rig.attach("c02", profile=profile)}
        codes = {vm: one.wait() for vm, one in two.items()}
        assert sorted(codes.values()) == [0, 5], [str(one) for one in two.values()]
        first, second = sorted(codes, key=codes.__getitem__)
        assert "no GPU of vf03 can take" in two[second].err
        held = {"c12": profile} if before else {}
        check(rig, "vf03", {**held, first: profile})
        must(rig.detach(first))
        must(rig.attach(second, profile=profile))
        check(rig, "vf03", {**held, second: profile})
        must(rig.detach(second))


def test_twelve_vms_of_one_host_at_once_all_get_theirs(rig: Rig) -> None:
    vms = [f"b{number:02}" for number in range(1, 13)]
    for one in [rig.attach(vm, profile="4Q") for vm in vms]:
        must(one)
    check(rig, "vf02", dict.fromkeys(vms, "4Q"))
    for one in [rig.detach(vm) for vm in vms]:
        must(one)
    check(rig, "vf02", {})


def test_attach_and_detach_at_once_leave_the_vm_with_all_or_nothing(rig: Rig) -> None:
    """In whichever order they come by the lock."""
    for vm in ("a01", "a02", "a03"):
        attach, detach = rig.attach(vm), rig.detach(vm)
        must(attach)
        must(detach)
        kind = "2Q" if "Nothing to do" in detach.out or "no " in detach.out else None
        check(rig, "vf01", {vm: kind})
        must(rig.detach(vm))


def test_two_attaches_of_an_owner_never_pass_its_quota_together(rig: Rig, tmp_path: Path) -> None:
    """The other waits for its turn without a lock on any host, and then sees what the first was given."""
    inventory = tmp_path / "inventory"
    shutil.copytree(rig.lab.env["VGPUMGR_INVENTORY"], inventory)
    (inventory / "group_vars").mkdir()
    (inventory / "group_vars/all.yml").write_text("vgpumgr_owner: team-a\nvgpumgr_quota: {team-a: {vgpus: 1}}\n")
    own = {"VGPUMGR_INVENTORY": str(inventory)}
    with held(rig, "attach", "a01", at="before:put_claim", file=tmp_path / "hold", **own) as first:
        impatient = must(rig.attach("b01", "--timeout", "8", **own), 6)
        assert "another run is under way on this controller" in impatient.err
    must(first)
    assert "over its quota" in must(rig.attach("b01", **own), 5).err
    must(rig.detach("a01"))
    for _ in range(2):
        two = [rig.attach(vm, **own) for vm in ("a02", "b02")]
        assert sorted(one.wait() for one in two) == [0, 5], [str(one) for one in two]
        for vm in ("a02", "b02"):
            must(rig.detach(vm))
    check(rig, "vf01", {})
    check(rig, "vf02", {})
