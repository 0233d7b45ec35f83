"""The options that every command takes, before or after its name, and the settings made from them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from vgpumgr.cli.params import candidates, rows
from vgpumgr.cli.params.durations import Seconds
from vgpumgr.cli.settings import FORMATS, Settings
from vgpumgr.cli.text import log_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PARSED = "vgpumgr.parsed"
Command = TypeVar("Command", bound="Callable[..., Any]")


def once(_context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> str | None:
    """The callback of an option that may be given only once. Click alone would silently use the last value."""
    if len(given) > 1:
        from vgpumgr.errors import UsageError

        raise UsageError(f"{option.opts[0]} is given {len(given)} times: {', '.join(given)}", hint="give it once")
    return given[0] if given else None


_WHERE = (
    click.option(
        "-i",
        "--inventory",
        metavar="DIR",
        multiple=True,
        shell_complete=candidates.folders,
        help="The inventory directory (default: $VGPUMGR_INVENTORY, ./inventory, …). Several are merged, as by Ansible.",
    ),
    click.option(
        "--group",
        multiple=True,
        callback=once,
        metavar="GROUP",
        shell_complete=candidates.groups,
        help="The group of the inventory whose hosts are hypervisors (default: $VGPUMGR_GROUP, vgpumgr_group, hypervisors).",
    ),
)
_HOW = (
    click.option(
        "-n",
        "--dry-run",
        "--check",
        "check",
        is_flag=True,
        help="Change nothing; show what would change, exit 3 if anything.",
    ),
    click.option("--diff", is_flag=True, help="Also show the XML that is added or removed."),
    click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation."),
    click.option("-q", "--quiet", is_flag=True, help="No progress on stderr."),
    click.option("-v", "--verbose", count=True, help="Print on stderr what is done, host by host; twice for more."),
    click.option(
        "--timeout",
        type=Seconds(),
        metavar="TIME",
        help="Time limit for each stage, and for waiting on a busy host or a VM that stops: 30s, 2m. Replaces the built-in limits (5 to 60 s), longer or shorter.",
    ),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), help="Colour (default: auto)."),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        help="Format of stderr; json: one object per line (default: text).",
    ),
)


def common_options(command: Command, *, formats: Sequence[str] = FORMATS) -> Command:
    """Add the common options to a command, which gets them as its first argument, a Settings."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        context = click.get_current_context()
        context.meta[_PARSED] = True
        settings = settings_of(context)
        rows.guard(settings)
        if settings.answer is None:
            log_lines.start(settings)  # for every command: without it Python prints log records whatever -v says
        return command(settings, *args, **kwargs)

    return root_options(wrapped, formats=formats)  # type: ignore[return-value]  # click decorators keep the callable


def root_options(command: Command, *, formats: Sequence[str] = FORMATS) -> Command:
    """Add the common options to a group. The group only remembers them for the command that follows."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        _collect(click.get_current_context(), kwargs)
        return command(*args, **kwargs)

    output = click.option("-o", "--output", type=click.Choice(formats), help="Output format (default: table).")
    for option in reversed((*_WHERE, output, *_HOW)):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]  # click decorators keep the callable


def settings_of(context: click.Context) -> Settings:
    """The settings collected so far. Of an option before and after a command's name, the later one counts."""
    return Settings(**context.find_root().meta.get("vgpumgr.settings", {}))


def is_parsed(context: click.Context) -> bool:
    """Whether the whole command line was parsed, so that `settings_of` has all of it."""
    return _PARSED in context.meta


def is_given(name: str) -> bool:
    """Whether the user gave this parameter, even if with its default value."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _collect(context: click.Context, kwargs: dict[str, Any]) -> None:
    values = context.find_root().meta.setdefault("vgpumgr.settings", {})
    for name in Settings.__dataclass_fields__:
        value = kwargs.pop(name, None)
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            values[name] = values.get(name, ()) + value if isinstance(value, tuple) else value  # -i: of both places
