"""What was attached lately: on a host itself, or on all."""

from __future__ import annotations

from tests.unit.core import builders
from vgpumgr.core.model.attached import History


def test_a_host_s_own_attaches_count_or_if_there_are_none_those_of_all() -> None:
    history = History(by_host={"kvm01": {"8Q": 2, "4Q": 1}, "kvm02": {"8Q": 3}})
    assert history.on("kvm02") == {builders.wish("8Q"): 3}
    assert history.on("kvm03") == {builders.wish("4Q"): 1, builders.wish("8Q"): 5}
    assert History().on("kvm01") == {}
