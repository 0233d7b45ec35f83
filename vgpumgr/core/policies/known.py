"""The policies that come with vgpumgr, by name, and the error for a name that no policy has."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from vgpumgr.core.policies.least_fragmentation import LeastFragmentation
from vgpumgr.core.policies.numa import Numa
from vgpumgr.core.policies.pack import Pack
from vgpumgr.core.policies.policy import Policy
from vgpumgr.core.policies.spread import Spread
from vgpumgr.errors import PolicyFailed
from vgpumgr.names import nearest
from vgpumgr.wording import say

DEFAULT: Final[Policy] = LeastFragmentation()
BUILT_IN: Final[dict[str, Policy]] = {one.name: one for one in (DEFAULT, Pack(), Spread(), Numa())}
NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")

Find = Callable[[str], Policy]
"""Finds a policy by its name. Raises PolicyFailed if there is none, or if its file cannot be used."""


def find(name: str) -> Policy:
    """The built-in policy of that name. Raises PolicyFailed if there is none."""
    policy = BUILT_IN.get(name)
    if policy is None:
        raise unknown(name, "vgpumgr_plugins may name a folder with others")
    return policy


def unknown(name: str, others: str) -> PolicyFailed:
    """The error for a name that leads to no policy. `others`: why none but the built-in ones are known."""
    like = nearest(name, BUILT_IN)
    hint = f"did you mean {like!r}?" if like else f"built in: {', '.join(BUILT_IN)}; {others}"
    return PolicyFailed(say("there is no placement policy {}", repr(name)), hint=hint)
