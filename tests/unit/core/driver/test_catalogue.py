"""Maxima that the host does not tell come from the catalogue, by the type's name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core import builders
from vgpumgr import resources
from vgpumgr.core.driver import catalogue, profiles
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.plan import fits
from vgpumgr.link.values import snapshot_facts

CATALOGUE = catalogue.parse(resources.catalogue_text())


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("NVIDIA L40S-4Q", 12),
        ("NVIDIA L40S-3B", 16),  # its own row has none; 3Q and 3A say 16
        ("NVIDIA RTX Pro 6000 Blackwell DC-3Q", 32),
        ("NVIDIA RTX Pro 6000 Blackwell DC-3A", 32),
        ("GRID P40-4C", None),  # no row of compute types says it, and those of other series may be more
        ("NVIDIA A100-9-9C", None),
        ("NVIDIA B999-4Q", None),
    ],
)
def test_the_catalogue_says_how_many_of_a_type_a_gpu_takes(name: str, most: int | None) -> None:
    assert CATALOGUE.maximum(profiles.board_code(name), profiles.parse_type_name(name)) == most


def test_a_maximum_that_the_host_tells_is_the_hosts() -> None:
    vgpu_type = replace(builders.type_of(builders.gpu(), "4Q"), max=5)
    assert snapshot_facts.with_maximum(vgpu_type, CATALOGUE).max == 5
    assert snapshot_facts.with_maximum(replace(vgpu_type, max=None), CATALOGUE).max == 12


def test_without_nvml_what_is_left_on_a_vendor_vfio_gpu_is_what_the_card_holds() -> None:
    """Each of 32 free VFs offers one, and the card takes twelve."""
    view = builders.attached(builders.host_of(VENDOR_VFIO, gpus=1))
    silent = builders.change_gpus(
        view,
        lambda gpu: replace(
            gpu, types={key: replace(vgpu_type, max=None) for key, vgpu_type in (gpu.types or {}).items()}
        ),
    )
    facts = snapshot_facts.parse(builders.HOST, builders.facts_of(silent.snapshot), CATALOGUE)
    left = {fit.type.short: fit.left for fit in fits.fits(facts, facts.gpus[0])}
    assert left["4Q"] == 11
