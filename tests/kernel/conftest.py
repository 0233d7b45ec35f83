"""Host VMs for the tests of this folder, one per Debian release and pytest process; what each of them is ends up in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernel import image
from tests.kernel.marks import parameters
from tests.kernel.release import DEBIAN13_MODULAR, RELEASES, Release
from tests.kernel.vm import Vm, booted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_VERSIONS = "host-vm"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup` all tests of one release run in one process, so that each boots once.

    Marks of a fixture's parameters come too late for xdist (3.8), which reads them in this same hook.
    """
    for item in items:
        callspec = getattr(item, "callspec", None)
        for value in callspec.params.values() if callspec else ():
            if isinstance(value, Release):
                item.add_marker(pytest.mark.xdist_group(value.name))


@pytest.fixture(scope="session", params=parameters(*RELEASES))
def shared_vm(request: pytest.FixtureRequest) -> Iterator[Vm]:
    """A host VM that all tests of its release share, as the last one left it."""
    with booted(request.param.name, image.build(request.param)) as found:
        yield found


@pytest.fixture(scope="session", params=parameters(DEBIAN13_MODULAR))
def shared_modular_vm(request: pytest.FixtureRequest) -> Iterator[Vm]:
    """A host VM with virtqemud in place of libvirtd."""
    with booted(request.param.name, image.build(request.param)) as found:
        yield found


@pytest.fixture
def vm(shared_vm: Vm) -> Vm:
    """A host VM of each release: as after its boot, without any vGPU, ledger, claim or changed parameter."""
    shared_vm.reset()
    return shared_vm


@pytest.fixture
def modular_vm(shared_modular_vm: Vm) -> Vm:
    """The host VM with virtqemud, as after its boot."""
    shared_modular_vm.reset()
    return shared_modular_vm


@pytest.fixture
def note_versions(record_property: Callable[[str, object], None]) -> Callable[[Vm], None]:
    """Keeps what a VM is made of for the end of the log."""
    return lambda vm: record_property(_VERSIONS, f"{vm.name}: {vm.versions()}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which kernels, libvirts and QEMUs the run was about."""
    lines = sorted(
        {
            str(value)
            for reports in terminalreporter.stats.values()
            for report in reports
            for name, value in getattr(report, "user_properties", ())
            if name == _VERSIONS
        }
    )
    if lines:
        terminalreporter.section("host VMs")
        for line in lines:
            terminalreporter.line(line)
