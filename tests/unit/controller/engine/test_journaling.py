"""`recorded` around an apply: what becomes of the line when the block ends, fails, or is interrupted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.controller import nowhere
from tests.unit.core import builders
from vgpumgr import errors, names
from vgpumgr.controller.engine import journaling
from vgpumgr.core.reconcile.adopt import AdoptPlan
from vgpumgr.core.reconcile.planned import PlannedTask
from vgpumgr.core.reconcile.tasks import Adopt
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Intent, JournalEntry, Question

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vgpumgr.core import step as steps


ENTRY = Intent(verb="attach", why="requested --profile 4Q", host="kvm01", vm="vm01")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "store.sqlite", warn=pytest.fail)


def only_run(journal: Journal) -> JournalEntry:
    (found,) = journal.runs(Question(limit=9))
    return found


def test_the_line_is_there_before_the_block_and_ended_after_it(journal: Journal) -> None:
    with journaling.recorded(nowhere.context(journal=journal), ENTRY) as line:
        begun = only_run(journal)
    assert (begun.intent, begun.by, begun.at, begun.outcome) == (ENTRY, "anna@ctl1", "2026-11-21T12:00:00Z", None)
    line.end(None)
    assert (only_run(journal).outcome, only_run(journal).ended_at) == ("done", "2026-11-21T12:00:01Z")


def test_a_block_that_did_all_is_not_ended_before_the_last_look_says_what_came_of_it(journal: Journal) -> None:
    with journaling.recorded(nowhere.context(journal=journal), ENTRY) as line:
        pass
    assert only_run(journal).outcome is None
    line.end(errors.NotConverged("kvm01: all steps were done, but vm01 vgpu0 is not as planned"))
    assert (only_run(journal).outcome, only_run(journal).error) == ("failed", "NotConverged")


@pytest.mark.parametrize(
    ("make", "outcome", "message"),
    [
        (lambda: errors.InUse("vm01 runs", details=["since noon"]), "refused", "vm01 runs\nsince noon"),
        (lambda: errors.Busy("kvm01", "locked"), "busy", "kvm01: locked"),
        (lambda: errors.SysfsRefused("kvm01", "no", path="/sys", errno_name="EIO"), "failed", "kvm01: no"),
        (lambda: errors.Unreachable("kvm01", "tcp", "gone"), "unreached", "kvm01: tcp: gone"),
        (lambda: ZeroDivisionError("a bug"), "failed", "a bug"),
        (KeyboardInterrupt, "interrupted", None),
    ],
)
def test_what_ends_the_block_is_kept_and_goes_on(
    journal: Journal, make: Callable[[], BaseException], outcome: str, message: str | None
) -> None:
    raised = make()
    with pytest.raises(type(raised)) as caught, journaling.recorded(nowhere.context(journal=journal), ENTRY):
        raise raised
    assert caught.value is raised
    found = only_run(journal)
    assert (found.outcome, found.error, found.message) == (outcome, type(raised).__name__, message)


def test_without_a_journal_nothing_is_recorded() -> None:
    with journaling.recorded(nowhere.context(), ENTRY):
        pass
    assert journaling.findings(nowhere.context()) == ()


def test_a_journal_that_cannot_be_written_is_a_finding_and_stops_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    here = nowhere.context(journal=Journal(tmp_path, warn=told.append))  # a folder is no file
    done = []
    for _ in range(2):
        with journaling.recorded(here, ENTRY):
            done.append(1)
    assert len(done) == 2
    assert [(finding.kind, [finding.text]) for finding in journaling.findings(here)] == [("journal", told)]


def test_an_entry_names_the_slot_and_gpu_of_its_steps_where_it_is_one() -> None:
    step = builders.created(builders.plan_attach(builders.host()))
    made = intent(step, step)
    assert (made.slot, made.gpu, made.vm, len(made.steps)) == ("vgpu0", "0000:41:00.0", None, 2)
    other = replace(step, vgpu=replace(step.vgpu, slot=names.Slot("vgpu1")))
    several = intent(step, other)
    assert (several.slot, several.gpu) == (None, "0000:41:00.0")
    none = intent()
    assert (none.slot, none.gpu) == (None, None)


def intent(*todo: steps.Step) -> Intent:
    host = names.HostName("kvm01")
    plan = AdoptPlan(host=host, steps=todo, findings=(), adopted=(), documents={})
    return journaling.intent_of(PlannedTask(task=Adopt(), plan=plan, refused=None, drift=()), host)
