"""Prints documents, lines and blocks, findings, progress and errors. cli/rows/ prints rows through it.

Data goes to stdout, all else to stderr. A host's text loses its control characters, and never begins a line.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.text.status_line import StatusLine
from vgpumgr.cli.text.words import folded, visible
from vgpumgr.cli.text.wrapping import sentence
from vgpumgr.errors import worst_exit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

    from vgpumgr.cli.settings import Settings
    from vgpumgr.cli.text.alike import Failed
    from vgpumgr.controller.results import Fleet, View
    from vgpumgr.core.model.view import Finding
    from vgpumgr.errors import VgpumgrError

_HEADS = {"type_name": "TYPE", "framebuffer_mib": "FB MIB", "fits_now": "FITS NOW", "placement_id": "PLACEMENT"}
_MARKS = {"+": "green", "-": "red", "~": "yellow", "<": "cyan", ">": "cyan", "=": "cyan"}
_MARK = re.compile(r"( +)([-+~<>=])(?= )")
STATUS = StatusLine()
JSON_ERRORS = ("json", "yaml", "jsonl")
"""The formats with which an error is an object on stderr."""


def echo(text: str = "") -> None:
    """Print one line. Any line break in it comes from a host and is folded."""
    _print("\n".join(_prose(text, sys.stdout)))


def _prose(text: str, stream: TextIO | None) -> list[str]:
    """Foreign text made safe, and wrapped to the terminal's width if the stream is a terminal."""
    return [part for line in folded(text).split("\n") for part in sentence(line, width(stream))]


def plan_lines(settings: Settings, found: Iterable[str]) -> None:
    """Print a plan's lines. A mark shows what each does, and colour repeats it. Before a prompt there is no pager."""
    lines = [_marked(settings, part) for line in found for part in _prose(line, sys.stdout)]
    if lines and settings.check:
        write_long(settings, lines)
    elif lines:
        write_lines(lines)


def _marked(settings: Settings, line: str) -> str:
    match = _MARK.match(line) if wants_colour(settings, sys.stdout) else None
    return line if match is None else f"{match[1]}{coloured(match[2], _MARKS[match[2]])}{line[match.end(2) :]}"


def block(text: str) -> None:
    """Print several lines, all written by us."""
    _print(visible(text))


def write(written: str) -> None:
    """Print what is written for programs, as it is."""
    _print(written, nl=False)


def write_lines(found: Iterable[str]) -> None:
    """Print lines of a table, whose cells have no control characters but our own colours."""
    _print("\n".join(found))


def write_long(settings: Settings, found: Iterable[str]) -> None:
    """Print lines of a table. If the terminal is too low, a pager shows them: VGPUMGR_PAGER, PAGER or `less -FIRX`.

    There is no pager with -o, or unless stdin and stdout are terminals. An empty VGPUMGR_PAGER switches it off.
    """
    text = [*found]
    pager = os.environ.get("VGPUMGR_PAGER", os.environ.get("PAGER", "less"))
    if pager and settings.output == "table" and is_terminal(sys.stdin) and len(text) >= (_height() or len(text) + 1):
        STATUS.wipe()
        os.environ["PAGER"] = pager
        os.environ.setdefault("LESS", "FIRX")
        click.echo_via_pager("\n".join(text), color=True)
    else:
        write_lines(text)


def _height() -> int | None:
    """The number of lines of the terminal on stdout; None if it is not a terminal, or one without paging."""
    if not is_terminal(sys.stdout) or os.environ.get("TERM") == "dumb":
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or None
    except OSError:
        return None


def _print(text: str, *, error: bool = False, nl: bool = True) -> None:
    STATUS.wipe()
    # click would remove colours from a pipe, but there are some only if they are wanted.
    click.echo(text, nl=nl, err=error, color=True)


def progress(settings: Settings, text: str, *, host: str | None = None) -> None:
    """Print one line on stderr, but not with -q, nor with a format for programs."""
    if not settings.quiet and settings.for_people:
        _tell(settings, "info", "\n".join(_prose(text, sys.stderr)), text, host=host)


def print_warning(settings: Settings, text: str, *, host: str | None = None) -> None:
    """Print one line on stderr, even with -q, but not with json or yaml. With jsonl it is an object."""
    if not settings.prints_document:
        settings = replace(settings, log_format="json") if settings.output == "jsonl" else settings
        _tell(settings, "warning", _labelled(settings, "warning", "yellow", text), text, host=host)


def _tell(
    settings: Settings,
    level: str,
    text: str,
    message: str,
    *,
    host: str | None = None,
    more: Mapping[str, object] | None = None,
) -> None:
    if settings.log_format == "json":
        from vgpumgr.cli.text import log_lines

        text = log_lines.line(level, message, host=host, more=more)
    _print(text, error=True)


def head(column: str) -> str:
    return _HEADS.get(column, column.upper().replace("_", " "))


def cell(value: object) -> str:
    if value is None:
        return "?"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def print_document(settings: Settings, document: Mapping[str, object]) -> None:
    """Print the whole document, as json or yaml."""
    if settings.answer is not None:
        settings.answer.document = document
    elif settings.output == "yaml":
        import yaml

        write(yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False))  # yaml refuses a Message
    else:
        print_json(document)


def print_json(document: Mapping[str, object]) -> None:
    _print(json.dumps(document, indent=1, ensure_ascii=True))


