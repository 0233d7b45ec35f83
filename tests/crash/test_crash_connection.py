"""The connection cut at each piece of the conversation: closed, reset, or frozen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.crash.proxy import CLOSE, FREEZE, RESET, Proxy, inventory_through
from tests.crash.rig import HALTED, HOSTS, check, host_of, must
from vgpumgr.host.protocol import LEASE_S
from vgpumgr.lab import fleet

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.controllers import Controller
    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab

CUTS = 50
_TIMEOUT = "3"  # seconds, of each stage


def through(rig: Rig, proxy: Proxy, vm: str, folder: Path) -> Controller:
    env = inventory_through(rig.lab, host_of(vm), proxy, folder / vm)
    return rig.attach(vm, "--timeout", _TIMEOUT, **env)


def port_of(rig: Rig, vm: str) -> int:
    port = fleet.read(rig.lab.layout).host(host_of(vm)).port
    assert port is not None
    return port


def test_connection_cut_at_each_piece(rig: Rig, tmp_path: Path) -> None:
    """Each controller ends within its deadlines and clearly; the same command directly afterwards, without waiting for a
    lease to run out, ends well.
    """
    with Proxy(port_of(rig, "a01")) as whole:
        must(through(rig, whole, "a01", tmp_path / "whole"))
    rig.wipe("vf01")
    vms = [f"{letter}{number:02}" for number in range(1, 11) for letter in HOSTS]
    # Spread over the conversation, ends included; every way of cutting at nearly every place.
    cuts = {vm: round(number * (whole.pieces - 1) / (CUTS - 1)) for number, vm in enumerate(vms)}
    happened = []

    def attach(vm: str) -> None:
        how = (CLOSE, RESET, FREEZE)[vms.index(vm) % 3]
        with Proxy(port_of(rig, vm), cut_after=cuts[vm], how=how) as proxy:
            one = through(rig, proxy, vm, tmp_path)
            must(one, 0, *HALTED)
            assert one.seconds < LEASE_S, f"{how} after {cuts[vm]}: {one}"
            happened.append(proxy.cut.is_set())
        again = must(rig.attach(vm))
        assert again.seconds < LEASE_S, f"{how} after {cuts[vm]}: {again}"

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(attach, vms))
    assert sum(happened) > CUTS * 0.8
    for host in HOSTS.values():
        check(rig, host, {vm: "2Q" for vm in vms if host_of(vm) == host})
