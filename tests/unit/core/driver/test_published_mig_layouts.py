"""NVIDIA's published layouts of MIG GPUs are possible in our geometry, and the vGPU types in them are in our list.

What we do not know is in a list here, by name, and the counts say that nothing else was passed over.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from vgpumgr import resources
from vgpumgr.core.driver import catalogue, mig, profiles
from vgpumgr.core.driver.mig import Blocked, InstanceProfile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vgpumgr.core.driver.catalogue import CatalogueType

CASES = Path(__file__).resolve().parents[3] / "cases/mig"
CATALOGUE = catalogue.parse(resources.catalogue_text())
BOARDS: Final[Mapping[str, Mapping[str, InstanceProfile]]] = {
    board: {one.name: one for one in found}
    for board in sorted(CATALOGUE.boards)
    if (found := mig.board_profiles(CATALOGUE, board)) is not None
}

# PCI device ids that no row of our list has.
UNKNOWN_DEVICES: Final = {
    "1FB0": "the DGX Station's display adapter, without MIG",
    "20B1": "an A100 PCIe 40GB that the list of vGPU types does not have",
    "20B6": "PG506-96GB, of which no vGPU type is known",
    "20B8": "a relative of 20B5 (A100 80GB)",
    "20B9": "a relative of 20B7 (A30)",
    "20FD": "a relative of 20F5 (A800 80GB)",
    "2336": "a relative of 2330 (H100 SXM5)",
    "233D": "H100 96GB, of which no vGPU type is known",
    "31C2": "GB300, of which no vGPU type is known",
}

# Names of profiles that no board of ours has, with those whose place in the geometry they have to have.
LIKE_GB200: Final = {  # GB200 in the names of another driver: 186 GB instead of 189
    "1g.23gb": "1g.24gb",
    "2g.47gb": "2g.47gb",
    "3g.93gb": "3g.95gb",
    "4g.93gb": "4g.95gb",
    "7g.186gb": "7g.189gb",
}
LIKE_A100: Final = {  # GB300's: a GPU with seven slices, as A100 is one
    "1g.35gb": "1g.5gb",
    "1g.35gb+me": "1g.5gb+me",
    "1g.70gb": "1g.10gb",
    "2g.70gb": "2g.10gb",
    "3g.139gb": "3g.20gb",
    "4g.139gb": "4g.20gb",
    "7g.278gb": "7g.40gb",
}
LIKE: Final[Mapping[str, Mapping[str, str]]] = {"GB200": LIKE_GB200, "A100": LIKE_A100}
# Boards of ours that are in none of mig-parted's files.
UNSEEN: Final = {"H100XS", "6000D", "RTXPRO4500"}
HOPPER_AND_LATER: Final = "nvidia-mig-manager-example-hopper-blackwell.yaml"
"""A file whose layouts without a filter are not for Ampere: 1g.10gb is 7 on 80 GB and 4 on an A100 40GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One part of a named layout: how many of each profile the devices of a filter get; `devices` () where there is no filter."""

    file: str
    name: str
    devices: tuple[str, ...]
    wanted: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.file}:{self.name}:{'+'.join(self.devices) or 'all'}"


def _configs(text: str, key: str) -> Mapping[str, Any]:
    """The layouts of a file: a configuration by itself, or in a ConfigMap of Kubernetes."""
    for document in yaml.safe_load_all(text):
        for one in (document, *map(yaml.safe_load, ((document or {}).get("data") or {}).values())):
            if isinstance(one, dict) and key in one:
                found: Mapping[str, Any] = one[key]
                return found
    raise AssertionError(f"no {key}")


def _layouts(folder: str, key: str, counts: str) -> Iterator[Layout]:
    for file in sorted((CASES / folder).glob("*.yaml")):
        for name, parts in _configs(file.read_text(encoding="utf-8"), key).items():
            for part in parts:
                filters = part.get("device-filter", [])
                filters = [filters] if isinstance(filters, str) else filters
                assert all(one.endswith("10DE") for one in filters)
                devices = tuple(one.removeprefix("0x").removesuffix("10DE") for one in filters)
                yield Layout(file=file.name, name=name, devices=devices, wanted=part.get(counts) or {})


def _boards_of_devices() -> Mapping[str, set[str]]:
    """The codes of the boards of a PCI device id, as the list of vGPU types has them."""
    found: dict[str, set[str]] = {}
    for row in csv.DictReader(resources.catalogue_text().splitlines()):
        found.setdefault(row["pci_device_id"], set()).add(profiles.board_code(f"{row['gpu']} {row['type_name']}"))
    return found


DEVICES = _boards_of_devices()
MIG_PARTED = [*_layouts("mig-parted", "mig-configs", "mig-devices")]
VGPU_DEVICE_MANAGER = [*_layouts("vgpu-device-manager", "vgpu-configs", "vgpu-devices")]


def _held_against(layout: Layout) -> list[tuple[str, Mapping[str, str]]]:
    """The boards on which it is to be possible, with our names for profiles that we do not know; of an unknown device those that have its profiles."""
    names = set(layout.wanted)
    known = sorted({board for device in layout.devices for board in DEVICES.get(device, ())} & set(BOARDS))
    if known:
        return [(board, {} if names <= set(BOARDS[board]) else LIKE[board]) for board in known]
    boards = [board for board, found in BOARDS.items() if names <= set(found) and "31C2" not in layout.devices]
    if layout.file == HOPPER_AND_LATER:
        boards = [board for board in boards if not board.startswith("A")]
    return [(board, {}) for board in boards] or [(board, like) for board, like in LIKE.items() if names <= set(like)][
        :1
    ]


@pytest.mark.parametrize("layout", [layout for layout in MIG_PARTED if layout.wanted], ids=str)
def test_a_published_layout_is_possible_on_each_board_that_it_is_for(layout: Layout) -> None:
    """On the boards of its filter; without one, on each board that has all its profiles."""
    boards = _held_against(layout)
    assert boards
    for board, like in boards:
        wanted = [BOARDS[board][like.get(name, name)] for name, count in layout.wanted.items() for _ in range(count)]
        assert not isinstance(mig.arrange(wanted), Blocked), board


def test_no_published_layout_is_passed_over() -> None:
    """By file: those with instances, each of which is tried above, and those that only turn MIG on or off."""
    assert Counter((layout.file, bool(layout.wanted)) for layout in MIG_PARTED) == {
        ("config-default.yaml", True): 92,
        ("config-default.yaml", False): 2,
        ("config.yaml", True): 10,
        ("config.yaml", False): 3,
        ("dgx-station-80gb-config.yaml", True): 9,
        ("dgx-station-80gb-config.yaml", False): 12,
        (HOPPER_AND_LATER, True): 56,
        (HOPPER_AND_LATER, False): 1,
        ("nvidia-mig-manager-example.yaml", True): 27,
        ("nvidia-mig-manager-example.yaml", False): 1,
    }


def test_boards_without_a_published_layout_are_known_by_name() -> None:
    seen = {board for layout in MIG_PARTED if layout.wanted for board, _ in _held_against(layout)}
    assert set(BOARDS) - seen == UNSEEN


def test_the_lists_of_what_we_do_not_know_are_exact() -> None:
    devices = {device for layout in (*MIG_PARTED, *VGPU_DEVICE_MANAGER) for device in layout.devices}
    assert devices - set(DEVICES) == set(UNKNOWN_DEVICES)
    named = {name for layout in MIG_PARTED for name in layout.wanted}
    known = {name for found in BOARDS.values() for name in found}
    assert named - known == {name for like in LIKE.values() for name in like} - known


# vGPU types


def _without_gfx(name: str) -> str:
    """vgpu-device-manager adds GFX to say that the instance has graphics; the driver's own types have no such ending."""
    return name.removesuffix("GFX")


