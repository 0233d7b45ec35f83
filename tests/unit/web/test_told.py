"""The status of an error says whose fault it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.web.told import status_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def kinds(kind: type[errors.VgpumgrError] = errors.VgpumgrError) -> Iterator[type[errors.VgpumgrError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from kinds(one)


def expected(kind: type[errors.VgpumgrError]) -> range:
    if kind.outcome == errors.Outcome.UNREACHED:
        return range(502, 505, 2)
    if kind.outcome == errors.Outcome.BUSY:
        return range(503, 504)
    if kind.__name__.startswith("Unknown") or kind is errors.DeclaredVmUnknown:
        return range(404, 405)
    if issubclass(kind, errors.RequestError | errors.RefusedPlan):
        return range(400, 410)
    return range(500, 501)


def test_a_request_is_at_fault_or_we_are_or_a_host() -> None:
    found = {kind: status_of(kind.__new__(kind)) for kind in kinds()}
    assert len(found) > 50
    assert {kind: status for kind, status in found.items() if status not in expected(kind)} == {}


def test_a_host_that_hangs_is_told_from_one_that_is_dead() -> None:
    assert [status_of(kind.__new__(kind)) for kind in (errors.HostDeadline, errors.Unreachable)] == [504, 502]
