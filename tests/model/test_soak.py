"""Two hosts among the worst of neighbours (hostile.py), for as long as one likes: `make soak`, SOAK_MINUTES of it.

Every case has a number of its own, which brings it again: SOAK_SEED is the first one's. A case that breaks a promise is
told with its steps, and the next one goes on; at the end there must be none.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
import traceback
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.hostile import WITH, HostileStory

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

MINUTES = float(os.environ.get("SOAK_MINUTES", "30"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
STEPS = 18
CASES = 25  # of one number
MOST = 12  # then it is no use to go on


def run(number: int) -> str | None:
    """The cases of that number; what broke, and the steps that led to it."""

    class Numbered(HostileStory):
        pass

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            run_state_machine_as_test(
                seed(number)(Numbered),
                settings=settings(
                    max_examples=CASES,
                    stateful_step_count=STEPS,
                    database=None,
                    deadline=None,
                    report_multiple_bugs=False,
                    verbosity=Verbosity.normal,
                    phases=(Phase.generate,),
                    suppress_health_check=list(HealthCheck),
                ),
            )
    except Exception as error:
        story = "\n".join(getattr(error, "__notes__", []))
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"SOAK_SEED={number}: {type(error).__name__} at {where.name}: {error}\n{story}\n{said.getvalue()}"
    return None


@pytest.mark.parametrize("part", [0, 1])
def test_no_leak_no_double_use_no_foreign_touched(part: int, record_property: Callable[[str, object], None]) -> None:
    until = time.monotonic() + MINUTES * 60
    number, broken = SEED + part, list[str]()
    while len(broken) < MOST:
        found = run(number)
        if found is not None:
            broken.append(found)
            print(f"{len(broken)}. {found[:6000]}\n", flush=True)  # noqa: T201 -- seen with -s, while it goes on
        number += 2
        if time.monotonic() > until:
            break
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(HostileStory.counts.items()))
    record_property(
        "counted",
        f"soak {part}: {MINUTES:g} minutes with {'+'.join(WITH)}, seeds {SEED + part} to {number - 2}: {counts}; "
        f"{len(broken)} broke a promise",
    )
    assert not broken, "\n\n".join(one[:3000] for one in broken)
