"""NVIDIA's published layouts of MIG GPUs are possible in our geometry, and the vGPU types in them are in our list."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One part of a named layout: how many of each profile the devices of a filter get; `devices` () where there is no filter."""

    file: str
    name: str
    devices: tuple[str, ...]
    wanted: Mapping[str, int]


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
                devices = tuple(one.removeprefix("0x").removesuffix("10DE") for one in filters)
                yield Layout(file=file.name, name=name, devices=devices, wanted=part.get(counts) or {})


def _boards_of_devices() -> Mapping[str, set[str]]:
    """The codes of the boards of a PCI device id, as the list of vGPU types has them."""
    found: dict[str, set[str]] = {}
    for row in csv.DictReader(resources.catalogue_text().splitlines()):
        found.setdefault(row["pci_device_id"], set()).add(profiles.board_code(f"{row['gpu']} {row['type_name']}"))
    return found


DEVICES = _boards_of_devices()


def _is_possible(layout: Layout, board: str) -> bool:
    wanted = [BOARDS[board][name] for name, count in layout.wanted.items() for _ in range(count)]
    return not isinstance(mig.arrange(wanted), Blocked)


def test_a_published_layout_is_possible_on_the_boards_that_it_is_for() -> None:
    """On those of its filter; without one, on some of those that have its profiles. Of a few boards our list has nothing."""
    tried = 0
    for layout in _layouts("mig-parted", "mig-configs", "mig-devices"):
        boards = {board for board, found in BOARDS.items() if set(layout.wanted) <= set(found)}
        if layout.devices:
            boards &= {board for device in layout.devices for board in DEVICES.get(device, ())}
        if layout.wanted and boards:
            tried += 1
            possible = {board for board in boards if _is_possible(layout, board)}
            assert possible == boards if layout.devices else possible, layout
    assert tried == 169


ROWS_OF_NAME: Final[defaultdict[str, list[CatalogueType]]] = defaultdict(list)
for _row in CATALOGUE.types:
    ROWS_OF_NAME[_row.name.text].append(_row)


def _capacity(row: CatalogueType) -> int:
    """How many of a MIG-backed type fit, in as many instances as a board takes of those in which the type lives."""
    profile = mig.profile_of_type(CATALOGUE, row.board, row.name)
    assert profile is not None
    return profile.memory_mib // 1024 // row.name.size_gb * mig.capacity(profile, ())


def test_a_published_vgpu_type_is_in_our_list_for_the_board_of_its_filter_and_as_many_fit() -> None:
    """GFX in a name says that the instance has graphics; the driver's own types have no such ending."""
    found = [*_layouts("vgpu-device-manager", "vgpu-configs", "vgpu-devices")]
    for layout in found:
        ((written, count),) = layout.wanted.items()
        rows = ROWS_OF_NAME[written.removesuffix("GFX")]  # of two boards where both have the code DC
        boards = {row.board for row in rows}
        assert boards, written
        assert all(DEVICES.get(device, boards) & boards for device in layout.devices), layout
        assert rows[0].name.slices is None or count in {_capacity(row) for row in rows}, layout
    assert len(found) == 777
