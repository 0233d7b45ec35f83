"""What `serve` answers: the documents of commands that only read, which are run for it as a person would run them.

A parameter of a request is an option of the command by its long name, or one of its arguments. Only those that are
named here are taken: no client names a file, an inventory or an output.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.commands import advise, capacity, explain, history, look, mig, place, report, reserve, usage, waiting
from vgpumgr.cli.rows import ask, site
from vgpumgr.cli.settings import Answer
from vgpumgr.controller.hosts.shared_looks import Shared, SharedLooks, copied
from vgpumgr.web.openapi import Operation, Parameter
from vgpumgr.web.told import Told, no_parameter
from vgpumgr.web.viewer import LOCAL
from vgpumgr.wording import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.context import Context
    from vgpumgr.web.told import Query
    from vgpumgr.web.viewer import Viewer

logger = logging.getLogger(__name__)
_INVENTORY_S = 60.0
_WISH = (
    *("profile", "gpu-memory", "gpu", "fgpu", "mig-profile", "series"),
    *("usable", "max-waste", "compute", "only", "prefer"),
)
_FLAG = {"": True, "1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A command that is served. `words`: what follows its name. `arguments`: the parameter for its arguments.

    `takes_one`: there is exactly one argument.
    """

    command: click.Command
    words: tuple[str, ...] = ()
    arguments: str | None = None
    takes_one: bool = False
    options: tuple[str, ...] = ()

    def argv(self, query: Query) -> tuple[str, ...]:
        """The command's words for a request. Raises UsageError for a parameter that it does not have."""
        words, arguments, given = [*self.words], [], set()
        for name, value in query:
            if name == self.arguments:
                arguments.append(value)
            elif name in self.options:
                if not self.option(name).multiple and name in given:
                    raise errors.UsageError(f"{name} is given twice", hint="give it once")
                given.add(name)
                words += self._option(name, value)
            else:
                raise no_parameter(name, [one for one in (self.arguments, *self.options) if one])
            if not (self.takes_one and name == self.arguments):  # a VM's own name, of which no list is made
                _guard_files(value)
        return (*words, *(["--"] if any(one.startswith("-") for one in arguments) else []), *arguments)

    def _option(self, name: str, value: str) -> list[str]:
        if not self.option(name).is_flag:
            return [f"--{name}={value}"]
        if value not in _FLAG:
            raise errors.UsageError(
                f"{name}={value}: neither true nor false", hint=f"write {name}=true, or leave it out"
            )
        return [f"--{name}"] if _FLAG[value] else []

    def option(self, name: str) -> click.Option:
        """The command's option of that long name."""
        return next(one for one in self.command.params if isinstance(one, click.Option) and f"--{name}" in one.opts)

    def operation(self, name: str) -> Operation:
        """It in the terms of OpenAPI."""
        several = not self.takes_one
        named = Parameter(
            name=self.arguments or "",
            description=f"What the command takes as its argument{'s' if several else ''}.",
            is_many=several,
            is_path=self.takes_one,
        )
        options = [(key, self.option(key)) for key in self.options]
        return Operation(
            name=name,
            summary=" ".join(["vgpumgr", self.command.name or name, *self.words]),
            parameters=(
                *([named] if self.arguments else []),
                *(Parameter(name=key, description=one.help or "", is_many=one.multiple) for key, one in options),
            ),
        )


ENDPOINTS = {
    "discover": Endpoint(command=look.discover, arguments="hosts", options=("on",)),
    "list": Endpoint(command=look.list_command, arguments="named", options=("on",)),
    "show": Endpoint(command=look.show, arguments="vm", takes_one=True, options=("on",)),
    "profiles": Endpoint(command=look.profiles_command, arguments="hosts", options=("fits",)),
    "capacity": Endpoint(
        command=capacity.capacity,
        arguments="profiles",
        options=("on", "count", "for", "stranded", "gpu-memory", "gpu", "fgpu", "series"),
    ),
    "explain": Endpoint(command=explain.explain, options=(*_WISH, "on", "gpu-id", "policy", "compare")),
    "place": Endpoint(command=place.place, options=(*_WISH, "on", "count", "policy")),
    "waiting": Endpoint(command=waiting.waiting, arguments="hosts", options=("on",)),
    "reservations": Endpoint(command=reserve.reserve, words=("list",), options=("on",)),
    "report": Endpoint(command=report.report, arguments="hosts", options=("on", "since")),
    "mig_show": Endpoint(command=mig.mig, words=("show",), arguments="hosts"),
    "usage": Endpoint(
        command=usage.usage, arguments="named", options=("on", "since", "idle", "idle-limit", "over", "by")
    ),
    "advise": Endpoint(command=advise.advise, arguments="named", options=("on", "days")),
    "history": Endpoint(command=history.history, arguments="named", options=("limit", "since")),
}


