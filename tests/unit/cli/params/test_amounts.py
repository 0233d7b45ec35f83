"""Times and sizes as people write them on a command line."""

from __future__ import annotations

import click
import pytest

from vgpumgr.cli.params.durations import Duration, Seconds
from vgpumgr.cli.params.numbers import Whole
from vgpumgr.cli.params.sizes import Bytes


@pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("5s", 5), ("2m", 120), ("1d", 86400), ("1.5m", 90)])
def test_a_time_limit_takes_a_unit_and_a_plain_number_is_seconds(text: str, seconds: int) -> None:
    assert Seconds().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["0", "2d", "1.5", "nan", "-1", "5 minutes"])
def test_no_other_time_limit_is_taken(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Seconds().convert(text, None, None)


def test_a_time_that_is_none_is_refused_with_each_unit() -> None:
    with pytest.raises(click.BadParameter, match="'1w' is not a duration such as 30s, 5m, 12h or 7d"):
        Duration().convert("1w", None, None)


@pytest.mark.parametrize(
    ("kind", "text", "limits"),
    [(Whole(1, 1000), "3.5", "1 to 1000"), (Whole(1, 9), "0", "1 to 9"), (Whole(0), "x", "0 on")],
)
def test_what_is_no_whole_number_within_the_limits_is_refused_with_them(kind: Whole, text: str, limits: str) -> None:
    with pytest.raises(click.BadParameter, match=f"'{text}' is not a whole number from {limits}$"):
        kind.convert(text, None, None)
    assert kind.convert("5", None, None) == 5


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2G", 2 << 30),
        ("3.5GiB", 7 << 29),
        ("3.9G", 4187593114),  # 4187593113.6
        ("0.1K", 102),  # 102.4
        ("512M", 512 << 20),
        ("21474836481", 21474836481),
    ],
)
def test_a_size_is_the_nearest_number_of_bytes(text: str, size: int) -> None:
    assert Bytes().convert(text, None, None) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "2T", "1e9", "2 G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="not a size such as 2G"):
        Bytes().convert(text, None, None)
