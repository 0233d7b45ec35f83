"""Where a MIG-backed vGPU is meant to be, in its VM's claim."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from tests.unit.core.model.test_domain_dumps import document
from tests.unit.stored_claims import stored_claims
from vgpumgr.core.model import claims


def in_instance(profile: str | None, start: int | None) -> claims.ClaimDocument:
    found = document()
    claim = found.claims[0]
    return found.put(replace(claim, binding=replace(claim.binding, mig_profile=profile, mig_start=start)))


def read(text: str) -> claims.ClaimDocument:
    found = claims.read(ET.fromstring(f"<domain><metadata>{text}</metadata></domain>"))
    assert found is not None
    return found


@pytest.mark.parametrize(("profile", "start"), [("2g.10gb", 0), ("1g.24gb+gfx", 9), (None, None)])
def test_the_instance_of_a_binding_is_read_as_it_was_written(profile: str | None, start: int | None) -> None:
    text = stored_claims(in_instance(profile, start))
    assert ("mig_" in text) == (profile is not None)
    binding = read(text).claims[0].binding
    assert (binding.mig_profile, binding.mig_start) == (profile, start)


@pytest.mark.parametrize(
    ("old", "new"),
    [(' mig_start="2"', ""), (' mig_profile="2g.10gb"', ""), ("2g.10gb", "../x"), ('mig_start="2"', 'mig_start="x"')],
)
def test_half_an_instance_or_one_of_no_name_makes_the_claim_unreadable(old: str, new: str) -> None:
    text = stored_claims(in_instance("2g.10gb", 2))
    assert old in text
    with pytest.raises(claims.UnreadableClaim):
        read(text.replace(old, new))
