"""Numbers on the command line, refused with their limits in words."""

from __future__ import annotations

from typing import Any

import click


class Whole(click.IntRange):
    """A whole number from `min` to `max`, or on."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            limits = f"{self.min} on" if self.max is None else f"{self.min} to {self.max}"
            self.fail(f"{value!r} is not a whole number from {limits}", param, ctx)
