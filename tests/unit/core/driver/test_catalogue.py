"""What is known of a board without a host: its types and their maxima, what a guest sees, and the ways to divide it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.core import builders
from vgpumgr import resources
from vgpumgr.core.driver import catalogue, mechanisms, profiles
from vgpumgr.core.driver.framebuffer import guest_at_least_mib
from vgpumgr.core.driver.known_types import KnownType, board_of, known_types
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.placing import fits
from vgpumgr.errors import UnknownProfile
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


# A board's types


def _one(board: str, name: str) -> KnownType:
    (found,) = [kind for kind in known_types(CATALOGUE, board) if kind.name == name]
    return found


def test_a_time_sliced_type_has_maxima_and_ids_of_both_modes() -> None:
    assert _one("A40", "A40-8Q") == KnownType(
        name="A40-8Q",
        board="A40",
        profile="8Q",
        series="Q",
        framebuffer_mib=8192,
        max=6,
        max_mixed=4,
        placements_equal=(0, 8, 16, 24, 32, 40),
        placements_mixed=(0, 16, 24, 40),
        mig_profile=None,
    )


def test_a_mig_backed_type_has_no_places_of_its_own() -> None:
    found = _one("A100", "A100-3-20C")
    assert (found.mig_profile, found.max) == ("3g.20gb", 2)
    assert (found.max_mixed, found.placements_equal, found.placements_mixed) == (None, None, None)


def test_a_board_without_mixed_size_mode_says_so_even_of_a_type_without_ids() -> None:
    found = _one("M10", "M10-0Q")
    assert (found.max, found.max_mixed, found.placements_equal, found.placements_mixed) == (16, 0, None, ())
    assert (_one("T4", "T4-4Q").max_mixed, _one("T4", "T4-4Q").placements_mixed) == (0, ())


def test_a_maximum_that_nobody_lists_is_computed() -> None:
    assert _one("RTXPRO6000", "DC-2B").max == 32
    assert _one("RTX8000P", "RTX8000P-4C").max == 8  # listed, and fewer than would fit


@pytest.mark.parametrize("board", ["a40", "NVIDIA A40", "nvidia a16"])
def test_a_board_is_named_by_its_code_or_its_name(board: str) -> None:
    assert {kind.board.lower() for kind in known_types(CATALOGUE, board)} == {board.lower().removeprefix("nvidia ")}


def test_without_a_board_all_types_are_there_each_once() -> None:
    found = known_types(CATALOGUE, None)
    assert len(found) == len(CATALOGUE.types)
    assert len({(kind.board, kind.name) for kind in found}) == len({(row.board, row.name) for row in CATALOGUE.types})


def test_an_unknown_board_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownProfile, match="no board 'A41'") as caught:
        known_types(CATALOGUE, "A41")
    assert "did you mean" not in (caught.value.hint or "")  # the A40 is another product
    with pytest.raises(UnknownProfile, match="no board 'L-40S'") as caught:
        known_types(CATALOGUE, "L-40S")
    assert "did you mean L40S?" in (caught.value.hint or "")


# What a guest sees of its framebuffer at least, beside what drivers really leave it


@pytest.mark.parametrize(
    ("board", "size", "maximum", "seen"),
    [
        ("T4", 16384, 1, 15268),
        ("A40", 49152, 1, 46016),
        ("L40", 49152, 1, 47104),
        ("L40", 1024, 32, 1024),
        ("L4", 1024, 24, 896),
    ],
)  # vgpuConfig.xml of R550
def test_a_guest_sees_at_least_what_we_say(board: str, size: int, maximum: int, seen: int) -> None:
    assert size * 0.8 < guest_at_least_mib(size, maximum=maximum, board=board) <= seen


def test_what_is_not_known_of_a_board_makes_it_less() -> None:
    known = guest_at_least_mib(4096, maximum=10, board="A100")
    assert guest_at_least_mib(4096, maximum=10, board=None) < known
    assert guest_at_least_mib(4096, maximum=None, board="A100") < known
    assert guest_at_least_mib(16, maximum=None, board=None) == 0


# The comparison of mechanisms, held against its page, which has the sources


PAGE = Path(__file__).parents[4] / "docs" / "ways-to-divide.md"


def test_the_page_about_mechanisms_says_what_the_table_says() -> None:
    """Each cell of docs/ways-to-divide.md, without its source; and each source that a cell names is listed."""
    page = PAGE.read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert rows[0][1:] == [one.name for one in mechanisms.MECHANISMS]
    fields = ("memory_wall", "compute_guarantee", "fault_isolation", "live_migration", "series")
    assert [row[0] for row in rows[1:]] == [
        "memory wall",
        "compute guarantee",
        "fault isolation",
        "live migration",
        "licence series",
    ]
    for field, row in zip(fields, rows[1:], strict=True):
        cells: list[str] = []
        for cell in row[1:]:
            plain = re.sub(r" \[\d\]", "", cell)
            cells.append(cells[-1] if plain == "the same" else plain)
        assert cells == [getattr(one, field) or "?" for one in mechanisms.MECHANISMS]
    listed = set(re.findall(r"^(\d+)\. ", page, re.MULTILINE))
    assert set(re.findall(r"\[(\d+)\]", page)) == listed


def test_a_board_is_found_by_what_people_call_it() -> None:
    """B200 is listed as B200X alone; A100 is a board of its own beside A100X."""
    assert [board_of(CATALOGUE, name) for name in ("B200", "b200x", "A100", "NVIDIA A40")] == [
        "B200X",
        "B200X",
        "A100",
        "A40",
    ]
