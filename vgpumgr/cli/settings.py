"""The parsed command line, as a value that every part of the CLI is passed."""

from __future__ import annotations

from dataclasses import dataclass

COMPLETE = "_VGPUMGR_COMPLETE"  # set by a shell that asks for completions
FORMATS = ("table", "wide", "json", "yaml", "jsonl", "csv", "name")
NAGIOS = "nagios"  # a format of `doctor` alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`inventory`: directories, each merged into those before it. Empty: search the usual places.

    `group` None: the environment's or the inventory's. `timeout`: seconds; None: each stage has its own limit.
    `columns` and `sorted_by`: the values of --columns and --sort.
    """

    inventory: tuple[str, ...] = ()
    group: str | None = None
    output: str = "table"
    check: bool = False
    diff: bool = False
    yes: bool = False
    quiet: bool = False
    verbose: int = 0
    timeout: int | None = None
    color: str = "auto"
    log_format: str = "text"
    columns: str | None = None
    sorted_by: str | None = None
    no_header: bool = False

    @property
    def for_people(self) -> bool:
        return self.output in ("table", "wide")

    @property
    def prints_document(self) -> bool:
        """Whether the output is the whole document, which has the findings."""
        return self.output in ("json", "yaml")
