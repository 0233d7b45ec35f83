"""A lab of each module's own, in whose inventory the VMs are hosts beside the hypervisors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.collection.plays.plays import Plays, link_collection
from tests.lab_fixtures import SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import LabFactory

VMS = """
vms:
  children:
    graphics: {hosts: {"vm[01:03]": }, vars: {wanted: 4Q}}
    compute: {hosts: {"vm[31:33]": }, vars: {wanted: 4C}}
"""


@pytest.fixture(scope="module")
def plays(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plays]:
    """kvm01 with two A40 and vm01 to vm30, kvm02 with an A100 and vm31 to vm36."""
    lab = lab_factory(SMALL, shared=False)
    (lab.layout.inventory / "vms.yml").write_text(VMS, encoding="utf-8")
    folder = tmp_path_factory.mktemp("plays")
    yield Plays(lab=lab, collections=link_collection(folder / "collections"), folder=folder)
    lab.down()
