"""The parts that the schemas share: common-1.json."""

from __future__ import annotations

import datetime
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from vgpumgr.documents import error as errors
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from vgpumgr.core.driver.asking import Grant
    from vgpumgr.core.model.view import Finding
    from vgpumgr.errors import VgpumgrError

GRANT = ("asked_mib", "framebuffer_mib", "guest_mib", "waste_pct")


def plain(value: Any) -> Any:
    """One of our values, field by field. Like dataclasses.asdict, but tuples become lists and Enum members become words."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items()}
    return value


def pick(value: object, *names: str) -> dict[str, object]:
    """These fields or properties of a value, each under its own name."""
    return {name: plain(getattr(value, name)) for name in names}


def findings(found: Iterable[Finding]) -> list[dict[str, object]]:
    return [plain(one) for one in found]


def frame(
    outcomes: Iterable[Outcome] = (Outcome.DONE,),
    *,
    unread: Iterable[tuple[str, VgpumgrError]] = (),
    found: Iterable[Finding] = (),
) -> dict[str, object]:
    """The keys that every document has, whatever else it says: what it came to, which hosts were not read, what is odd."""
    return {
        "outcomes": plain([*dict.fromkeys(outcomes)]),
        "unreached": [{"host": host, **errors.document(error)} for host, error in unread],
        "findings": findings(found),
    }


def reached(
    unread: Sequence[tuple[str, VgpumgrError]],
    *,
    any_read: bool,
    found: Iterable[Finding] = (),
    also: Iterable[Outcome] = (),
) -> dict[str, object]:
    """The same of a command that reads several hosts. `also`: outcomes beside those of the hosts."""
    outcomes = {error.outcome for _, error in unread} | ({Outcome.DONE} if any_read else set()) | {*also}
    return frame(sorted(outcomes), unread=unread, found=found)


def fell_away(failed: Iterable[tuple[str | None, VgpumgrError]]) -> list[tuple[str, VgpumgrError]]:
    """Of what stopped a change: the hosts that could not be reached."""
    return [(host, error) for host, error in failed if host is not None and error.outcome == Outcome.UNREACHED]


def granted(grant: Grant | None) -> dict[str, object]:
    """What a wish came to; null where that is not known."""
    return dict.fromkeys(GRANT) if grant is None else pick(grant, *GRANT)


def percent(share: float | Fraction | None) -> float | None:
    """A share as a percentage, to two places."""
    return None if share is None else round(float(share) * 100, 2)


def utc(seconds: float) -> str:
    """RFC 3339, to the second."""
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
