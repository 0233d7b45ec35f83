"""The pages of `serve`, each made from the document of one command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from vgpumgr.cli.rows import ask, cells, page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.wording import Command

    Sides = dict[str, dict[str, str]]
    """What each side says of a slot: its lines by their labels."""

ASK: Final = "ask"
PAGES: Final[Mapping[str, tuple[str, str]]] = {
    "fleet": ("Fleet", "report"),
    "waiting": ("Who waits", "waiting"),
    "owners": ("Owners and usage", "report"),
    "vm": ("VM", "show"),
    ASK: ("Ask", "explain"),
}
"""The title of each page, and the command whose document it shows. The first is at `/`."""
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
_LINKS = [("/", "Fleet"), ("/waiting", "Who waits"), ("/owners", "Owners and usage"), ("/ask", "Ask")]


def html(name: str, document: Row, *, command: Command, age_s: float | None) -> str:
    """A page. `command` shows the same; `age_s`: how long ago the hosts were read."""
    title, _ = PAGES[name]
    values: dict[str, object] = {"page": document, "command": command}
    match name:
        case "fleet":
            template, values["vm_address"] = "fleet.html.j2", _vm_address
        case "vm":
            template, title, values["slots"] = "vm.html.j2", document["vm"]["name"], slots(document["vm"])
        case "waiting":
            template, slots_waiting = "tables.html.j2", document["slots"]
            values |= {"tables": [page.waiting(slots_waiting)], "waiting": slots_waiting}
        case _:
            template = "tables.html.j2"
            values |= {"tables": [*page.used(document)], "waiting": []}
    return _render(template, title=title, age_s=None if age_s is None else round(age_s), **values)


def asked(form: ask.Form, offered: ask.Offered, answer: ask.Answer) -> str:
    """The page with the form, and with what was answered."""
    told, values = answer.told, {"form": form, "offered": offered, "ways": ask.WAYS, "answer": answer}
    if told.document is not None:
        values |= {"page": told.document, "tables": [page.explained(told.document)], "vm_address": _vm_address}
        values |= {"command": next(iter(answer.commands.values())), "age_s": round(told.age_s or 0)}
    return _render("ask.html.j2", title=PAGES[ASK][0], error=told.error, **values)


def error(problem: VgpumgrError) -> str:
    """A page that says what went wrong."""
    return _render("site.html.j2", title="Not shown", error=problem)


def _render(template: str, **values: object) -> str:
    return page.render(template, **{"links": _LINKS, "page": None, "error": None, "command": None, **values})


def _vm_address(name: str, host: str) -> str:
    return "/vm?" + urlencode({"vm": name, "on": host})


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
