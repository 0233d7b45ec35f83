"""`vgpumgr install cron|timer|collect|export|web|remove`: prints or writes the files of the jobs and services."""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr import errors, files
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.numbers import Whole
from vgpumgr.cli.params.options import common_options, root_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.reconcile.nightly import Confined, Schedule

CRON_DIR = "/etc/cron.d"
UNIT_DIR = "/etc/systemd/system"
# The files of each job. The last file of a systemd job is the unit to enable.
_FILES = {
    "cron": ("vgpumgr",),
    "timer": ("vgpumgr-reconcile.service", "vgpumgr-reconcile.timer"),
    "collect": ("vgpumgr-collect.service",),
    "export": ("vgpumgr-export.service",),
    "web": ("vgpumgr-web.service", "vgpumgr-web.socket"),
}
_RUNTIME = "vgpumgr"
_WEB = "/run/vgpumgr-web"  # not in _RUNTIME, which systemd removes when the exporter stops
_WRITE = click.option("--write", is_flag=True, help="Install the files instead of printing them; needs root.")
_AT = click.option("--at", default="02:30", show_default=True, metavar="HH:MM", help="Start time, in local time.")
_JITTER = click.option(
    "--jitter",
    type=Whole(0, 600),
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="Random delay of up to this many minutes, so that several controllers do not start at once.",
)
_USER = click.option("--user", default="root", show_default=True, metavar="NAME", help="The user that the job runs as.")
_PLAN_ONLY = click.option("--plan-only", is_flag=True, help="The job only reports drift (`plan`); it changes nothing.")
_DIR = click.option("--dir", "folder", type=click.Path(path_type=Path), help="Write to this directory instead.")


def _job_options(command: Callable[..., int]) -> Callable[..., int]:
    for option in (_DIR, _USER, _JITTER, _AT, _PLAN_ONLY, _WRITE):
        command = option(command)
    return command


@click.group()
@root_options
def install() -> None:
    """Install jobs on this machine: the nightly reconcile, by cron or by a systemd timer, and the collector service."""


@install.command()
@_job_options
@click.option(
    "--mailto",
    metavar="ADDRESS",
    help="Who gets the mail, with a subject line (default: the user of the job, and cron's subject).",
)
@common_options
def cron(
    settings: Settings,
    *,
    write: bool,
    plan_only: bool,
    at: str,
    jitter: int,
    user: str,
    folder: Path | None,
    mailto: str | None,
) -> int:
    """A file for /etc/cron.d. Cron mails the run's output; the run prints nothing while everything is in sync.

    \b
      vgpumgr install cron -i /etc/vgpumgr/inventory
      vgpumgr install cron --write --at 03:15 --mailto gpu-admins
      vgpumgr install cron --write --plan-only
    """
    from vgpumgr import templates
    from vgpumgr.core.reconcile import nightly

    if mailto and not (mailto.isprintable() and set(mailto).isdisjoint(" '\"\\")):
        raise errors.UsageError(f"not a mail address: {mailto!r}")
    schedule = _job(settings, plan_only=plan_only, at=at, jitter=jitter, user=user)
    command = nightly.cron_command(schedule, mailto=mailto)
    text = templates.render_job("nightly-cron.j2", job=schedule, command=command, mailto=mailto)
    return _finish(settings, "cron", [text], folder, write=write)


@install.command()
@_job_options
@common_options
def timer(
    settings: Settings, *, write: bool, plan_only: bool, at: str, jitter: int, user: str, folder: Path | None
) -> int:
    """A systemd service and its timer. The run's output goes to the journal; a problem leaves the service failed.

    \b
      vgpumgr install timer -i /etc/vgpumgr/inventory
      vgpumgr install timer --write && systemctl daemon-reload && systemctl enable --now vgpumgr-reconcile.timer
    """
    from vgpumgr import templates

    schedule = _job(settings, plan_only=plan_only, at=at, jitter=jitter, user=user)
    service = _unit("nightly.service.j2", schedule.words, _confined(settings, schedule.user), job=schedule)
    starts = templates.render_job("nightly.timer.j2", job=schedule)
    return _finish(settings, "timer", [service, starts], folder, write=write)


