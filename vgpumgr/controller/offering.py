"""capacity --catalogue: how well each set of profiles would serve, on the hosts, the requests of the last weeks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vgpumgr.controller import lately, report
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.driver.profiles import ByProfile
from vgpumgr.core.placing import resolve
from vgpumgr.core.report import capacity, offering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Fleet
    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.report.offering import Kind, Mix, Score


def compare(
    context: Context, hosts: Sequence[str], sets: Sequence[Sequence[Profile]], weeks: int
) -> tuple[Fleet[Kind], Mix, list[Score]]:
    """Read the hosts (all if none is named), and score each set by the requests in the journal's last `weeks` weeks.

    Raises UnknownHost, UnknownProfile, StoreError and PolicyFailed.
    """
    kinds: dict[Kind, HostView] = {}
    read: list[capacity.HostAnswers] = []
    found: set[Profile] = set()

    def keep(view: HostView) -> Kind:
        read.append(capacity.of_host(view, (), context.catalogue))
        gpus = view.snapshot.gpus
        found.update(one for some in sets for one in some if any(resolve.find_type(gpu, one) for gpu in gpus))
        empty = offering.emptied(view)
        kinds.setdefault(kind := offering.kind(empty), empty)
        return kind

    fleet = report.look_over(context, hosts, keep)
    rest = dict.fromkeys(one for some in sets for one in some if one not in found)
    questions = [capacity.Question(wish=ByProfile(profile=one), conditions=NO_CONDITIONS) for one in rest]
    for answer in capacity.answers((), fleet.errors, questions):
        if unknown := capacity.unknown_profile(answer, read, context.catalogue):
            raise unknown
    attached = {} if context.store is None else lately.attached(context.store, context.now(), weeks).by_host
    mix = offering.mix_of(sum(map(Counter, attached.values()), Counter()), kinds.values())
    counted = [(kinds[kind], count) for kind, count in Counter(fleet.views).items()]
    return fleet, mix, [offering.score(counted, one, mix) for one in sets]
