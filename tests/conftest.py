"""Fixtures that every folder of tests may use, and the rule that nothing is skipped unseen."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

from tests import memory
from tests.dose import FULL
from tests.lab_fixtures import lab_factory, mdev_vf_lab

if TYPE_CHECKING:
    import pytest

# Hypothesis' own limits of time say more about who else works on the machine than about us. In the few that a commit
# is tried with, the examples are the same for everybody; the full dose looks for new ones.
_ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", _ANY_MACHINE, max_examples=20, derandomize=True, database=None)
settings.register_profile("full", _ANY_MACHINE)
settings.load_profile("full" if FULL else "few")

__all__ = ["lab_factory", "mdev_vf_lab"]

# The skips that are right on a machine where everything can run: test name → why. With VGPUMGR_CI=1 any other skip fails
# the run, so that a missing package or right can never make a suite quietly smaller.
LISTED_SKIPS = {
    "test_not_as_root_it_says_so": "the suite runs as root; this one is about everybody else",
}


def pytest_configure() -> None:
    """Files in memory. And a shell that starts the suite in the background has it ignore SIGINT, with every program it starts."""
    if place := memory.folder():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", place)  # what tmp_path lies in
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run for skips that are not listed."""
    unlisted = _unlisted(session)
    if unlisted and os.environ.get("VGPUMGR_CI") == "1":
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much was tried where the amount is the proof (property `counted`: a line), and skips that are not listed."""
    counted = sorted(
        {
            str(value)
            for reports in terminalreporter.stats.values()
            for report in reports
            for name, value in getattr(report, "user_properties", ())
            if name == "counted"
        }
    )
    if counted:
        terminalreporter.section("counted")
        for line in counted:
            terminalreporter.line(line)
    unlisted = [report.nodeid for report in terminalreporter.stats.get("skipped", []) if not _is_listed(report.nodeid)]
    if unlisted and os.environ.get("VGPUMGR_CI") == "1":
        terminalreporter.section("skipped, and not listed in tests/conftest.py: the run fails")
        for nodeid in unlisted:
            terminalreporter.line(nodeid)


def _unlisted(session: pytest.Session) -> list[str]:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    return [report.nodeid for report in skipped if not _is_listed(report.nodeid)]


def _is_listed(nodeid: str) -> bool:
    return nodeid.rpartition("::")[2].partition("[")[0] in LISTED_SKIPS
