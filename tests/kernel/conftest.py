"""Host VMs for the tests of this folder, one per Debian release and pytest process; what each of them is ends up in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.kernel import guests, image, turn
from tests.kernel.marks import parameters
from tests.kernel.release import ALL, DEBIAN12, DEBIAN13, DEBIAN13_MODULAR, RELEASES
from tests.kernel.vm import Vm, booted, serial_log, tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xdist.remote import Producer

_VERSIONS = "host-vm"

_CONTRACT = "contract on "
_CONTRACT_FILE = "test_contract_kernel.py"
# Two processes share these out in this order, the longest first. Debian 13 has tests of its own and is the slower one: its contract
# is left to the process that is done first, which costs one more boot and saves the time in which only one host VM runs.
_ORDER = (DEBIAN13.name, DEBIAN12.name, DEBIAN13_MODULAR.name, *(_CONTRACT + release.name for release in RELEASES))


def release_of(nodeid: str) -> str:
    """The name of the release whose host VM it needs, or nothing."""
    return max((release.name for release in ALL if release.name in nodeid), key=len, default="")


def share_of(nodeid: str, *, each_commit: bool) -> str:
    """What is run in one process, so that its host VM boots once: a release's tests, or its contract.

    A commit's tests are all of one release: beside the contract each goes to the process that has time for it.
    """
    name = release_of(nodeid)
    if _CONTRACT_FILE in nodeid and (each_commit or name == DEBIAN13.name):
        return _CONTRACT + name
    return nodeid if each_commit or not name else name


class ByRelease(LoadScopeScheduling):
    """Each share in one process."""

    def _split_scope(self, nodeid: str) -> str:
        return share_of(nodeid, each_commit=_each_commit(self.config))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--each-commit",
        action="store_true",
        help=f"of the tests in host VMs, those that CI runs for each commit, on one kernel ({turn.VARIABLE} names it)",
    )


def _each_commit(config: pytest.Config) -> bool:
    return bool(config.getoption("--each-commit", default=False))  # unknown where this folder is not what is run


def pytest_report_header(config: pytest.Config) -> str | None:
    """Which kernel has its turn."""
    said = (
        f"kernel of this commit: {turn.of_this_commit().name}, half {turn.half_of_this_commit()} of its longest tests"
    )
    return said if _each_commit(config) else None


def _for_each_commit(item: pytest.Item) -> bool:
    """Whether CI runs it for this commit; what needs no host VM always."""
    name = release_of(item.nodeid)
    mark = item.get_closest_marker("each_commit")
    if mark is None or name not in mark.args or name != turn.of_this_commit().name:
        return not name
    return mark.kwargs["half"] in (None, turn.half_of_this_commit())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The shares in their order, for --no-loadscope-reorder; all other tests before them, as they were."""
    each_commit = _each_commit(config)
    if each_commit:
        config.hook.pytest_deselected(items=[item for item in items if not _for_each_commit(item)])
        items[:] = filter(_for_each_commit, items)

    def order(item: pytest.Item) -> int:
        share = share_of(item.nodeid, each_commit=each_commit)
        if share in _ORDER:
            return _ORDER.index(share)
        mark = item.get_closest_marker("each_commit")
        if not release_of(item.nodeid) or mark is None:
            return -1
        return len(_ORDER) + len(mark.args)  # what only one kernel plays takes longest

    items.sort(key=order)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """xdist's documented place for a scheduler of one's own."""
    return ByRelease(config, log)


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
def native(vm: Vm) -> Iterator[str]:
    """A guest of the host VM that runs, and gives a device back although it has no operating system."""
    with guests.native(vm) as name:
        yield name


@pytest.fixture
def note_versions(record_property: Callable[[str, object], None]) -> Callable[[Vm], None]:
    """Keeps what a VM is made of for the end of the log."""
    return lambda vm: record_property(_VERSIONS, f"{vm.name}: {vm.versions()}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which kernels, libvirts and QEMUs the run was about, and where one failed what the kernels said last."""
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
    if not {"failed", "error"}.isdisjoint(terminalreporter.stats):
        for log in map(serial_log, (release.name for release in ALL)):
            if log.exists():
                terminalreporter.section(f"{log}, its end")
                terminalreporter.line(tail(log))
