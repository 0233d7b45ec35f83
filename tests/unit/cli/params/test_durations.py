"""How long something may take, as people write it."""

from __future__ import annotations

import click
import pytest

from vgpumgr.cli.params.durations import Seconds


@pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("5s", 5), ("2m", 120), ("1d", 86400), ("1.5m", 90)])
def test_a_time_limit_takes_a_unit_and_a_plain_number_is_seconds(text: str, seconds: int) -> None:
    assert Seconds().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["0", "2d", "1.5", "nan", "-1", "5 minutes"])
def test_no_other_time_limit_is_taken(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Seconds().convert(text, None, None)
