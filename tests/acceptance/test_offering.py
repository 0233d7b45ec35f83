"""`capacity --catalogue`: sets of profiles are compared under the site's own requests, or openb's, and nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance import near
from tests.acceptance.command import vgpumgr

if TYPE_CHECKING:
    from tests.acceptance.near import Near

SETS = ("capacity", "--catalogue", "4Q,8Q,24Q", "--catalogue", "24Q")


def test_without_a_journal_openb_s_requests_count_and_then_what_was_attached(near_host: Near) -> None:
    shown = vgpumgr(near_host, *SETS).out
    assert "requests: as in the trace openb; nothing was attached in the last 4 weeks" in shown
    assert [line.split()[0] for line in shown.splitlines()[:3]] == ["SET", "4Q,8Q,24Q", "24Q"]
    before = near.document(near_host, *SETS)
    assert [one["gpus"] for one in before["catalogues"]] == [2, 2]
    vgpumgr(near_host, "attach", "vm01", "--profile", "4Q")
    vgpumgr(near_host, "attach", "vm02", "--profile", "48Q")
    shown = vgpumgr(near_host, *SETS, "--weeks", "6").out
    assert "requests: as attached in the last 6 weeks (2)" in shown
    found = near.document(near_host, *SETS)
    assert found["mix"] == {
        "source": "journal",
        "weeks": 4,
        "requests": [{"framebuffer_mib": 4096, "count": 1}, {"framebuffer_mib": 49152, "count": 1}],
    }
    fit, large = found["catalogues"]
    assert (fit["served_mib"], fit["stranded_pct"], fit["waste_pct"], fit["not_held_pct"]) == (
        49152,
        50,
        0,
        50,
    )  # six functions for each GPU
    assert (large["served_mib"], large["waste_pct"]) == (2 * 49152, 83.33)
    assert near.document(near_host, *SETS, "--weeks", "0")["catalogues"] == before["catalogues"]


def test_a_profile_that_no_gpu_takes_is_named_and_an_unread_host_is_an_error(near_fleet: Near) -> None:
    assert (
        "1-5C: no GPU takes it as it is divided now"
        in vgpumgr(near_fleet, "capacity", "--catalogue", "8Q,1-5C", "--on", "kvm01").out
    )
    unknown = vgpumgr(near_fleet, "capacity", "--catalogue", "8Q,1-5C,77Q", code=2)
    assert "error: no GPU of these 2 hosts has a profile '77Q'" in unknown.err
    near_fleet.dead.add("kvm02")
    vgpumgr(near_fleet, "capacity", "--catalogue", "77Q", code=4)
    assert [one["gpus"] for one in near.document(near_fleet, *SETS, code=4)["catalogues"]] == [2, 2]


@pytest.mark.parametrize("words", [("4Q",), ("--stranded",), ("--gpu", "0.5"), ("--count", "2"), ("--for", "team-a")])
def test_a_catalogue_stands_alone(near_host: Near, words: tuple[str, ...]) -> None:
    assert "--catalogue stands alone" in vgpumgr(near_host, *SETS, *words, code=2).err


@pytest.mark.parametrize("words", [("--weeks", "4"), ("--catalogue", "4q"), ("--catalogue", "4Q,")])
def test_weeks_without_a_set_and_what_is_no_profile_are_usage_errors(near_host: Near, words: tuple[str, ...]) -> None:
    vgpumgr(near_host, "capacity", *words, code=2)
