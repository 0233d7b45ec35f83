"""The seam for tests: every instant between two things that a run does to a host is told as an audit event of Python.

    sys.addaudithook(hook)          # hook("vgpumgr.moment", (host, kind, of)), in the thread that does it

    start, started      of: program     the host program is about to be sent; it has greeted
    send, sent          of: the verb    a request to the host program is about to be sent; it has been, and no answer was read
    answered            of: the verb    its answer is here
    call, called        of: the method  a call of libvirt is about to be made; it has returned
    begin, end          of: the verb    a step of the plan is about to be carried out; it has been
    interrupted         of: the verb    a Ctrl-C was understood, during that step

One undisturbed run numbers them, 1 to n; the same run is the same moments again, for pings, which come by the clock, are
none. What a hook does there (a signal to this process, a cut connection, an exception) is as if it had happened then. Within
a step the host program has points of its own: `at` of host/server.py.

Where nobody listens, and nobody does but tests, this costs nothing that could be measured.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.names import HostName

EVENT = "vgpumgr.moment"

Kind: TypeAlias = Literal[
    "start", "started", "send", "sent", "answered", "call", "called", "begin", "end", "interrupted"
]

P = ParamSpec("P")
T = TypeVar("T")


class OfHost(Protocol):
    """Whatever belongs to one host."""

    @property
    def host(self) -> HostName: ...


SelfT = TypeVar("SelfT", bound=OfHost)


def tell(host: str, kind: Kind, of: str) -> None:
    """Something is about to be done to that host, or has been. Raises what a listener raises."""
    sys.audit(EVENT, host, kind, of)


def told(method: Callable[Concatenate[SelfT, P], T]) -> Callable[Concatenate[SelfT, P], T]:
    """A method that is a call of libvirt: told before and after it."""

    @functools.wraps(method)
    def telling(self: SelfT, /, *arguments: P.args, **named: P.kwargs) -> T:
        tell(self.host, "call", method.__name__)
        value = method(self, *arguments, **named)
        tell(self.host, "called", method.__name__)
        return value

    return telling
