"""The options of commands that print rows: `--columns`, `--sort`, `--no-header`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from vgpumgr.cli.rows import chosen
from vgpumgr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.cli.rows.column import View
    from vgpumgr.cli.settings import Settings

Command = TypeVar("Command", bound="Callable[..., Any]")

_WITH_COLUMNS = ("table", "wide", "csv", "jsonl")
_WITH_HEADER = ("table", "wide", "csv")


def options(*views: View, sort: bool = True) -> Callable[[Command], Command]:
    """Add the options to a command that prints one of these views. Use it above `common_options`: that collects all."""
    spellings = list(dict.fromkeys(name for view in views for name in view.spellings))

    def offered(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 -- click's signature
        head, comma, tail = incomplete.rpartition(",")
        minus = "-" if tail.startswith("-") else ""
        return [f"{head}{comma}{minus}{name}" for name in spellings if name.startswith(tail.removeprefix("-"))]

    def checked(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:  # noqa: ARG001 -- as above
        if value is not None:
            chosen.check(parameter.opts[0], value, spellings)
        return value

    def decorate(command: Command) -> Command:
        wrapped: Any = click.option("--no-header", is_flag=True, help="Leave out the head of tables and csv.")(command)
        if sort:
            wrapped = click.option(
                "--sort",
                "sorted_by",
                metavar="COLUMN",
                callback=checked,
                shell_complete=offered,
                help="Sort by a column, the smallest first; -COLUMN: the largest first. Several: -sm,vm. Unknown comes last.",
            )(wrapped)
        wrapped = click.option(
            "--columns",
            metavar="COLUMN,…",
            callback=checked,
            shell_complete=offered,
            help="Only these columns, in this order; named by their heads or csv keys.",
        )(wrapped)
        return cast("Command", wrapped)

    return decorate


def guard(settings: Settings) -> None:
    """Raises UsageError for an option that does not apply to the output format."""
    if settings.columns is not None and settings.output not in _WITH_COLUMNS:
        raise UsageError(
            f"--columns and -o {settings.output} cannot be combined", hint=_hint("--columns", _WITH_COLUMNS)
        )
    if settings.no_header and settings.output not in _WITH_HEADER:
        raise UsageError(
            f"--no-header and -o {settings.output} cannot be combined", hint=_hint("--no-header", _WITH_HEADER)
        )


def _hint(option: str, formats: tuple[str, ...]) -> str:
    return f"{option} works only with -o {', '.join(formats)}"
