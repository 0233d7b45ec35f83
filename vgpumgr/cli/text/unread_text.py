"""What could not be read of a host, for people. Facts with the same reason share a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.names import PciAddress

_MOST_LINES = 50
_MOST_FACTS = 20
_FIRST_FACTS = 5
_LONGEST = 400  # characters; the longest reason of ours has some 200


def unread(snapshot: HostSnapshot) -> Iterator[str]:
    """A line for each GPU and reason: `? kvm02 0000:41:00.0 mode, scheduler: NVML: Driver Not Loaded`.

    The lines of one host are limited, whatever it answers, so that those of the other hosts stay in sight.
    """
    reasons: dict[tuple[PciAddress | None, str], list[str]] = {}
    for one in snapshot.unknown:
        reasons.setdefault((one.gpu, one.why), []).append(one.what)
    rows = list(reasons.items())
    count = len(rows) if len(rows) <= _MOST_LINES else _MOST_LINES - 1
    for (gpu, why), what in rows[:count]:
        yield f"? {snapshot.host} {gpu + ' ' if gpu else ''}{_some(what)}: {_cut(why)}"
    if rows[count:]:
        host = snapshot.host
        yield f"? {host} {counted(len(rows) - count, 'more reason')}: `vgpumgr discover {host} -o json` has them"


def _some(what: list[str]) -> str:
    """The names of the facts; only the first few if there are very many."""
    few = what if len(what) <= _MOST_FACTS else what[:_FIRST_FACTS]
    more = f" and {len(what) - len(few)} more" if what[len(few) :] else ""
    return ", ".join(map(_cut, few)) + more


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
