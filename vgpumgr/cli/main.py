"""The program `vgpumgr`: families of commands, loaded when called; errors become messages and exit codes here."""

from __future__ import annotations

import atexit
import errno
import importlib
import logging
import os
import re
import signal
import sys
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, NoReturn

import click

from vgpumgr.cli.params.options import is_parsed, root_options, settings_of
from vgpumgr.cli.settings import COMPLETE, Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from vgpumgr import errors


# name → (module of vgpumgr.cli, attribute, help): the help is kept here so that `--help` imports nothing else.
_COMMANDS: dict[str, dict[str, tuple[str, str, str]]] = {
    "Daily": {
        "attach": ("commands.change", "attach", "Attach a vGPU to a VM, or to several."),
        "detach": ("commands.change", "detach", "Detach a VM's vGPU, or those of several."),
        "list": ("commands.look", "list_command", "Every vGPU on the hosts: owner, location, state."),
        "show": ("commands.look", "show", "One VM: what was requested, what it has, any findings."),
        "plan": ("commands.reconcile", "plan", "Show what reconcile would do, and why."),
        "reconcile": (
            "commands.reconcile",
            "reconcile",
            "Reconcile every host with the inventory and earlier attaches.",
        ),
        "mode": ("commands.mode", "mode", "Show or set whether GPUs take vGPUs of one size, or of several."),
        "partition": ("commands.partition", "partition", "Divide idle GPUs by what is asked for: advise, apply."),
        "scheduler": ("commands.scheduler", "scheduler", "Show or set how GPUs share their time among vGPUs."),
        "reserve": ("commands.reserve", "reserve", "Keep places for VMs to come, list them, give them up."),
        "waiting": ("commands.waiting", "waiting", "Which slots wait for room: since when, why, what would help."),
        "cordon": ("commands.maintenance", "cordon", "Keep new vGPUs from a host or GPU, with the reason."),
        "drain": ("commands.maintenance", "drain", "Cordon a host or GPU and list what blocks maintenance."),
        "uncordon": ("commands.maintenance", "uncordon", "Let a host or GPU take new vGPUs again."),
        "defrag": ("commands.defrag", "defrag", "Move idle vGPUs within their hosts so that a wish fits."),
        "migrate-framework": (
            "commands.migrate_framework",
            "migrate_framework",
            "Re-create vGPUs after the kernel or driver changed framework.",
        ),
        "gc": ("commands.mig", "gc", "Give back GPU instances (MIG) that hold no vGPU."),
        "adopt": ("commands.adopt", "adopt", "Take over existing vGPUs into a host's ledger."),
    },
    "Look": {
        "doctor": ("commands.doctor", "doctor", "What is wrong on the hosts, and what mends it."),
        "report": ("commands.report", "report", "The state of the site as a page, as Markdown, or as rows."),
        "serve": ("commands.serve", "serve", "The site in a browser and over HTTP, read-only."),
        "discover": ("commands.look", "discover", "The hosts' GPUs: board, framework, free capacity."),
        "capacity": ("commands.capacity", "capacity", "What still fits: every profile by board, or one on each GPU."),
        "profiles": ("commands.look", "profiles_command", "Available profiles, and what fits now."),
        "units": ("commands.units", "units", "What 1 fGPU, 0.1 GPU and 4G mean on each board."),
        "mig": ("commands.mig", "mig", "GPU instances (MIG): what is there, and what fits together."),
        "explain": ("commands.explain", "explain", "Which type on which GPU would serve a wish, and why."),
        "place": ("commands.place", "place", "Where VMs that do not exist yet would get their vGPUs."),
        "fit": ("commands.fit", "fit", "Whether vGPUs fit on empty GPUs together; no host is needed."),
        "render": ("commands.look", "render", "The libvirt XML of a VM's vGPUs."),
        "top": ("commands.top", "top", "Live GPU usage by VM."),
        "collect": ("commands.collect", "collect", "Record what every VM uses: once, or continuously."),
        "usage": ("commands.usage", "usage", "What every VM used, next to its guaranteed share."),
        "advise": ("commands.advise", "advise", "What would use the GPUs better: too big, too small, idle, unused."),
        "export": ("commands.export", "export", "Export collected metrics to Prometheus, as a file or a server."),
        "history": ("commands.history", "history", "Who changed what, when and why, and the outcome."),
    },
    "Set-up": {
        "docs": ("commands.docs", "docs", "Read the documentation in the terminal."),
        "inventory": ("commands.inventory", "inventory", "Check the inventory."),
        "lab": ("commands.lab", "lab", "Simulated hosts: everything real except the GPU."),
        "install": ("commands.nightly", "install", "Install the nightly reconcile or the collector on this machine."),
        "host": ("commands.host", "host", "What is installed on hosts; leave one without a trace."),
        "forget": ("commands.forget", "forget", "Remove what is known here of a VM or host that is gone."),
        "completion": ("params.completion", "completion", "Shell completion for bash, zsh or fish."),
        "version": ("commands.docs", "version", "Versions of the tool, its protocol and Python."),
    },
}


