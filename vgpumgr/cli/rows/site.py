"""The pages of `serve`, each made from the document of one command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vgpumgr.cli.rows import ask, card, cells, page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vgpumgr.cli.rows.ask import Document
    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.web.told import Query
    from vgpumgr.wording import Command

    Sides = dict[str, dict[str, str]]
    """What each side says of a slot: its lines by their labels."""
    Values = Callable[[Row, Query, Document], Mapping[str, object]]
    """What a template shows of a document; it may ask for others."""

ASK: Final = "ask"
_SIDES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "Asked": ("claims", {"wish": "requested", "by": "by", "at": "at", "declared": "declared"}),
    "Claim": (
        "claims",
        {"state": "state", "type": "type_name", "vGPU": "uuid", "function": "parent", "GPU": "gpu_uuid"},
    ),
    "Definition": ("hostdevs", {"device": "device"}),
    "Driver": (
        "vgpus",
        {"state": "state", "type": "type_name", "vGPU": "uuid", "function": "vf", "GPU": "gpu", "held by": "holder"},
    ),
}
"""Who says something of a slot: in which part of the document, and its labels with the keys there."""


def _waiting(document: Row, _query: Query, _ask: Document) -> Mapping[str, object]:
    return {"tables": [page.waiting(document["slots"])], "waiting": document["slots"]}


def _owners(document: Row, _query: Query, _ask: Document) -> Mapping[str, object]:
    return {"tables": [*page.used(document)], "waiting": []}


def _vm(document: Row, _query: Query, _ask: Document) -> Mapping[str, object]:
    return {"title": document["vm"]["name"], "slots": slots(document["vm"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: its title, the command whose document it shows, and how. `asks`: its parameters as the command's."""

    title: str
    of: str
    template: str = "tables.html.j2"
    values: Values = lambda _document, _query, _ask: {}
    asks: Callable[[Query], Query] = lambda query: query


PAGES: Final[Mapping[str, Page]] = {
    "fleet": Page(title="Fleet", of="report", template="fleet.html.j2"),
    "waiting": Page(title="Who waits", of="waiting", values=_waiting),
    "owners": Page(title="Owners and usage", of="report", values=_owners),
    ASK: Page(title="Ask", of="explain", template="ask.html.j2"),
    "vm": Page(title="VM", of="show", template="vm.html.j2", values=_vm),
    "card": Page(title="Card", of="report", template="card.html.j2", values=card.values, asks=card.asks),
}
"""The first is at `/`."""
_LINKS: Final = [("/", PAGES["fleet"].title), *((f"/{name}", PAGES[name].title) for name in ("waiting", "owners", ASK))]


def html(name: str, document: Row, query: Query, documents: Document, *, command: Command, age_s: float | None) -> str:
    """A page. `command` shows the same; `age_s`: how long ago the hosts were read. Raises UnknownGpu."""
    one, age = PAGES[name], None if age_s is None else round(age_s)
    values = {"title": one.title, **one.values(document, query, documents)}
    return _render(one.template, page=document, command=command, age_s=age, **values)


def asked(form: ask.Form, offered: ask.Offered, answer: ask.Answer) -> str:
    """The page with the form, and with what was answered."""
    told, values = answer.told, {"form": form, "offered": offered, "ways": ask.WAYS, "answer": answer}
    if told.document is not None:
        values |= {"page": told.document, "tables": [page.explained(told.document)]}
        values |= {"command": next(iter(answer.commands.values())), "age_s": round(told.age_s or 0)}
    return _render("ask.html.j2", title=PAGES[ASK].title, error=told.error, **values)


def error(problem: VgpumgrError) -> str:
    """A page that says what went wrong."""
    return _render("site.html.j2", title="Not shown", error=problem)


def _render(template: str, **values: object) -> str:
    shared = {"links": _LINKS, "page": None, "error": None, "command": None}
    return page.render(template, vm_address=card.vm_address, card_address=card.address, **{**shared, **values})


def slots(vm: Row) -> dict[str, Sides]:
    """Each slot of a VM as four sides see it: what was asked, the claim, the definition, and the driver."""
    names = dict.fromkeys(one["slot"] for part in ("claims", "hostdevs", "vgpus") for one in vm[part])
    return {name or "": _sides(name, vm) for name in names}


def _sides(slot: str | None, vm: Row) -> Sides:
    return {
        side: _lines([one for one in vm[part] if one["slot"] == slot], keys) for side, (part, keys) in _SIDES.items()
    }


def _lines(rows: list[Row], keys: Mapping[str, str]) -> dict[str, str]:
    """The values of the rows that are known, under their labels."""
    found: dict[str, str] = {}
    for label, key in keys.items():
        texts = [text for row in rows if (text := cells.plain(row.get(key), row)) is not None]
        if texts:
            found[label] = ", ".join(texts)
    return found
