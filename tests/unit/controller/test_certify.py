"""certify where there is nothing to ask; what it asks is played in tests/acceptance/test_certify.py and in tests/lab."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core import builders
from vgpumgr import errors
from vgpumgr.controller import certify
from vgpumgr.core.certify.capture import Capture

FACTS = builders.host(builders.gpu(vfs=2), vms=0).snapshot


def capture(*, gpus: bool = True, framework: bool = True) -> Capture:
    found = FACTS.gpus if gpus else ()
    facts = replace(
        FACTS,
        gpus=found if framework else tuple(replace(one, framework=None, problem="SR-IOV is off") for one in found),
    )
    return Capture(snapshot=facts, host={}, functions=(), calls=(), raw={})


def test_a_host_without_a_gpu_says_so() -> None:
    with pytest.raises(errors.NotReady, match="kvm01 has no NVIDIA GPU") as raised:
        certify._chosen(capture(gpus=False), None)
    assert "vgpumgr doctor kvm01" in str(raised.value.hint)


def test_a_host_whose_gpus_offer_nothing_says_why() -> None:
    with pytest.raises(errors.NotReady) as raised:
        certify._chosen(capture(framework=False), None)
    assert raised.value.details == ("0000:41:00.0: SR-IOV is off",)


def test_one_gpu_is_chosen_by_address_or_uuid() -> None:
    [gpu] = FACTS.gpus
    for name in (None, gpu.pci, gpu.uuid):
        assert certify._chosen(capture(), name) == (gpu,)
    with pytest.raises(errors.UnknownGpu, match="has no GPU 0000:42"):
        certify._chosen(capture(), "0000:42:00.0")
