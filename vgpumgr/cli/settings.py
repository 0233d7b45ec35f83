"""The parsed command line, as a value that every part of the CLI is passed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.controller.context import Context
    from vgpumgr.errors import VgpumgrError

COMPLETE = "_VGPUMGR_COMPLETE"  # set by a shell that asks for completions
FORMATS = ("table", "wide", "json", "yaml", "jsonl", "csv", "name")
NAGIOS = "nagios"  # a format of `doctor` alone


@dataclass(slots=True, kw_only=True)
class Answer:
    """What a command says to a client of `serve`, in place of printing it. `context`: what it works with."""

    context: Context
    document: Mapping[str, object] | None = None
    errors: list[VgpumgrError] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`inventory`: directories, each merged into those before it. Empty: search the usual places.

    `group` None: the environment's or the inventory's. `timeout`: seconds; None: each stage has its own limit.
    `columns` and `sorted_by`: the values of --columns and --sort. `answer`: where a document and errors go; None: they
    are printed.
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
    answer: Answer | None = None

    @property
    def for_people(self) -> bool:
        return self.output in ("table", "wide")

    @property
    def prints_document(self) -> bool:
        """Whether the output is the whole document, which has the findings."""
        return self.output in ("json", "yaml")
