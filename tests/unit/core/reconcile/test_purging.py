"""Which boot file is ours alone, and in which order files go."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.core.driver import modprobe
from vgpumgr.core.driver.modprobe import OUR_PATH, ModprobeFile
from vgpumgr.core.reconcile import purging
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView

GPUS = [PciAddress(f"0000:{bus:02x}:00.0") for bus in (0x41, 0x81, 0xC1)]


class _View:
    """Of a host, only the boot files."""

    def __init__(self, *files: ModprobeFile) -> None:
        self.snapshot = self
        self.modprobe = files


def found(*files: ModprobeFile) -> ModprobeFile | None:
    return purging.boot_file(cast("HostView", _View(*files)))


@given(st.lists(st.tuples(st.sampled_from(GPUS), st.integers(0, 2**32 - 1)), min_size=1, max_size=6))
def test_whatever_scheduler_set_writes_into_a_file_of_its_own_is_ours(settings: list[tuple[PciAddress, int]]) -> None:
    files: tuple[ModprobeFile, ...] = ()
    for gpu, value in settings:
        edit = modprobe.merge(files, gpu, value)
        assert edit.text is not None
        files = (ModprobeFile(path=edit.path, text=edit.text),)
    assert found(*files) == files[0]


@pytest.mark.parametrize(
    "line",
    ["options nvidia NVreg_EnableMSI=1", 'options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;Other=1"'],
)
def test_a_file_with_somebody_elses_option_is_not(line: str) -> None:
    edit = modprobe.merge((), GPUS[0], 1)
    assert found(ModprobeFile(path=OUR_PATH, text=f"{edit.text}{line}\n")) is None
    assert found(ModprobeFile(path="/etc/modprobe.d/nvidia.conf", text=f"{edit.text}")) is None


def test_the_boot_file_goes_first_and_the_ledger_later() -> None:
    boot = ModprobeFile(path=OUR_PATH, text="")
    assert purging.in_order(("/var/lib/vgpumgr/ledger.json",), boot) == (OUR_PATH, "/var/lib/vgpumgr/ledger.json")
    assert purging.in_order((), None) == ()
