"""A declared layout that a GPU does not have is counted as what it is, and never as wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance import near
from tests.acceptance.near import document

if TYPE_CHECKING:
    from tests.acceptance.near import Near, Sites

GPU = "0000:41:00.0"


@pytest.fixture
def divided(near_site: Sites) -> Near:
    return near_site({"kvm01": near.NearHost(vms=("vm01",), board="A100", in_mig=True)})


def declare(host: Near, *instances: str, **more: str) -> None:
    host.declare("kvm01", vgpumgr_gpus={GPU: {"instances": list(instances), **more}})


def test_instances_are_counted_and_what_finds_no_room_is_refused_beside_them(divided: Near) -> None:
    declare(divided, "3g.20gb", "1g.5gb")
    assert "Plan: 0 to create, 0 to destroy, 2 instances to create.\n" in divided.run("plan").stdout
    divided.run("reconcile", "--yes")
    assert "1 host: 1 layout in sync." in divided.run("plan").stdout
    document(divided, "attach", "vm01", "--mig-profile", "3g.20gb")
    declare(divided, "4g.20gb", "4g.20gb", "1g.5gb", "1g.5gb")
    assert "1 instance to create" in divided.run("plan").stdout
    for _ in range(2):
        done = divided.run("reconcile", "--yes")
        assert done.returncode == 5
        assert f"GPU {GPU} of kvm01 has no room for 2 x 4g.20gb (host_vars/kvm01.yml:1)" in done.stderr
        assert "1 refused (1 no capacity)" in done.stdout
    declare(divided, "7g.40gb")
    document(divided, "detach", "vm01", "--yes")
    assert "1 instance to create, 3 to remove" in divided.run("plan").stdout


def test_a_layout_waits_for_the_mode_that_is_declared_and_is_refused_without_one(near_site: Sites) -> None:
    """The mode needs a reset on this board, which reconcile never makes."""
    sliced = near_site({"kvm01": near.NearHost(vms=("vm01",), board="A100", in_mig=False)})
    declare(sliced, "3g.20gb", mode="mig")
    done = sliced.run("plan")
    assert done.returncode == 5
    assert "waits until its GPU is in MIG mode" in done.stderr
    assert "1 waiting, 1 refused" in done.stdout
    declare(sliced, "3g.20gb")
    done = sliced.run("plan")
    assert done.returncode == 5
    assert "has no GPU instances" in done.stderr
    assert "declare mode: mig" in done.stderr