def print_findings(settings: Settings, findings: Iterable[Finding]) -> None:
    """Print findings on stderr; what many hosts or VMs share is told people once. json has them in the document."""
    from vgpumgr.cli.text import alike

    # A journal that cannot be written was reported at once, since a later failure would show no findings.
    distinct = {finding.text: finding for finding in findings if finding.kind != "journal"}.values()
    if not settings.for_people or settings.log_format == "json" or len(distinct) < alike.FEWEST:
        for finding in distinct:
            print_warning(settings, finding.text, host=finding.host)
        return
    for one in alike.findings(distinct):
        if isinstance(one, alike.Alike):
            print_warning(settings, one.message)
            _print_indented(one.lines)
        else:
            print_warning(settings, one.text, host=one.host)


def print_error(settings: Settings, error: VgpumgrError, *, about: Failed | None = None) -> None:
    """Print what failed and where, its details, and last the hint; with json, one object.

    `about`, the failed task, comes first, because several errors may follow; unless the error begins with it anyway.
    """
    from vgpumgr.documents import error as documents

    if settings.output in JSON_ERRORS:
        _print(json.dumps(documents.document(error)), error=True)
        return
    host, message = error.host, error.message
    if about is not None:
        host = about.host
        message = f"{host}: {error.what}" if about.says_whose else f"{host}: {about.subject}: {error.what}"
    if settings.log_format == "json":
        _tell(settings, "error", "", message, host=host, more={**documents.document(error), "message": message})
        return
    from vgpumgr.cli.text import alike

    _print_lines(settings, message, *alike.within(error))


def print_failed(settings: Settings, failed: Iterable[Failed]) -> None:
    """Print tasks' errors for people; what many VMs have in common is printed once. A log has a line for each."""
    from vgpumgr.cli.text import alike

    for one in alike.of_tasks(failed) if settings.log_format != "json" else failed:
        if isinstance(one, alike.Alike):
            _print_lines(settings, one.message, one.lines, one.hint)
        else:
            print_error(settings, one.error, about=one)


_UNREAD = "hosts could not be read"
_ALL_KNOWN = "the details name each host and the error; `unreached` on stdout is complete"


def print_errors(
    settings: Settings, errors: Sequence[VgpumgrError], *, what: str = _UNREAD, hint: str = _ALL_KNOWN
) -> int:
    """Print each error; with -o json, yaml or jsonl only one object, with a detail for each error if there are several.

    `what` and `hint` are for that object: `what` follows the number of errors. Returns the exit code.
    """
    if settings.answer is not None:
        settings.answer.errors += errors
    elif len(errors) < 2 or settings.output not in JSON_ERRORS:
        _print_grouped(settings, errors)
    else:
        from vgpumgr.documents import error as documents

        _print(json.dumps(documents.joined(errors, what=what, hint=hint)), error=True)
    return worst_exit(error.exit_code for error in errors)


def end(
    settings: Settings, fleet: Fleet[View], findings: Iterable[Finding] = (), more: Sequence[VgpumgrError] = ()
) -> int:
    """Print findings, the errors `more`, and an error for each unread host, after the rows. Returns the exit code."""
    print_findings(settings, findings)
    return print_errors(settings, [*more, *(error for _, error in fleet.errors)])


def _print_grouped(settings: Settings, errors: Sequence[VgpumgrError]) -> None:
    """Print errors; what many hosts have in common is printed once. A log has a line for each."""
    from vgpumgr.cli.text import alike

    for one in alike.grouped(errors) if settings.log_format != "json" else errors:
        if isinstance(one, alike.Alike):
            _print_lines(settings, one.message, one.lines, one.hint)
        else:
            print_error(settings, one)


def _print_lines(settings: Settings, message: str, details: Iterable[str], hint: str | None) -> None:
    _print(_labelled(settings, "error", "red", message), error=True)
    _print_indented(details)
    if hint:
        _print(_labelled(settings, "hint", "cyan", hint), error=True)


def _print_indented(lines: Iterable[str]) -> None:
    for line in lines:
        _print("\n".join(_prose(f"  {line}", sys.stderr)), error=True)


def _labelled(settings: Settings, label: str, colour: str, text: str) -> str:
    message = "\n".join(_prose(f"{label}: {text}", sys.stderr))
    return style(settings, f"{label}:", colour) + message.removeprefix(f"{label}:")


def style(settings: Settings, text: str, colour: str) -> str:
    return coloured(text, colour) if wants_colour(settings, sys.stderr) else text


def coloured(text: str, colour: str) -> str:
    """`colour`: one of click's, or `bold` or `dim`."""
    return click.style(text, **({colour: True} if colour in ("bold", "dim") else {"fg": colour}))


def none_on(what: str, hosts: Sequence[str]) -> str:
    """The text in place of an empty table of these hosts. Empty if no host was read, since nothing is known."""
    return f"{what} on {hosts[0] if len(hosts) == 1 else f'{len(hosts)} hosts'}" if hosts else ""


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal. If a daemon has its standard streams closed, Python has None for them."""
    return stream is not None and stream.isatty()


def width(stream: TextIO | None = None) -> int | None:
    """The width of the stream's terminal (by default stdout's), in columns; None if nothing limits a line."""
    stream = sys.stdout if stream is None else stream
    if stream is None or not is_terminal(stream):
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:  # a terminal without a size
        return None


def wants_colour(settings: Settings, stream: TextIO | None) -> bool:
    """Whether `stream` gets colours: as --color says, else on a terminal unless NO_COLOR or TERM=dumb is set."""
    if settings.color != "auto":
        return settings.color == "always"
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
