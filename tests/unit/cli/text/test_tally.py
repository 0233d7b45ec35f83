"""A summary counts each thing once, and names what went wrong."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.cli.text.tally import is_good, tally
from vgpumgr.errors import Outcome


def test_what_has_no_capacity_is_refused() -> None:
    found = [
        *[Outcome.DONE] * 3,
        *[Outcome.UNCHANGED] * 6,
        *[Outcome.REFUSED] * 2,
        Outcome.NO_CAPACITY,
        Outcome.UNKNOWN_VM,
    ]
    assert tally(found) == "3 changed, 6 unchanged, 3 refused (1 no capacity), 1 unknown VM"
    assert tally([]) == ""


@given(st.lists(st.sampled_from(Outcome)))
def test_the_numbers_add_up(outcomes: list[Outcome]) -> None:
    text = re.sub(r" \(\d+ no capacity\)", "", tally(outcomes))
    assert sum(map(int, re.findall(r"\d+", text))) == len(outcomes)
    assert is_good(outcomes) == (not re.search("refused|unknown|invalid|not reached|busy|failed", text))
