"""What is asked on a page of `serve`, and the answer of `explain` or `place` to it. Nothing is decided here."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final

from vgpumgr import errors
from vgpumgr.cli.rows.gpus import EXPLAIN
from vgpumgr.cli.rows.profiles import PLACES
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
        """The form of a request. Raises UsageError for a parameter that it does not have."""
        takes = [one.name for one in fields(cls)]
        if unknown := next((name for name, _ in query if name not in takes), None):
            raise no_parameter(unknown, takes)
        typed = {name: value if name == "vm" else value.strip() for name, value in query}
        return cls(**{name: value for name, value in typed.items() if value or name == "amount"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was told of it, with `explain`'s document, also if fewer find a place than were asked for.

    `host`: the VM's. `has`: its slots, with what was asked for each. `commands`: by what they do; the first asks this.
    """

    told: Told
    host: str = ""
    has: Sequence[str] = ()
    places: Sequence[Row] = ()
    commands: Mapping[str, Command] = field(default_factory=dict)


def answer(form: Form, document: Document) -> Answer:
    """Ask `explain` for a VM on its own host, else `place`, and `explain` for the reasons."""
    if form.amount is None:
        return Answer(told=Told(document=None))
    about = _about_vm(form, document) if form.vm else Answer(told=Told(document={}))
    if about.told.document is None:
        return about
    on = about.host or form.on
    wish = [(form.way, form.amount), *([("on", on)] if on else [])]
    told = document("explain", wish)
    if told.error is not None or told.document is None:
        return Answer(told=told)
    places = _first(told.document)
    several = () if form.count == "1" else ("--count", form.count)
    if several or not form.vm:
        placed = document("place", [*wish, ("count", form.count)])
        if placed.document is None or not isinstance(placed.error, errors.NoCapacity | None):
            return Answer(told=placed)
        told, places = replace(told, error=placed.error), PLACES.rows(placed.document)
    words = (*(word for key, value in wish for word in (f"--{key}", value)), *several)
    return replace(about, told=told, places=places, commands=_commands(form, words, fits=bool(places)))


def _first(document: Row) -> Sequence[Row]:
    """Where the vGPU would go, by `explain`; nowhere if no GPU takes it."""
    return [{**one, "gpu": one["pci"]} for one in EXPLAIN.rows(document) if one["rank"] == 1]


def _about_vm(form: Form, document: Document) -> Answer:
    """Where the VM is, and what it has; without a document: why that is not known."""
    shown = document("show", [("vm", form.vm), *([("on", form.on)] if form.on else [])])
    if shown.error is not None or shown.document is None:
        return Answer(told=replace(shown, document=None))
    vm: Row = shown.document["vm"]  # type: ignore[assignment]
    return Answer(told=shown, host=vm["host"], has=[f"{one['slot']}, {one['requested']}" for one in vm["claims"]])


def _commands(form: Form, words: Sequence[str], *, fits: bool) -> dict[str, Command]:
    """The command lines that ask this, and those that do it."""
    if not form.vm:
        ask = {"Ask this:": Command("vgpumgr", "place", *words)}
        keep = Command("vgpumgr", "reserve", *words, "--for", "team-a")
        attach = Command("vgpumgr", "attach", "VM", *words[:2])
        do = {"Keep the room for 7 days, under a name:": keep, "Make each VM on its host, then attach:": attach}
    else:
        vm = (*words, "--", form.vm) if form.vm.startswith("-") else (form.vm, *words)
        name = "explain" if form.count == "1" else "place"
        ask = {"Ask this:": Command("vgpumgr", name, *words)}
        ask["See the plan, or what would help; nothing is changed:"] = Command("vgpumgr", "attach", "--check", *vm)
        do = {"Attach:": Command("vgpumgr", "attach", *vm)}
    return {**ask, **do} if fits else ask