class Answers:
    """The answers to all clients. Hosts, and answers that several want at once, are shared for `keep_s` seconds.

    `make` gives what the commands work with; it is called again after a minute, as the inventory may have changed.
    """

    def __init__(self, settings: Settings, make: Callable[[], Context], keep_s: float) -> None:
        self._settings = {"output": "json", "inventory": settings.inventory, "group": settings.group}
        self._make = make
        self._contexts: Shared[None, Context] = Shared(_INVENTORY_S)
        self._looks = SharedLooks(keep_s)
        self._asking: Shared[None, ask.Offered] = Shared(keep_s)
        self._answers: Shared[tuple[str, ...], tuple[Answer, float | None]] = Shared(keep_s)

    @property
    def pages(self) -> Collection[str]:
        return site.PAGES.keys()

    def page(self, name: str, query: Query, viewer: Viewer = LOCAL) -> tuple[str, Told]:
        if name == site.ASK:
            return self._ask(query, viewer)
        of = site.PAGES[name].of
        try:
            asked = site.PAGES[name].asks(query)
            told = self.document(of, asked, viewer)
            if told.error is not None or told.document is None:
                raise told.error or errors.UnknownName("nothing was answered")
            command = Command("vgpumgr", of, *ENDPOINTS[of].argv(asked))
            documents = partial(self.document, viewer=viewer)
            return site.html(name, told.document, query, documents, command=command, age_s=told.age_s), told
        except errors.VgpumgrError as error:
            return site.error(error), Told(document=None, error=error)

    def _ask(self, query: Query, viewer: Viewer) -> tuple[str, Told]:
        try:
            form = ask.Form.read(query)
            offered = self._asking.get(None, self._offered).get()
        except errors.VgpumgrError as error:
            return site.error(error), Told(document=None, error=error)
        answer = ask.answer(form, lambda name, asked: self.document(name, asked, viewer))
        return site.asked(form, offered, answer), answer.told

    def _offered(self) -> tuple[ask.Offered, float]:
        """What the form offers, by the same looks."""
        from vgpumgr.controller.report import observe_fleet

        now = time.monotonic()
        context = self._looks.context(self._context(), lambda _since: None)
        vms = {one.name for view in observe_fleet(context).views for one in view.domains}
        has_fgpu = any(host.fgpu_per_gpu for host in context.inventory.hosts.values())
        return ask.Offered(vms=sorted(vms), has_fgpu=has_fgpu), now

    def _context(self) -> Context:
        return self._contexts.get(None, lambda: (self._make(), time.monotonic())).get()

    def operations(self) -> tuple[Operation, ...]:
        return tuple(endpoint.operation(name) for name, endpoint in ENDPOINTS.items())

    def error_page(self, error: errors.VgpumgrError) -> str:
        return site.error(error)

    def document(self, name: str, query: Query, viewer: Viewer = LOCAL) -> Told:  # noqa: ARG002 -- all see the same
        try:
            words = ENDPOINTS[name].argv(query)
            answer, since = self._answers.get((name, *words), lambda: self._answer(name, words)).get()
        except errors.VgpumgrError as error:
            return Told(document=None, error=error)
        except Exception as error:  # a bug must be an answer, too
            logger.critical("%s: unexpected", name, exc_info=error)
            return Told(document=None, error=errors.Unexpected.of(error, about=name))
        failed = next((one for one in answer.errors if isinstance(one, errors.RequestError)), None)
        age_s = None if since is None else max(0.0, time.monotonic() - since)
        return Told(document=answer.document, error=None if failed is None else copied(failed), age_s=age_s)

    def _answer(self, name: str, words: Sequence[str]) -> tuple[tuple[Answer, float | None], float]:
        seen: list[float] = []
        answer = Answer(context=self._looks.context(self._context(), seen.append))
        began = time.monotonic()
        _run(ENDPOINTS[name].command, words, {**self._settings, "answer": answer})
        since = min(seen, default=None)
        return (answer, since), began if since is None else since


def _run(command: click.Command, words: Sequence[str], settings: dict[str, object]) -> None:
    """Run a command with these settings; what it says is in their answer. Raises VgpumgrError."""
    program = click.Context(click.Group("vgpumgr"), info_name="vgpumgr")
    program.meta["vgpumgr.settings"] = settings
    try:
        with command.make_context(command.name, [*words], parent=program) as context:
            command.invoke(context)
    except click.ClickException as error:
        text = error.format_message().rstrip(".")
        hint = f"see `{program.command_path} {command.name} --help`"
        raise errors.UsageError(text[:1].lower() + text[1:], hint=hint) from error


def _guard_files(value: str) -> None:
    """Raises UsageError for `@FILE`, which would be read on this machine."""
    from vgpumgr.core.inventory import patterns

    if any(part.startswith("@") for part in (value.lstrip(), *(patterns.split([value]) if "@" in value else ()))):
        raise errors.UsageError(f"{value!r} names a file", hint="write the names themselves")
