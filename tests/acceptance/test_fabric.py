"""A whole GPU on an NVSwitch fabric waits for Fabric Manager: that is told where it is made, and where Fabric Manager is not set up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.near import NearHost, document
from vgpumgr.host.protocol.gpu import VENDOR_VFIO
from vgpumgr.lab.spec import FabricSpec

if TYPE_CHECKING:
    from tests.acceptance.near import Near, Sites

SET_UP = FabricSpec(switches=4, manager="running", mode=2)


def hgx(fabric: FabricSpec | None, board: str = "H200X") -> dict[str, NearHost]:
    return {"kvm01": NearHost(vms=("vm01", "vm02"), board=board, framework=VENDOR_VFIO, fabric=fabric)}


@pytest.fixture
def host(request: pytest.FixtureRequest, near_site: Sites) -> Near:
    return near_site(request.param)


def on(*hosts: dict[str, NearHost]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("host", hosts, indirect=True)


def told(answer: dict[str, object]) -> list[str]:
    found = answer["findings"]
    assert isinstance(found, list)
    return [one["text"] for one in found if one["kind"] == "fabric"]


@on(hgx(SET_UP), hgx(FabricSpec(manager="running", mode=2)), hgx(SET_UP, board="A100X"))
def test_a_whole_gpu_waits_for_its_partition_and_a_part_of_one_does_not(host: Near) -> None:
    types = document(host, "discover")["hosts"][0]["gpus"][0]["types"]
    sliced = {one["max"]: one["name"] for one in types if one["name"].count("-") == 1 and one["name"].endswith("C")}
    largest, half = sliced[1], sliced[2]
    (said,) = told(document(host, "attach", "vm01", "--profile", largest, "--check", code=3))
    assert "802" in said
    assert "activated the partition of 0000:41:00.4, before each start" in said
    assert said.endswith("Fabric Manager on kvm01 runs in vGPU mode (FABRIC_MODE=2)")
    assert told(document(host, "attach", "vm01", "--profile", largest)) == [said]
    assert told(document(host, "list")) == [], "where Fabric Manager is set up, nothing is wrong with the host"
    assert told(document(host, "attach", "vm02", "--profile", half)) == []


@on(hgx(SET_UP))
def test_several_gpus_of_a_vm_need_the_partition_of_just_these(host: Near) -> None:
    host.declare("kvm01", vgpumgr_vms={"vm01": {"vgpu0": {"profile": "141C"}, "vgpu1": {"profile": "141C"}}})
    assert sum("exactly the 2 GPUs that vm01 has" in one for one in told(document(host, "plan", code=3))) == 1
    texts = told(document(host, "attach", "vm02", "--profile", "141C", "--count", "2"))
    assert ["exactly the 2 GPUs" in one for one in texts] == [False, True]