# Other tools and commands name hosts by these options; commands with an argument of _NAMED take them as arguments.
_WHERE = ("--on", "--host", "--hosts", "--limit")
_NAMED = {"hosts", "host", "chosen"}
_EXTRA = re.compile(r"unexpected extra arguments? \(([^\s)]+)")
_PROFILE = re.compile(r"(?:[A-Z0-9]+-)?\d+[ABCQ]")  # a guess at what was meant; core/driver/profiles.py reads them

_JSON = {"-ojson", "--output=json", ("-o", "json"), ("--output", "json")}
_ENTRIES = {name: entry for family in _COMMANDS.values() for name, entry in family.items()}


def families() -> dict[str, dict[str, str]]:
    """Every command with its help line, by family, in the order of `--help`."""
    return {title: {name: text for name, (_, _, text) in family.items()} for title, family in _COMMANDS.items()}


class _Program(click.Group):
    """A group that imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return [*_ENTRIES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- as above
        if cmd_name not in _ENTRIES:
            return None
        module, attribute, _ = _ENTRIES[cmd_name]
        command = getattr(importlib.import_module(f"vgpumgr.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in _ENTRIES:
            from vgpumgr.cli.params import other_words
            from vgpumgr.names import nearest

            command_name = other_words.meant(name)
            near = nearest(name, _ENTRIES)
            advice = f": it is {command_name}" if command_name else f"; did you mean {near}?" if near else ""
            ctx.fail(f"no command {name!r}{advice}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- as above
        for title, family in families().items():
            with formatter.section(title):
                formatter.write_dl(list(family.items()))


def _print_versions(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001 -- click's signature
    if value and not ctx.resilient_parsing:
        from vgpumgr.cli.wiring import versions

        for name, text in versions().items():
            click.echo(f"{name:<16} {text}")
        ctx.exit()


@click.group(
    cls=_Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done · 1 failed · 2 usage or unknown name · 3 would change · 4 host not reached · "
    "5 refused or no capacity · 6 busy. More: vgpumgr docs exit-codes",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Versions of the tool, its protocol and Python.",
)
@root_options
def program() -> None:
    """NVIDIA vGPUs for libvirt VMs, on plain KVM hosts over SSH.

    \b
      vgpumgr attach vm01 --profile 4Q
      vgpumgr list -o wide
    """


_LOCKS = "<frozen importlib._bootstrap>"
_AGAIN_S = 0.01


class Terminated(KeyboardInterrupt):
    """SIGTERM unwinds like Ctrl-C, so that half-done work is undone."""


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the program and exit with the documented code; if a shell asks for completions, print those instead."""
    if instruction := os.environ.get(COMPLETE):
        from vgpumgr.cli.params import completion

        completion.answer(program, instruction)
        sys.exit(0)
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    _leave(run(sys.argv[1:] if argv is None else argv))


