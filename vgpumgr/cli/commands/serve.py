"""The command serve: the site in a browser, and its documents over HTTP. Read-only."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import counted
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings

_LONGEST_S = 3600.0


@click.command()
@click.option("--socket", "path", type=click.Path(path_type=Path), metavar="PATH", help="Serve on this unix socket.")
@click.option(
    "--keep",
    type=Duration(),
    default="5s",
    show_default=True,
    metavar="TIME",
    help="A host is not read again before its last reading is this old.",
)
@common_options
def serve(settings: Settings, *, path: Path | None, keep: float) -> int:
    """Show the site in a browser, and answer over HTTP what commands that only read say with -o json.

    \b
      vgpumgr serve
      ssh -N -L 8080:/run/vgpumgr/web.sock root@controller     then open http://localhost:8080/

    The default socket is /run/vgpumgr/web.sock for root, $XDG_RUNTIME_DIR/vgpumgr/web.sock for everybody else; its
    group may connect (0660). A socket that systemd passes is used instead (`vgpumgr install web`). No port is opened.
    Nothing can be changed through it. All clients share one reading of each host. A signal ends it. `vgpumgr docs
    serve` lists the pages and addresses.
    """
    from vgpumgr.metrics import socket_place

    if keep > _LONGEST_S:
        raise errors.UsageError("--keep: at most 1h", hint="what is shown would be too old to decide by")
    passed = socket_place.activated()
    if passed is not None:
        if path is not None:
            raise errors.UsageError("--socket cannot be combined with a socket of systemd", hint="leave it out")
        path = Path(passed.getsockname())
    path = path or socket_place.default("web.sock", hint=say("name one with {}", Option("--socket")))
    try:
        from vgpumgr.web import app, server
    except ImportError as error:
        raise errors.UsageError(
            "serve needs the extra `web`, which is not installed here",
            details=[str(error)],
            hint="install it where vgpumgr is: `pip install 'vgpumgr[web]'`",
        ) from error
    from vgpumgr.cli.commands.answers import Answers
    from vgpumgr.cli.wiring import build_context

    context = build_context(settings)  # a broken inventory ends the command, and not each answer
    if settings.check:
        output.progress(settings, f"would serve {counted(len(context.inventory.hosts), 'host')} on {path}")
        return 3
    answers = Answers(settings, functools.partial(build_context, replace(settings, quiet=True)), keep)
    with passed or socket_place.listening(path) as listener:
        output.progress(settings, say("serving the unix socket {}", path))
        output.progress(settings, f"on your machine: ssh -N -L 8080:{path} THIS_MACHINE, then http://localhost:8080/")
        server.serve(listener, app.application(answers))
    return 0