@install.command()
@_WRITE
@click.option("--every", type=Duration(), default="10s", show_default=True, metavar="TIME", help="Collection interval.")
@_USER
@_DIR
@common_options
def collect(settings: Settings, *, write: bool, every: float, user: str, folder: Path | None) -> int:
    """A systemd service that records what every VM uses. It logs only when a host fails and when it is back.

    \b
      vgpumgr install collect --write && systemctl daemon-reload && systemctl enable --now vgpumgr-collect.service
    """
    from vgpumgr.core.reconcile import nightly

    words = _words(settings, "collect", "--every", f"{every:.15g}s")
    text = _unit("collect.service.j2", words, _confined(settings, user), user=nightly.parse_user(user))
    return _finish(settings, "collect", [text], folder, write=write)


@install.command()
@_WRITE
@click.option("--listen", metavar="ADDRESS:PORT", help="Serve on TCP instead of the unix socket: 127.0.0.1:9836.")
@_USER
@_DIR
@common_options
def export(settings: Settings, *, write: bool, listen: str | None, user: str, folder: Path | None) -> int:
    """A systemd service that serves /metrics to Prometheus: what `install collect` collects.

    \b
      vgpumgr install export --write && systemctl daemon-reload && systemctl enable --now vgpumgr-export.service
      vgpumgr install export --listen 127.0.0.1:9836 --write
    """
    from vgpumgr.core.reconcile import nightly

    where = ("--listen", listen) if listen else ("--socket", f"/run/{_RUNTIME}/metrics.sock")
    words = _words(settings, "export", "prometheus", *where)
    confined = replace(_confined(settings, user), here=False, runtime=None if listen else _RUNTIME)
    text = _unit("export.service.j2", words, confined, user=nightly.parse_user(user))
    return _finish(settings, "export", [text], folder, write=write)


@install.command()
@_WRITE
@click.option(
    "--socket-group", default="root", show_default=True, metavar="NAME", help="The group whose members may connect."
)
@_USER
@_DIR
@common_options
def web(settings: Settings, *, write: bool, socket_group: str, user: str, folder: Path | None) -> int:
    """A systemd socket, and the service that it starts with the first visitor: the pages of `vgpumgr serve`.

    \b
      vgpumgr install web --write && systemctl daemon-reload && systemctl enable --now vgpumgr-web.socket
      vgpumgr install web --socket-group gpu-admins --write

    The socket is /run/vgpumgr-web/web.sock. Who may connect to it sees everything: root, and that group. No port is
    opened. `vgpumgr docs serve` says how to reach it from your own machine.
    """
    from vgpumgr import templates
    from vgpumgr.core.reconcile import nightly

    group, user = nightly.parse_user(socket_group), nightly.parse_user(user)
    service = _unit("web.service.j2", _words(settings, "serve"), _confined(settings, user), user=user)
    socket = templates.render_job("web.socket.j2", folder=_WEB, group=group)
    return _finish(settings, "web", [service, socket], folder, write=write)


def _unit(template: str, words: Sequence[str], confined: Confined, **values: object) -> str:
    """The text of the systemd service that runs the command, made from that template."""
    from vgpumgr import templates
    from vgpumgr.core.reconcile import nightly

    return templates.render_job(template, command=nightly.systemd_command(words), confined=confined, **values)


def _confined(settings: Settings, user: str) -> Confined:
    """What that user's unit may write: the store's folder. `here`: the inventory names this machine as a host."""
    from vgpumgr.controller import environment
    from vgpumgr.core.reconcile.nightly import Confined
    from vgpumgr.store.place import VARIABLE

    here = False
    with contextlib.suppress(errors.VgpumgrError):
        inventory = environment.load_inventory(settings.inventory, settings.group)
        here = any(host.endpoint.is_local for host in inventory.hosts.values())
    store = os.environ.get(VARIABLE)
    if store:
        return Confined(here=here, writes=(str(files.expanded(store).absolute().parent),))
    if user == "root":
        return Confined(here=here, state="vgpumgr")
    try:
        home = Path(pwd.getpwnam(user).pw_dir)
    except KeyError:
        home = Path("/home") / user
    state = home / ".local/state"
    return Confined(here=here, writes=(str(next((one for one in (state, state.parent) if one.is_dir()), home)),))


