"""Sizes as people write them: `2G`, `1.5G`, `512M`, `64K`, or bytes; units are binary."""

from __future__ import annotations

import re
from fractions import Fraction

import click

_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


class Bytes(click.ParamType[int]):
    """A number of bytes: 2G, 3.9G, 512M or 21474836481. A fraction is rounded to the nearest byte."""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)(?:i?B)?", str(value), re.IGNORECASE | re.ASCII)
        if match is None:
            self.fail(f"{value!r} is not a size such as 2G, 512M, 64K, or a number of bytes", param, ctx)
        return round(Fraction(match[1]) * (1 << _UNITS[match[2].upper()]))
