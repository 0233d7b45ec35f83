"""The page of one GPU: where each of its parts lies, and what still fits, or why not."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from vgpumgr import errors, pictures
from vgpumgr.cli.rows import cells, page
from vgpumgr.cli.rows.column import ABSENT, Column
from vgpumgr.web.told import no_parameter
from vgpumgr.wording import Command, Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.cli.rows.ask import Document
    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.web.told import Query

_TAKES = ("host", "gpu")
_FITS = (
    Column(key="profiles", head="PROFILE"),
    Column(key="fits_now", head="FITS NOW", is_number=True),
    Column(key="mib", head="MEMORY", read=cells.gib_of_mib, is_number=True),
    Column(key="why", head="WHY NOT", none=ABSENT, is_prose=True),
)


def address(host: str, gpu: str) -> str:
    """The address of a GPU's page."""
    return "/card?" + urlencode({"host": host, "gpu": gpu})


def vm_address(name: str, host: str) -> str:
    """The address of a VM's page."""
    return "/vm?" + urlencode({"vm": name, "on": host})


def asks(query: Query) -> Query:
    """The parameters of `report` for the host. Raises UsageError."""
    if unknown := next((name for name, _ in query if name not in _TAKES), None):
        raise no_parameter(unknown, _TAKES)
    if sorted(name for name, _ in query) != sorted(_TAKES):
        raise errors.UsageError(
            "this page is about one GPU", hint="give host and gpu; the page of the fleet leads here"
        )
    return [("hosts", dict(query)["host"])]


def values(document: Row, query: Query, ask: Document) -> Mapping[str, object]:
    """What the page shows besides the host's report. Raises UnknownGpu."""
    asked = dict(query)
    gpu = next((one for one in document["gpus"] if one["gpu"] == asked["gpu"]), None)
    if gpu is None and not document["unreached"]:
        hint = f"`{Command('vgpumgr', 'discover', asked['host'])}` lists its GPUs"
        raise errors.UnknownGpu(f"{asked['host']} has no GPU {asked['gpu']!r}", hint=hint)
    if gpu is None:
        return {"title": asked["gpu"], "gpu": None}
    divided = _rows(ask("mig_show", [("hosts", gpu["host"])]).document, "hosts", "gpus") if gpu["mode"] == "mig" else ()
    slices = next((one["slices"] for one in divided if one["pci"] == gpu["gpu"]), 0)
    places = {"mixed-size": (gpu["mib"] or 0) // 1024, "mig": slices}.get(gpu["mode"], 0)
    return {
        "title": f"{gpu['board'] or 'GPU'} {gpu['gpu']} of {gpu['host']}",
        "gpu": pictures.placed(gpu, places),
        "slices": slices,
        "kinds": pictures.KEY,
        "tables": [page.table("What still fits", _FITS, _fits(gpu, ask), "Its types could not be read.")],
        "profiles": Command("vgpumgr", "profiles", gpu["host"], "-o", "wide"),
        "reasons": Command("vgpumgr", "capacity", "PROFILE", "--on", gpu["host"]),
    }


def _fits(gpu: Row, ask: Document) -> Sequence[Row]:
    """Each profile by how many more of it fit, as `profiles` counts them; where none does, `capacity` says why."""
    host, pci = gpu["host"], gpu["gpu"]
    profiles = [one for one in _rows(ask("profiles", [("hosts", host)]).document, "profiles") if one["gpu"] == pci]
    none = [("profiles", one["profile"]) for one in profiles if not one["fits_now"]]
    told = ask("capacity", [*none, ("on", host)]).document if none else None
    why = {one["requested"]: one["why"] for one in _rows(told, "gpus") if one["gpu"] == pci}
    alike: dict[tuple[bool, int, int | None, str | None], list[str]] = {}
    for one in profiles:
        name, left = one["profile"], one["fits_now"]
        alike.setdefault((not left, one["framebuffer_mib"] or 0, left, _of_any(why.get(name), name)), []).append(name)
    return [
        {"profiles": names, "fits_now": left, "mib": mib or None, "why": reason}
        for (_, mib, left, reason), names in sorted(alike.items(), key=lambda one: one[0][:2])
    ]


def _of_any(why: str | None, profile: str) -> str | None:
    """The reason without the profile's own name, so that profiles share it."""
    return why.told(lambda value: "it" if value == profile else value) if isinstance(why, Message) else why


def _rows(document: Row | None, *path: str) -> Sequence[Row]:
    """The objects in a document's lists; none without a document."""
    found: Sequence[Row] = [] if document is None else [document]
    for key in path:
        found = [one for row in found for one in row[key] or ()]
    return found
