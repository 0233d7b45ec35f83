"""A host that says what nobody foresaw is a failed round of its own, and the others are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.model.fleet import Fleet
from tests.model.pool import Pool
from vgpumgr.controller import sampling
from vgpumgr.host.protocol import MDEV_VF
from vgpumgr.link.values import sampling_facts

if TYPE_CHECKING:
    import pytest

    from vgpumgr.core.usage.readings import HostReading
    from vgpumgr.names import HostName


def test_what_nobody_foresaw_at_one_host_is_its_failed_round(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sampling_facts.parse

    def odd(host: HostName, facts: Any) -> HostReading:
        if host == "kvm02":
            raise ZeroDivisionError("odd")
        return real(host, facts)

    monkeypatch.setattr(sampling_facts, "parse", odd)
    pool = Pool()
    with pool:
        fleet = Fleet.install(
            {host: pool.machine(host, MDEV_VF) for host in ("kvm01", "kvm02")}, {"kvm01": 1, "kvm02": 1}
        )
        context = fleet.context(None, [], by="cron@ctl1")
        with sampling.Sampler(context, list(context.inventory.hosts.values())) as sampler:
            first, second = sampler.round()
    assert (first.error, second.error) == (None, "Unexpected")
    assert "kvm02: unexpected ZeroDivisionError: odd" in str(second.failure)
