"""The connection cut at each piece of the conversation: closed, reset, or frozen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.crash.proxy import CLOSE, FREEZE, RESET, Proxy, inventory_through
from tests.crash.rig import HALTED, HOSTS, check, host_of, must
from tests.dose import dose
from vgpumgr.host.protocol.session import LEASE_S
from vgpumgr.lab import fleet

if TYPE_CHECKING:
    from pathlib import Path

    from tests.controllers import Controller
    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab

CUTS = dose(3, 10)  # on each host
_TIMEOUT = "3"  # seconds, of each stage of a conversation that is cut


def through(rig: Rig, proxy: Proxy, vm: str, folder: Path, *options: str) -> Controller:
    return rig.attach(vm, *options, **inventory_through(rig.lab, host_of(vm), proxy, folder / vm))


def port_of(rig: Rig, vm: str) -> int:
    port = fleet.read(rig.lab.layout).host(host_of(vm)).port
    assert port is not None
    return port


def test_connection_cut_at_each_piece(rig: Rig, tmp_path: Path) -> None:
    """Each controller ends within its deadlines and clearly; the same command directly afterwards, without waiting for a
    lease to run out, ends well. The cuts are spread over the whole conversation, on each host shifted by a little.
    """
    happened = []

    def attach(vm: str, cut_after: int, how: str) -> None:
        with Proxy(port_of(rig, vm), cut_after=cut_after, how=how) as proxy:
            one = through(rig, proxy, vm, tmp_path, "--timeout", _TIMEOUT)
            must(one, 0, *HALTED)
            assert one.seconds < LEASE_S, f"{how} after {cut_after}: {one}"
            happened.append(proxy.cut.is_set())
        again = must(rig.attach(vm))
        assert again.seconds < LEASE_S, f"{how} after {cut_after}: {again}"

    def story(letter: str) -> None:
        with Proxy(port_of(rig, letter + "01")) as whole:
            must(through(rig, whole, letter + "01", tmp_path / "whole"))
        rig.wipe(HOSTS[letter])
        vms = [f"{letter}{number:02}" for number in range(1, CUTS + 1)]
        shift = list(HOSTS).index(letter)
        for number, vm in enumerate(vms):
            cut_after = int(whole.pieces * (number + shift / len(HOSTS)) / CUTS)
            attach(vm, cut_after, (CLOSE, RESET, FREEZE)[(number + shift) % 3])
        check(rig, HOSTS[letter], dict.fromkeys(vms, "2Q"))

    with ThreadPoolExecutor(len(HOSTS)) as pool:
        list(pool.map(story, HOSTS))
    assert sum(happened) >= CUTS * len(HOSTS) * 0.7  # how many pieces there are differs a little from run to run
