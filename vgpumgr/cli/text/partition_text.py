"""What a new division of the idle GPUs would gain on each host, as lines for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vgpumgr.cli.text.grants import gib
from vgpumgr.cli.text.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.reconcile.demand import Source
    from vgpumgr.core.reconcile.partition import HostAdvice, Served


def gains(hosts: Sequence[HostAdvice], weeks: int) -> Iterator[str]:
    """A line for each host with requests: `kvm01: 5 requests (5 declared): 3 served -> 5, 40 GiB -> 56 GiB`.

    If no host has any, one line says why. `weeks`: how far back the journal was searched for attaches; 0: not at all.
    """
    for host in hosts:
        if host.requests:
            by_source = Counter(one.source for one in host.requests)
            words: dict[Source, str] = {
                "declared": "declared",
                "waiting": "waiting",
                "journal": f"as the journal's last {counted(weeks, 'week')}",
            }
            parts = ", ".join(f"{by_source[source]} {text}" for source, text in words.items() if by_source[source])
            served = f"{len(host.before)} served -> {len(host.after)}, {_gib(host.before)} -> {_gib(host.after)}"
            unproven = "" if host.proven else "; more may be possible: the search was cut short"
            yield f"{host.host}: {counted(len(host.requests), 'request')} ({parts}): {served}{unproven}"
    if hosts and not any(host.requests for host in hosts):
        lately = f"the last {counted(weeks, 'week')}"
        if any(host.knows_mix for host in hosts):
            yield f"no GPU without vGPUs takes any profile that was attached in {lately}"
        else:
            recently = f", and no attach of {lately} in the journal" if weeks else ""
            yield f"nothing is known of what is asked for: no declared slot without a vGPU{recently}"


def _gib(served: Sequence[Served]) -> str:
    return gib(sum(one.mib for one in served)) if served else "0 GiB"
