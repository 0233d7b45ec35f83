"""docs/cli.md, made from the commands themselves: `make docs` writes it, tests/docs compares it with the tree.

It reads click's objects and no printed --help, so that neither a terminal's width nor the layout of a click version
changes the result.
"""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli import main
from vgpumgr.cli.params.options import once
from vgpumgr.cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cli.md"

_HEAD = """\
# Command reference

Made from the program's own texts by `make docs`; a change by hand is lost. `vgpumgr COMMAND --help` says the same.
"""
_COMMON = """\
## Options of every command

They may stand before or after the command's name; the nearest one wins, but all of `-i` count.
"""
_EXIT = """\
## Exit codes

What each means, with examples and which wins where several are true: [exit-codes.md](exit-codes.md). Errors by code, as
`error` in JSON names them ([schemas/](schemas/)):
"""


def page() -> str:
    """The whole page, ending with one line break."""
    program = main.program
    context = click.Context(program, info_name="vgpumgr")
    families = main.families()
    lines = [_HEAD, *_paragraphs(program.help or "")]
    for title, commands in families.items():
        lines.append(f"**{title}**\n")
        lines.append("\n".join(f"- [`{name}`](#{name}): {text}" for name, text in commands.items()) + "\n")
    common = [parameter for parameter in program.params if parameter.name in Settings.__dataclass_fields__]
    own = [parameter for parameter in program.params if parameter not in common]
    lines += [_COMMON, *_options(common, heading=None), *_options(own, heading="Of the program alone")]
    lines += [_EXIT, _exit_codes()]
    for name in (name for commands in families.values() for name in commands):
        command = program.get_command(context, name)
        assert command is not None
        lines += _command(command, (name,), common)
    return "\n".join(lines).rstrip("\n") + "\n"


def _command(command: click.Command, path: Sequence[str], common: Sequence[click.Parameter]) -> Iterator[str]:
    """One command, and those below it."""
    name = " ".join(path)
    yield f"{'#' * (1 + len(path))} {name}\n"
    own = _own(command, common)
    yield f"```text\n{_usage(command, name, own)}\n```\n"
    yield from _paragraphs(command.help or "")
    yield from _options(own, heading="Options")
    if not isinstance(command, click.Group) and {one.name for one in common} - {one.name for one in command.params}:
        yield f"The options of every command stand before `{path[0]}` here.\n"
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path[-1])
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert child is not None
            yield from _command(child, (*path, child_name), common)


def _own(command: click.Command, common: Sequence[click.Parameter]) -> list[click.Parameter]:
    """The parameters that say something else than the options of every command do."""
    texts = {(tuple(parameter.opts), getattr(parameter, "help", None)) for parameter in common}
    return [
        parameter
        for parameter in command.params
        if (tuple(parameter.opts), getattr(parameter, "help", None)) not in texts
        and not getattr(parameter, "hidden", False)
    ]


def _usage(command: click.Command, name: str, own: Sequence[click.Parameter]) -> str:
    words = ["vgpumgr", name]
    words += [_argument(parameter) for parameter in own if isinstance(parameter, click.Argument)]
    words += [_spelling(option) for option in own if isinstance(option, click.Option) and option.required]
    words.append("COMMAND …" if isinstance(command, click.Group) else "[OPTION]…")
    return " ".join(words)


def _argument(argument: click.Argument) -> str:
    plain = argument.metavar or _metavar(argument) or str(argument.name).upper()
    plain = plain.removesuffix("...").strip("[]")
    several = "…" if argument.nargs != 1 else ""
    return f"{plain}{several}" if argument.required else f"[{plain}]{several}"


def _options(own: Sequence[click.Parameter], *, heading: str | None) -> Iterator[str]:
    options = [parameter for parameter in own if isinstance(parameter, click.Option)]
    if not options:
        return
    if heading:
        yield f"{heading}:\n"
    yield "\n".join(f"- `{_spelling(option)}`{_meaning(option)}" for option in options) + "\n"


def _spelling(option: click.Option) -> str:
    metavar = _metavar(option)
    return ", ".join((*option.opts, *option.secondary_opts)) + (f" {metavar}" if metavar else "")


def _metavar(parameter: click.Parameter) -> str | None:
    """What stands for the value; None for flags, and for an argument whose name says it."""
    if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
        return None
    if parameter.metavar:
        return parameter.metavar
    if isinstance(parameter.type, click.Choice):
        return "|".join(str(choice) for choice in parameter.type.choices)
    return parameter.type.name.upper() if isinstance(parameter, click.Option) else None


def _meaning(option: click.Option) -> str:
    notes = []
    if option.required:
        notes.append("required")
    if isinstance(option.type, click.IntRange | click.FloatRange) and not option.count:
        notes.append(_range(option.type))
    if option.show_default and isinstance(option.default, str | int | float):
        notes.append(f"default: {option.default}")
    if option.multiple and option.callback is not once:
        notes.append("may be given several times")
    text = f" ({', '.join(note for note in notes if note)})" if any(notes) else ""
    return f"{text}: {_one_line(option.help)}" if option.help else text


def _range(kind: click.IntRange | click.FloatRange) -> str:
    least = None if kind.min is None else f"{kind.min:g}"
    most = None if kind.max is None else f"{kind.max:g}"
    if least is None or most is None:
        return f"at most {most}" if most is not None else f"at least {least}"
    return f"{least} to {most}"


def _paragraphs(text: str) -> Iterator[str]:
    """A docstring's paragraphs; one that click is told to leave as it is (backspace) becomes a block."""
    for paragraph in inspect.cleandoc(text.partition("\f")[0]).split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield f"```text\n{textwrap.dedent(paragraph[2:]).rstrip()}\n```\n"
        elif paragraph.strip():
            yield f"{paragraph.strip()}\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _exit_codes() -> str:
    """The error classes by their exit code, in the order in which the tree in vgpumgr/errors.py draws them."""
    by_code: dict[int, list[str]] = {}
    for kind in _tree(errors.VgpumgrError):
        by_code.setdefault(kind.exit_code, []).append(kind.__name__)
    return "\n".join(f"- **{code}** {' · '.join(by_code[code])}" for code in sorted(by_code)) + "\n"


def _tree(kind: type[errors.VgpumgrError]) -> Iterator[type[errors.VgpumgrError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
