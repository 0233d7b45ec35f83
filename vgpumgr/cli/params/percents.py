"""Percentages as people write them: `90%` or `90`."""

from __future__ import annotations

import re

import click


class Percent(click.ParamType[int]):
    """A whole number of percent, with or without its sign, of at most `most`."""

    name = "percent"

    def __init__(self, *, most: int = 100) -> None:
        self._most = most

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"([0-9]{1,5})\s?%?", value.strip())
        if match is None or int(match[1]) > self._most:
            self.fail(f"{value!r} is not a percentage from 0 to {self._most}, such as 90%", param, ctx)
        return int(match[1])
