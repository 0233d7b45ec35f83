"""Rounds over simulated hosts: what the driver says is what is measured, and a bad host costs the others nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import loads
from tests.lab_fixtures import SMALL
from vgpumgr.controller import environment
from vgpumgr.controller.sampling import Sampler
from vgpumgr.core.usage.readings import OFF
from vgpumgr.inventory_files import reader
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory
    from vgpumgr.controller.context import Context
    from vgpumgr.core.usage.readings import Round

pytestmark = pytest.mark.lab

KVM01, KVM02 = HostName("kvm01"), HostName("kvm02")
HOSTS = {"vm01": KVM01, "vm02": KVM01, "vm31": KVM02}
TWENTY_GB = 20 * (1 << 30) + 4096


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Iterator[Lab]:
    """vm01 and vm31 run with a load, vm02 has a vGPU and is off."""
    with lab_factory.lend(SMALL, wiped=True) as lab:
        for vm, profile in (("vm01", "24Q"), ("vm02", "4Q"), ("vm31", "4C")):
            assert lab.run("attach", vm, "--profile", profile, "--on", HOSTS[vm]).returncode == 0
        load(lab, "vm01", "--sm", "60", "--encoder", "10", "--fb", str(TWENTY_GB))
        load(lab, "vm31", "--sm", "30", "--fb", "1G")
        loads.wait_for_tick()
        yield lab


def load(lab: Lab, vm: str, *what: str) -> None:
    lab.control(HOSTS[vm], "hold", vm=vm)
    done = lab.run("lab", "load", vm, *what)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def context(lab: Lab) -> Context:
    inventory = reader.load(Path(lab.env["VGPUMGR_INVENTORY"]), home=Path("/"), environ={})
    return environment.make_context(inventory, check=True, progress=lambda _: None, warn=lambda _: None)


def sampler(context: Context, *names: str, round_timeout_s: float = 30) -> Sampler:
    hosts = [host for name, host in context.inventory.hosts.items() if name in (names or (KVM01, KVM02))]
    return Sampler(context, hosts, round_timeout_s=round_timeout_s)


def by_host(rounds: tuple[Round, ...]) -> dict[str, Round]:
    return {each.host: each for each in rounds}


def test_a_host_that_hangs_is_late_and_the_others_are_not(lab: Lab, context: Context) -> None:
    """Late is ten times what a round over the healthy host takes on this machine just now."""
    with sampler(context, KVM01) as rounds:
        started = time.monotonic()
        rounds.round()
        late_s = 10 * (time.monotonic() - started)
    lab.control(KVM02, "fault", name="ssh-hang")
    try:
        with sampler(context, round_timeout_s=late_s) as rounds:
            found = by_host(rounds.round())
            assert found[KVM01].error is None
            assert found[KVM02].error in ("HostDeadline", "Unreachable")
            assert found[KVM02].failure is not None
            again = by_host(rounds.round())
            assert again[KVM01].measured[0].since_us == found[KVM01].measured[-1].until_us
    finally:
        lab.control(KVM02, "clear")


# The last one: it takes vm31's load with it.
def test_a_host_that_was_gone_is_read_again_as_soon_as_it_is_back(lab: Lab, context: Context) -> None:
    with sampler(context, KVM02) as rounds:
        assert rounds.round()[0].error is None
        lab.control(KVM02, "reboot")
        seen = [rounds.round()[0] for _ in range(2)]
        assert seen[-1].error is None
        assert seen[-1].measured == ()  # nothing runs after a reboot
        reading = seen[-1].reading
        assert reading is not None
        assert [vgpu.state for gpu in reading.gpus for vgpu in gpu.vgpus] == [OFF]
