"""The contract against real kernels: each row that is not the lab's alone, and then that no answer differs from the lab's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernel import image
from tests.kernel.contract import play
from tests.kernel.contract.places import SPEC
from tests.kernel.contract.table import ROWS
from tests.kernel.contract.target import KernelTarget, LabTarget
from tests.kernel.marks import each_commit
from tests.kernel.release import RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kernel.contract.row import Row
    from tests.kernel.vm import Vm
    from tests.lab_fixtures import LabFactory

pytestmark = [pytest.mark.kernel, each_commit(*RELEASES)]
_IN_BOTH = [row for row in ROWS if row.only is None]


@pytest.fixture(scope="module")
def record() -> play.Record:
    return play.Record()


@pytest.fixture(scope="module")
def host(shared_vm: Vm) -> Iterator[KernelTarget]:
    """One connection for all rows: a login costs more than a row."""
    shared_vm.reset()
    target = KernelTarget(shared_vm)
    yield target
    target.close()


@pytest.mark.parametrize("row", play.for_kernel(ROWS), ids=lambda row: row.name)
def test_the_kernel_keeps_the_contract(row: Row, host: KernelTarget, record: play.Record) -> None:
    play.play(row, host, record)


def test_no_answer_of_the_kernel_differs_from_the_lab_s_without_an_explanation(
    host: KernelTarget, record: play.Record, lab_factory: LabFactory, record_property: Callable[[str, object], None]
) -> None:
    lab = LabTarget(
        lab_factory(SPEC, shared=False)
    )  # the other host VM's may run in this process as well, and its VMs have the devices
    try:
        for row in _IN_BOTH:
            play.play(row, lab, record)
            if row.name not in record.played.get(host.name, {}):
                play.play(row, host, record)
    finally:
        lab.close()
    hosts = (lab.name, host.name)
    report = play.summary(ROWS, record, hosts)
    (image.CACHE / f"contract-{host.name}.txt").write_text(report + "\n", encoding="utf-8")
    record_property("host-vm", f"{host.name}: {report.splitlines()[0]}")
    assert not [each for each in play.differences(_IN_BOTH, record, hosts) if not each.why], report
