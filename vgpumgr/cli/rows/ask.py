"""What is asked on a page of `serve`, and the answer of `explain` or `place` to it. Nothing is decided here."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final

from vgpumgr import errors
from vgpumgr.cli.rows.gpus import EXPLAIN
from vgpumgr.web.told import Told, no_parameter
from vgpumgr.wording import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.web.told import Query

    Document = Callable[[str, Query], Told]
    """The object of a command, by its name, for a request."""

WAYS: Final[Mapping[str, tuple[str, str]]] = {
    "gpu": ("a share of one GPU", "0.5"),
    "gpu-memory": ("memory", "8G"),
    "fgpu": ("fGPUs, the site's unit", "0.5"),
    "profile": ("a profile", "4Q"),
    "mig-profile": ("a MIG profile", "2g.10gb"),
}
"""The ways to ask, by their options: what a person calls each, and an example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What the form offers. `has_fgpu`: the inventory has a unit of the site's own."""

    vms: Sequence[str]
    has_fgpu: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What was typed. `vm` empty: one that does not exist yet. `amount` None: nothing was asked."""

    vm: str = ""
    way: str = "gpu"
    amount: str | None = None
    count: str = "1"
    on: str = ""

    @classmethod
    def read(cls, query: Query) -> Form:
        """The form of a request. Raises UsageError for a parameter that it does not have, or has twice."""
        takes = [one.name for one in fields(cls)]
        given: dict[str, str] = {}
        for name, value in query:
            if name not in takes:
                raise no_parameter(name, takes)
            if name in given:
                raise errors.UsageError(f"{name} is given twice", hint="give it once")
            given[name] = value if name == "vm" else value.strip()
        return cls(**{name: value for name, value in given.items() if value or name == "amount"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was told of it, with `explain`'s document, also if fewer than `count` find a place.

    `has`: the slots that the VM has, with what was asked for each. `host`: the VM's.
    """

    told: Told
    command: Command | None = None
    host: str = ""
    has: Sequence[str] = ()
    count: int = 1
    places: Sequence[Row] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)


def answer(form: Form, document: Document) -> Answer:
    """Ask the commands: for a VM on its own host, else over all hosts."""
    if form.amount is None:
        return Answer(told=Told(document=None))
    told: list[Told] = []

    def ask(name: str, query: Query) -> Row | None:
        told.append(document(name, query))
        return None if told[-1].error is not None else told[-1].document

    host, on = "", form.on
    has: list[str] = []
    if form.vm:
        shown = ask("show", [("vm", form.vm), *([("on", on)] if on else [])])
        if shown is None:
            return Answer(told=told[-1])
        host = on = shown["vm"]["host"]
        has = [f"{one['slot']}, {one['requested']}" for one in shown["vm"]["claims"]]
    wish = [(form.way, form.amount), *([("on", on)] if on else [])]
    explained = ask("explain", wish)
    if explained is None:
        return Answer(told=told[-1])
    name, count = ("explain", 1) if form.vm and form.count == "1" else ("place", 0)
    places = [{**one, "gpu": one["pci"]} for one in EXPLAIN.rows(explained) if one["rank"] == 1]
    if name == "place":
        told.append(document(name, [*wish, ("count", form.count)]))
        placed: Row | None = told[-1].document
        if placed is None or not isinstance(told[-1].error, errors.NoCapacity | None):
            return Answer(told=told[-1])
        count, places = placed["count"], placed["places"]
    words = tuple(word for key, value in wish for word in (f"--{key}", value))
    several = () if count == 1 else ("--count", form.count)
    ages = [one.age_s for one in told if one.age_s is not None]
    return Answer(
        told=Told(document=explained, error=told[-1].error, age_s=max(ages, default=None)),
        command=Command("vgpumgr", name, *words, *(several if name == "place" else ())),
        host=host,
        has=has,
        count=count,
        places=places,
        commands=_commands(form.vm, words, several, fits=bool(places)),
    )


def _commands(vm: str, words: Sequence[str], several: Sequence[str], *, fits: bool) -> dict[str, Command]:
    """The command lines that do it, by what they do; the first changes nothing."""
    if vm:
        attach = ("vgpumgr", "attach")
        named = (*words, *several, "--", vm) if vm.startswith("-") else (vm, *words, *several)
        look = {"See the plan, or what would help. Nothing is changed:": Command(*attach, "--check", *named)}
        return {**look, "Attach it:": Command(*attach, *named)} if fits else look
    look = {"For a program:": Command("vgpumgr", "place", *words, *several, "-o", "json")}
    more = {
        "Keep the room for 7 days, under a name:": Command("vgpumgr", "reserve", *words, *several, "--for", "team-a"),
        "Make each VM on its host, then attach:": Command("vgpumgr", "attach", "VM", *words[:2]),
    }
    return {**look, **more} if fits else look
