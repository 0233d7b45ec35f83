"""The seam for tests: every instant between two actions of a run on a host is raised as an audit event of Python.

    sys.addaudithook(hook)          # hook("vgpumgr.moment", (host, kind, of)), in the thread that does it

    start, started      of: program     the host program is about to be sent; it has greeted
    send, sent          of: the verb    a request to the host program is about to be sent; it was sent
    answered            of: the verb    its answer has arrived
    begin, end          of: the verb    a step of the plan is about to be carried out; it was carried out
    interrupted         of: the verb    a Ctrl-C was received during that step

One undisturbed run numbers them, 1 to n. A repeated run has the same moments, because pings, which follow the clock,
are not among them. Whatever a hook does (a signal to this process, a cut connection, an exception) takes effect at
that moment. Within a step the host program has further points: `at` of host/server.py.

Without a listener (only tests have one) this has no measurable cost.
"""

from __future__ import annotations

import sys
from typing import Literal, TypeAlias

EVENT = "vgpumgr.moment"

Kind: TypeAlias = Literal["start", "started", "send", "sent", "answered", "begin", "end", "interrupted"]


def tell(host: str, kind: Kind, of: str) -> None:
    """Announce that something is about to be done to that host, or has been. Raises what a listener raises."""
    sys.audit(EVENT, host, kind, of)
