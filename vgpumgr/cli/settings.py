"""What a command line came to, as a value that every part of the CLI is given."""

from __future__ import annotations

from dataclasses import dataclass

COMPLETE = "_VGPUMGR_COMPLETE"  # set by a shell that asks what TAB may put there
FORMATS = ("table", "wide", "json", "yaml", "csv", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`inventory` None: search the usual places. `timeout` in seconds, None: each stage's own."""

    inventory: str | None = None
    output: str = "table"
    check: bool = False
    diff: bool = False
    yes: bool = False
    quiet: bool = False
    verbose: int = 0
    timeout: int | None = None
    color: str = "auto"
    log_format: str = "text"

    @property
    def for_people(self) -> bool:
        return self.output in ("table", "wide")
