"""A lab's pace, from its record through the environment to the context of a command; and the words in which its hosts say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vgpumgr import errors
from vgpumgr.controller import environment
from vgpumgr.core.inventory import Inventory
from vgpumgr.host import timing
from vgpumgr.lab import fleet
from vgpumgr.lab.layout import LabRecord, Layout
from vgpumgr.lab.machine import supervisor
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from pathlib import Path


def timing_of(timeout: float | None = None) -> Timing:
    """What a command waits by."""
    return environment.make_context(
        Inventory(root="/", hosts={}, findings=()),
        check=True,
        progress=lambda _: None,
        warn=lambda _: None,
        timeout=timeout,
    ).timing


def test_a_command_has_the_pace_of_the_lab_that_its_environment_points_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(environment.PACE_VARIABLE, raising=False)
    assert (timing_of(), timing_of(7)) == (Timing(), Timing().within(7))
    layout = Layout(folder=tmp_path)
    layout.write(LabRecord(spec="default", hosts=()))
    assert environment.PACE_VARIABLE not in fleet.environment(layout)
    layout.write(LabRecord(spec="default", hosts=(), pace=0.1))
    said = fleet.environment(layout)
    monkeypatch.setenv(environment.PACE_VARIABLE, said[environment.PACE_VARIABLE])
    assert (timing_of(), timing_of(7)) == (Timing().at(0.1), Timing().at(0.1).within(7))


@pytest.mark.parametrize("said", ["", "quick", "0", "-1", "2", "nan"])
def test_what_is_no_pace_is_refused(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv(environment.PACE_VARIABLE, said)
    with pytest.raises(errors.UsageError, match=environment.PACE_VARIABLE):
        timing_of()


def test_a_labs_host_says_it_where_and_as_the_host_program_takes_it() -> None:
    assert supervisor._say_pace(0.1) == (timing.PACE.removeprefix("/"), timing.text(0.1))