ROWS_OF_NAME: Final[defaultdict[str, list[CatalogueType]]] = defaultdict(list)
for _row in CATALOGUE.types:
    ROWS_OF_NAME[_row.name.text].append(_row)


def _rows(layout: Layout) -> list[CatalogueType]:
    """The rows of our list for the one type of a layout: two boards have code DC."""
    (written,) = layout.wanted
    return ROWS_OF_NAME.get(_without_gfx(written), [])


def test_a_published_vgpu_type_is_in_our_list_for_the_board_of_its_filter() -> None:
    for layout in VGPU_DEVICE_MANAGER:
        (written,) = layout.wanted
        assert (profiles.parse_type_name(written).suffix == "GFX") == (written != _without_gfx(written))
        boards = {row.board for row in _rows(layout)}
        assert boards, written
        assert all(DEVICES[device] & boards for device in layout.devices if device not in UNKNOWN_DEVICES), layout


@pytest.mark.parametrize(
    "layout",
    [one for one in VGPU_DEVICE_MANAGER if _rows(one)[0].name.slices is not None],
    ids=lambda one: "+".join(one.wanted),
)
def test_as_many_of_a_mig_backed_type_as_published_fit_and_no_more(layout: Layout) -> None:
    """In as many GPU instances as a board takes of those in which the type lives."""
    found = []
    for row in _rows(layout):
        profile = mig.profile_of_type(CATALOGUE, row.board, row.name)
        assert profile is not None
        found.append(profile.memory_mib // 1024 // row.name.size_gb * mig.capacity(profile, ()))
    (count,) = layout.wanted.values()
    assert count in found


def test_every_published_vgpu_type_was_held_against_the_list() -> None:
    named = Counter(
        (
            "default" if layout.devices else "MIG-backed" if profiles.parse_type_name(name).slices else "time-sliced",
            name.endswith("GFX"),
        )
        for layout in VGPU_DEVICE_MANAGER
        for name in layout.wanted
    )
    assert named == {
        ("default", False): 56,
        ("MIG-backed", False): 209,
        ("MIG-backed", True): 30,
        ("time-sliced", False): 482,
    }
