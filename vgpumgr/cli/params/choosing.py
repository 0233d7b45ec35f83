"""Hosts and VMs on a command line: Ansible's patterns, as arguments or by --on; `@FILE` is a list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vgpumgr import errors, files
from vgpumgr.cli.params import candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_MOST = files.MIB  # of patterns


def expanded(texts: Sequence[str]) -> tuple[str, ...]:
    """The texts, with FILE's patterns in place of `@FILE`. Raises UsageError if a file has none or cannot be read."""
    result: list[str] = []
    for text in texts:
        if text.startswith("@") and "," not in text:
            result += _lines(text[1:])
        elif "@" in text:
            from vgpumgr.core.inventory import patterns

            for part in patterns.split([text]):
                result += _lines(part[1:]) if part.startswith("@") else [part]
        else:
            result.append(text)
    return tuple(result)


def _lines(path: str) -> list[str]:
    try:
        text = files.read_bytes(files.expanded(path), _MOST).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        hint = "@FILE is a file with one name or pattern in each line"
        raise errors.UsageError(f"@{path} cannot be read: {reason}", hint=hint) from error
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise errors.UsageError(f"@{path} names nothing", hint="an empty list does not mean all")
    return lines


def _read_files(context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return value if context.resilient_parsing else expanded(value)


def read_lists(context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """VMs, with a file's patterns in place of `@FILE`. A VM's name may contain @, so only a leading @ means a file."""
    if context.resilient_parsing:
        return value
    return tuple(part for text in value for part in (expanded((text,)) if text.startswith("@") else (text,)))


def _joined(context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> str | None:
    """All texts joined into one pattern; None if there is none."""
    if not value or context.resilient_parsing or (len(value) == 1 and "@" not in value[0]):
        return value[0] if value else None
    from vgpumgr.core.inventory import patterns

    return ",".join(patterns.split(expanded(value)))


def hosts(*, required: bool = False, name: str = "hosts") -> Decorator:
    """The argument of a command that is about hosts."""
    return click.argument(
        name,
        nargs=-1,
        required=required,
        metavar="HOST..." if required else "[HOST]...",
        callback=_read_files,
        shell_complete=candidates.hosts,
    )


def vms_or_hosts() -> Decorator:
    """The argument of a command that shows vGPUs: those of VMs, of hosts, or of both."""
    return click.argument(
        "chosen",
        nargs=-1,
        metavar="[VM|HOST]...",
        callback=_read_files,
        shell_complete=candidates.vms_and_hosts,
    )


def on(text: str) -> Decorator:
    """--on, for commands that take VMs or no arguments."""
    return click.option(
        "--on", multiple=True, metavar="HOSTS", callback=_joined, shell_complete=candidates.hosts, help=text
    )


def limit(text: str) -> Decorator:
    """--limit, for commands about hosts; named as in ansible-playbook."""
    return click.option(
        "--limit",
        multiple=True,
        metavar="HOSTS",
        callback=_read_files,
        shell_complete=candidates.hosts,
        help=text,
    )


def either(hosts: tuple[str, ...], other: tuple[str, ...], option: str = "--limit") -> tuple[str, ...]:
    """The arguments, or the option's patterns. Raises UsageError if both are given."""
    if hosts and other:
        raise errors.UsageError(f"{option} and arguments cannot be combined", hint="both name hosts: use one of them")
    return hosts or other
