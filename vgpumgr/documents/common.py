"""What the schemas share: the frame of every document, and how values become JSON's types (common-1.json)."""

from __future__ import annotations

import datetime
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from vgpumgr.documents import error as errors
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction

    from vgpumgr.controller.results import Fleet, View
    from vgpumgr.core.model.snapshot import Cordon
    from vgpumgr.core.model.view import Finding
    from vgpumgr.errors import VgpumgrError

GRANT = ("asked_mib", "framebuffer_mib", "guest_mib", "waste_pct")


def plain(value: Any) -> Any:
    """A value as JSON's types: a dataclass becomes an object, a tuple a list, and an Enum's member its value."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items()}
    return value


def pick(value: object, /, *names: str, **renamed: str) -> dict[str, object]:
    """These fields or properties of a value: `names` as they are, `renamed` under new names.

    If the value is None, all are null. A dot leads into a value: `profile="profile.name"`.
    """
    attributes = {**{name: name for name in names}, **renamed}
    return {key: None if value is None else plain(attrgetter(name)(value)) for key, name in attributes.items()}


def frame(
    outcomes: Iterable[Outcome] = (Outcome.DONE,),
    *,
    unread: Iterable[tuple[str, VgpumgrError]] = (),
    found: Iterable[Finding] = (),
) -> dict[str, object]:
    """The keys that every document has: its outcomes, the hosts that were not read, the findings."""
    return {
        "outcomes": plain([*dict.fromkeys(outcomes)]),
        "unreached": [{"host": host, **errors.document(error)} for host, error in unread],
        "findings": plain([*found]),
    }


def document(
    schema: str,
    keys: Mapping[str, object],
    outcomes: Iterable[Outcome] = (Outcome.DONE,),
    *,
    changed: bool | None = None,
    unread: Iterable[tuple[str, VgpumgrError]] = (),
    found: Iterable[Finding] = (),
) -> dict[str, object]:
    """A command's object: the schema's name, the frame, and `keys`. `changed` None: the command only reads."""
    says = {} if changed is None else {"changed": changed}
    return {"schema": schema, **says, **frame(outcomes, unread=unread, found=found), **keys}


def of_hosts(
    schema: str,
    unread: Sequence[tuple[str, VgpumgrError]],
    keys: Mapping[str, object],
    *,
    any_read: bool,
    found: Iterable[Finding] = (),
    also: Iterable[Outcome] = (),
) -> dict[str, object]:
    """The object of a command that reads several hosts. `also`: outcomes besides the hosts' own."""
    outcomes = {error.outcome for _, error in unread} | ({Outcome.DONE} if any_read else set()) | {*also}
    return document(schema, keys, sorted(outcomes), unread=unread, found=found)


def of_fleet(
    schema: str,
    fleet: Fleet[View],
    keys: Mapping[str, object],
    *,
    found: Iterable[Finding] = (),
    also: Iterable[Outcome] = (),
) -> dict[str, object]:
    """The object of a command that reads several hosts, from its Fleet. `also`: outcomes besides the hosts' own."""
    return of_hosts(schema, fleet.errors, keys, any_read=bool(fleet.views), found=found, also=also)


def fell_away(failed: Iterable[tuple[str | None, VgpumgrError]]) -> list[tuple[str, VgpumgrError]]:
    """The hosts that could not be reached, from the errors that stopped a change."""
    return [(host, error) for host, error in failed if host is not None and error.outcome == Outcome.UNREACHED]


def cordon(value: Cordon | None) -> dict[str, object] | None:
    """A cordon's reason, author and time; None if there is no cordon."""
    return None if value is None else pick(value, "reason", "by", "at")


def percent(share: float | Fraction | None) -> float | None:
    """A share as a percentage, to two places."""
    return None if share is None else round(float(share) * 100, 2)


def utc(seconds: float) -> str:
    """A time, in seconds since the epoch, as RFC 3339 to the second."""
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