def _leave(code: int) -> NoReturn:
    """End the process with that code, without finalizing the interpreter.

    After a lost connection, threads can still be inside C code (OpenSSL), and finalization removes the interpreter
    from under them. That is the likely cause of a segmentation fault that once replaced the exit code, after a lost
    connection under load (3.11); it could not be reproduced.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):  # the work is done; nothing is left to interrupt
        signal.signal(number, signal.SIG_IGN)
    atexit._run_exitfuncs()  # noqa: SLF001 -- they remove the sockets' folders; there is no public way to run them
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            code = code or 141
        except OSError:
            code = code or 1
    os._exit(code)


def run(argv: list[str]) -> int:
    """Run one command line and return its exit code; every error is printed here and nowhere else."""
    from vgpumgr import errors
    from vgpumgr.cli.text import output

    context: click.Context | None = None
    try:
        with program.make_context("vgpumgr", list(argv)) as context:
            result = program.invoke(context)
            return result if isinstance(result, int) else 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.NoArgsIsHelpError as found:  # `vgpumgr scheduler` prints its help as it is
        click.echo(found.format_message(), err=True)
        return errors.UsageError.exit_code
    except click.ClickException as found:
        output.print_error(_settings(context, argv), _as_ours(found, argv))
        return errors.UsageError.exit_code
    except Terminated:
        return 143
    except (KeyboardInterrupt, click.Abort):
        output.progress(_settings(context, argv), "interrupted")
        return 130
    except BrokenPipeError:
        _forget_stdout()
        return 141
    except errors.Declined as no:  # the user decided so: it is no error
        output.progress(_settings(context, argv), f"cancelled; {no.message}")
        return no.exit_code
    except errors.VgpumgrError as error:
        output.print_error(_settings(context, argv), error)
        return error.exit_code
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return _bug(context, argv, error)
        full = errors.VgpumgrError(
            f"the output cannot be written: {error.strerror}",
            hint="free some space, then check the result: `vgpumgr list`",
        )
        output.print_error(_settings(context, argv), full)
        return full.exit_code
    except Exception as error:  # noqa: BLE001 -- a bug must end as an error too
        return _bug(context, argv, error)
    finally:
        output.STATUS.wipe()


def _as_ours(error: click.ClickException, argv: list[str]) -> errors.UsageError:
    """A click error, as one of our own errors."""
    from vgpumgr import errors

    message = _near_miss(error) or _missing_choice(error) or error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = next(
        (f" {word}" for word in argv if word in _ENTRIES), ""
    )  # some errors of click's parser have no context
    path = f"vgpumgr{command}" if context is None else context.command_path
    arguments = (
        () if context is None else [one.name for one in context.command.params if isinstance(one, click.Argument)]
    )
    if isinstance(error, click.NoSuchOption) and error.option_name in _WHERE and {*arguments} & _NAMED:
        return errors.UsageError(message, hint=f"hosts are named without an option: {path} kvm01")
    return errors.UsageError(message[:1].lower() + message[1:], hint=_way_on(error, path))


def _way_on(error: click.ClickException, path: str) -> str:
    """A hint: what to type instead, if that is clear; else to see --help."""
    parameters = error.ctx.command.params if isinstance(error, click.UsageError) and error.ctx is not None else []
    extra = _EXTRA.search(error.format_message())
    if extra is not None and _PROFILE.fullmatch(extra[1]) and any("--profile" in one.opts for one in parameters):
        return f"did you mean --profile {extra[1]}?"
    if extra is not None and any("HOST" in (one.metavar, (one.name or "").upper()) for one in parameters):
        return f"{path} takes one host at a time"
    return f"see `{path} --help`"


def _near_miss(error: click.ClickException) -> str | None:
    """A suggestion for a wrong word. Click's own is too generous (`--idle`: "did you mean --quiet?")."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        wrong, what = error.option_name, "option"
        valid = [
            name for parameter in error.ctx.command.params for name in (*parameter.opts, *parameter.secondary_opts)
        ]
    elif (
        isinstance(error, click.NoSuchCommand) and error.ctx is not None and isinstance(error.ctx.command, click.Group)
    ):
        wrong, what, valid = error.command_name, "command", error.ctx.command.list_commands(error.ctx)
    else:
        return None
    from vgpumgr.names import nearest

    near = nearest(wrong, [name for name in valid if not name.startswith("-") or name.startswith("--")])
    return f"no {what} {wrong if what == 'option' else repr(wrong)}" + (f"; did you mean {near}?" if near else "")


def _missing_choice(error: click.ClickException) -> str | None:
    """A missing choice and its values, in one line (click's has a line for each); None for any other error."""
    if not isinstance(error, click.MissingParameter) or error.param is None or error.param.name is None:
        return None
    if not isinstance(error.param.type, click.Choice):
        return None
    *others, last = map(str, error.param.type.choices)
    return f"missing argument {error.param.name.upper()}: {', '.join(others)} or {last}"


def _bug(context: click.Context | None, argv: list[str], error: Exception) -> int:
    """Report an unexpected exception; -v also prints its traceback."""
    from vgpumgr import errors
    from vgpumgr.cli.text import output

    logging.getLogger(__name__).error("unexpected", exc_info=error)
    bug = errors.Unexpected.of(error)
    output.print_error(_settings(context, argv), bug)
    return bug.exit_code


def _settings(context: click.Context | None, argv: list[str]) -> Settings:
    """The settings. Where the command line was not parsed to its end, its `-o json` and `--log-format json` count."""
    settings = settings_of(context) if context else Settings()
    if context and is_parsed(context):
        return settings
    words = [*takewhile(lambda word: word != "--", argv)]
    said = {*words, *pairwise(words)}
    if settings.output == "table" and said & _JSON:
        settings = replace(settings, output="json")
    if said & {"--log-format=json", ("--log-format", "json")}:
        settings = replace(settings, log_format="json")
    return settings


def _terminate(_number: int, frame: FrameType | None) -> None:
    if not _put_off(frame, _terminate):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated


def _interrupt(_number: int, frame: FrameType | None) -> None:
    if not _put_off(frame, _interrupt):
        raise KeyboardInterrupt


def _put_off(frame: FrameType | None, handler: Callable[[int, FrameType | None], None]) -> bool:
    """Whether a signal came where Python discards exceptions. Then its handler is called again in a moment.

    Those places are finalizers, and the callback of a module's lock (importlib/_bootstrap.py, _get_module_lock). A
    signal that is lost in there would leave a server running.
    """
    while frame is not None:
        code, frame = frame.f_code, frame.f_back
        if code.co_name == "__del__" or (code.co_name, code.co_filename) == ("cb", _LOCKS):
            break
    else:
        return False
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    return True


def _forget_stdout() -> None:
    # The reader has closed the pipe; without this the interpreter complains when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
