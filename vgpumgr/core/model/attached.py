"""What was attached lately, as the controller's journal knows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from vgpumgr.core.driver import profiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.driver.profiles import Wish


@dataclass(frozen=True, kw_only=True)
class History:
    """How often each profile (4Q) was attached lately, by host."""

    by_host: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def on(self, host: str) -> Mapping[Wish, int]:
        """What was attached on a host, or, if nothing was, on all hosts: each wish, and how often."""
        own = self.by_host.get(host)
        return _wishes(own) if own else self._on_all

    @cached_property
    def _on_all(self) -> Mapping[Wish, int]:
        total: Counter[str] = Counter()
        for counts in self.by_host.values():
            total.update(counts)
        return _wishes(total)


def _wishes(counts: Mapping[str, int]) -> dict[Wish, int]:
    return {profiles.ByProfile(profile=profiles.parse_profile(short)): counts[short] for short in sorted(counts)}
