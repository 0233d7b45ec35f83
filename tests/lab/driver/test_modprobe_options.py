"""What modprobe makes of the files in /etc/modprobe.d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vgpumgr.lab.driver import modprobe
from vgpumgr.lab.driver.model import ModuleOptions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "registry_dwords"),
    [
        ("options nvidia NVreg_RegistryDwords=RmPVMRL=0x01", "RmPVMRL=0x01"),
        ('options nvidia NVreg_RegistryDwords="RmPVMRL=0x01;A=2"', "RmPVMRL=0x01;A=2"),
        ('options nvidia "NVreg_RegistryDwords=RmPVMRL=0x01;A=2"', "RmPVMRL=0x01;A=2"),
        ('\toptions  nvidia\tNVreg_X=1 NVreg_RegistryDwords="A=1; B=2" NVreg_Y=2', "A=1; B=2"),
        ("options nvidia NVreg_X=1 \\\n  NVreg_RegistryDwords=A=1", "A=1"),
        ("options nvidia NVreg_RegistryDwords=A=1\noptions nvidia NVreg_RegistryDwords=B=2", "B=2"),
        ("options nvidia NVreg_RegistryDwords=A=1 NVreg_RegistryDwords=B=2", "B=2"),
        ("# options nvidia NVreg_RegistryDwords=A=1", ""),
        ("options nvidia_drm NVreg_RegistryDwords=A=1", ""),
        ("option nvidia NVreg_RegistryDwords=A=1", ""),
        ("options nvidia", ""),
        ("", ""),
    ],
)
def test_the_last_value_of_the_module_s_own_option_counts(text: str, registry_dwords: str) -> None:
    assert modprobe.parse([text]) == ModuleOptions(registry_dwords=registry_dwords)


def test_files_count_in_the_order_of_their_names_and_only_conf_files_do(tmp_path: Path) -> None:
    line = "options nvidia NVreg_RegistryDwords={} NVreg_RegistryDwordsPerDevice=pci=0000:41:00.0;{}\n"
    for name, word in (("b.conf", "B=2"), ("a.conf", "A=1"), ("c.conf.bak", "C=3")):
        (tmp_path / name).write_text(line.format(word, word), encoding="utf-8")
    (tmp_path / "z.conf").symlink_to(tmp_path / "c.conf.bak")
    wanted = ModuleOptions(registry_dwords="B=2", registry_dwords_per_device="pci=0000:41:00.0;B=2")
    assert modprobe.read(tmp_path) == wanted
    assert modprobe.read(tmp_path / "missing") == ModuleOptions()