@install.command()
@click.argument(
    "jobs",
    nargs=-1,
    metavar="[cron|timer|collect|export|web]…",
    type=click.Choice(tuple(_FILES)),
)
@_DIR
@common_options
def remove(settings: Settings, *, jobs: tuple[str, ...], folder: Path | None) -> int:
    """Remove the files that `install … --write` wrote.

    It removes those of all jobs, or only those of the jobs named.

    \b
      vgpumgr install remove --check
      vgpumgr install remove timer

    An edited file is removed only after confirmation (or with --yes). A file that vgpumgr did not write is never
    removed. Units that systemd still runs are listed with the command that stops them.
    """
    from vgpumgr.cli.commands import install_files

    paths = [path for job in dict.fromkeys(jobs or _FILES) for path in _paths(job, folder)]
    return install_files.remove(settings, paths)


def _paths(job: str, folder: Path | None) -> list[Path]:
    base = folder or Path(CRON_DIR if job == "cron" else UNIT_DIR)
    return [base / name for name in _FILES[job]]


def _job(settings: Settings, *, plan_only: bool, at: str, jitter: int, user: str) -> Schedule:
    from vgpumgr.core.reconcile import nightly

    hour, minute = nightly.parse_at(at)
    words = _words(settings, *(("plan", "--record") if plan_only else ("reconcile", "--yes")), "--quiet")
    return nightly.Schedule(
        words=words,
        user=nightly.parse_user(user),
        hour=hour,
        minute=minute,
        jitter_s=jitter * 60,
        plan_only=plan_only,
    )


def _words(settings: Settings, *command: str) -> tuple[str, ...]:
    """The command line with absolute paths only, since neither cron nor systemd starts it in the current directory."""
    from vgpumgr.controller import environment
    from vgpumgr.inventory_files.ansible import VARIABLE as ASK_ANSIBLE
    from vgpumgr.store.place import VARIABLE

    store, ansible = os.environ.get(VARIABLE), os.environ.get(ASK_ANSIBLE)
    group = environment.group_choice(settings.group)
    set_there = (
        *((f"{VARIABLE}={files.expanded(store).absolute()}",) if store else ()),
        *((f"{ASK_ANSIBLE}={ansible}",) if ansible else ()),
    )
    return (
        *(("/usr/bin/env", *set_there) if set_there else ()),
        *_program(),
        *command,
        *(
            word
            for one in environment.inventory_paths(settings.inventory)
            for word in ("--inventory", str(one.absolute()))
        ),
        *(("--group", group.name) if group is not None else ()),
        *(("--log-format", settings.log_format) if settings.log_format != "text" else ()),
        *(("--timeout", str(settings.timeout)) if settings.timeout is not None else ()),
    )


def _program() -> tuple[str, ...]:
    """The words that start this same program: the script beside this interpreter, not what PATH finds later."""
    script = Path(sys.executable).with_name("vgpumgr")
    return (str(script),) if script.exists() else (sys.executable, "-m", "vgpumgr.cli.main")


def _finish(settings: Settings, job: str, texts: Sequence[str], folder: Path | None, *, write: bool) -> int:
    """Print the job's files, report what would change, or write them."""
    from vgpumgr.cli.commands import install_files

    if write:
        _guard_lab(settings)
    contents = dict(zip(_paths(job, folder), texts, strict=True))
    return install_files.install(settings, contents, write=write, then=_next(job, folder))


def _next(job: str, folder: Path | None) -> str:
    """The remark on how to make cron or systemd run the written files.

    cron and systemd may not read a directory that the user named.
    """
    if job == "cron":
        return f"next: put it into {CRON_DIR}, where cron reads it" if folder else "cron reads it within a minute"
    put = f"put the units into {UNIT_DIR}, then " if folder is not None else ""
    return f"next: {put}systemctl daemon-reload && systemctl enable --now {_FILES[job][-1]}"


def _guard_lab(settings: Settings) -> None:
    """Refuse to install a job for a lab's hosts, which end with the lab.

    The lab's variables may still be set in this shell. Raises UsageError if the inventory is a lab's.
    """
    from vgpumgr.controller import environment

    for path in environment.inventory_paths(settings.inventory):
        if path.absolute().with_name("lab.json").is_file():
            raise errors.UsageError(
                f"{path} is a lab's inventory: no job is installed for simulated hosts",
                hint="name your own inventory with -i, or run `unset VGPUMGR_INVENTORY VGPUMGR_STORE VGPUMGR_LAB` first",
            )
