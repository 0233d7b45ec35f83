"""What a request came to, and the HTTP status of an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vgpumgr import errors, names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from vgpumgr.web.openapi import Operation
    from vgpumgr.web.viewer import Viewer

    Query = Sequence[tuple[str, str]]
    """The parameters of a request, in its order; a name may occur several times."""

_UNKNOWN = (
    *(errors.UnknownHost, errors.UnknownVm, errors.UnknownGpu, errors.UnknownVgpu),
    *(errors.UnknownProfile, errors.UnknownSlot, errors.UnknownName),
)
_OF_OUTCOME = {
    errors.Outcome.UNREACHED: 502,
    errors.Outcome.BUSY: 503,
    errors.Outcome.NO_CAPACITY: 409,
    errors.Outcome.REFUSED: 409,
}


def status_of(error: errors.VgpumgrError) -> int:
    """The status that says whose fault an error is: the request's (4xx), ours (500), a host's (502 to 504)."""
    if isinstance(error, errors.HostDeadline):
        return 504
    if isinstance(error, _UNKNOWN) and error.outcome != errors.Outcome.UNREACHED:
        return 404
    return _OF_OUTCOME.get(error.outcome, 400 if isinstance(error, errors.RequestError) else 500)


def no_parameter(name: str, takes: Sequence[str]) -> errors.UsageError:
    """The error for a parameter that an address does not have. `takes`: those that it has."""
    near = names.nearest(name, takes)
    hint = f"did you mean {near}?" if near else f"there are: {', '.join(takes)}"
    return errors.UsageError(f"no parameter {name!r}", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An answer: a document, or why there is none. `age_s`: how long ago the hosts were read; None: none was."""

    document: Mapping[str, object] | None
    error: errors.VgpumgrError | None = None
    age_s: float | None = None


class Site(Protocol):
    """What is served. A document or page may take as long as a host does; several threads ask for them at once."""

    @property
    def pages(self) -> Collection[str]:
        """The names of the pages; the first is the one at `/`."""

    def document(self, name: str, query: Query, viewer: Viewer) -> Told:
        """The object of `vgpumgr NAME -o json`, for that viewer. It raises nothing."""

    def page(self, name: str, query: Query, viewer: Viewer) -> tuple[str, Told]:
        """A page, and what it was made from."""

    def operations(self) -> Sequence[Operation]:
        """The documents with their parameters."""

    def error_page(self, error: errors.VgpumgrError) -> str:
        """A page that says what went wrong."""
