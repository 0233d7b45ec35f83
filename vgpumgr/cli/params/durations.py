"""Durations as people write them: `10s`, `5m`, `1h`, `2d`, or a number of seconds."""

from __future__ import annotations

import re

import click

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Duration(click.ParamType[float]):
    """Seconds, from a number and its unit (the default unit is seconds). The value must be at least `least` seconds."""

    name = "duration"

    def __init__(self, *, least: float = 1) -> None:
        self._least = least

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,3})?)([smhd]?)", value.strip())
        if match is None:
            self.fail(f"{value!r} is not a duration such as 30s, 5m, 12h or 7d", param, ctx)
        seconds = float(match[1]) * _UNITS_S[match[2] or "s"]
        if seconds < self._least:
            self.fail(f"{value!r} is less than {self._least:g}s", param, ctx)
        return seconds


class Seconds(click.ParamType[int]):
    """Whole seconds, from 1 to a day, written as a duration or as a number."""

    name = "seconds"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> int:
        seconds = Duration().convert(value, param, ctx)
        if seconds > 86400 or seconds != int(seconds):
            self.fail(f"{value!r} is not a whole number of seconds from 1 to 86400 (1d)", param, ctx)
        return int(seconds)
