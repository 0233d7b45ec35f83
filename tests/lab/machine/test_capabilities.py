"""What QEMU told one host's libvirtd serves the next host, as long as libvirt finds it still true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab_fixtures import ONE
from vgpumgr.lab import fleet
from vgpumgr.lab.nvml.build import build

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_fixtures import LabFactory

pytestmark = pytest.mark.lab

HOST = "kvm01"
THERE = "/var/cache/libvirt/qemu/capabilities"
MARK = "<!-- as it was kept -->\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it but the NVML library, which takes long to compile."""
    library = build(fleet._cache_folder()).parent
    place = tmp_path / "vgpumgr/lab"
    place.mkdir(parents=True)
    (place / library.name).symlink_to(library)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return place / "qemu"


def answer_on_a_new_host(lab_factory: LabFactory) -> str:
    """What its libvirtd has, once it has started and its VMs are defined; libvirtd writes it only where it asked QEMU."""
    lab = lab_factory(ONE, shared=False)
    found = lab.must(HOST, f"cat {THERE}/*.xml")
    assert "vm01" in lab.must(HOST, "virsh list --all --name")
    lab.down()
    return found


def test_a_host_asks_qemu_only_where_no_kept_answer_holds_and_a_broken_one_does_no_harm(
    lab_factory: LabFactory, cache: Path
) -> None:
    first = answer_on_a_new_host(lab_factory)
    (kept,) = cache.iterdir()
    assert kept.read_text(encoding="utf-8") == first

    kept.write_text(first + MARK, encoding="utf-8")
    assert answer_on_a_new_host(lab_factory) == first + MARK, "QEMU was asked again"

    kept.write_text(first[:1000], encoding="utf-8")
    assert answer_on_a_new_host(lab_factory) == first, "a broken answer kept the host from coming up"
