"""doctor: what is wrong on hosts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.hosts.fan_out import read_fleet
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import Fleet
from vgpumgr.core.doctor import diagnosis
from vgpumgr.core.doctor.case import Case
from vgpumgr.core.slot import detach
from vgpumgr.link.domain_query import DOMAINS_AND_SAVED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.core.doctor.illness import Illness
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView


def examine(context: Context, hosts: Sequence[str] = ()) -> Fleet[tuple[Illness, ...]]:
    """The illnesses of each host, the worst first. A host without libvirt has those of its hardware, and an error.

    Raises UnknownHost before anything is read.
    """

    def read(declaration: HostDeclaration) -> tuple[tuple[Case, tuple[Illness, ...]], errors.VgpumgrError | None]:
        with open_session(context, declaration) as session:
            observed = session.link.observe(DOMAINS_AND_SAVED, wait_s=context.timing.lock_wait_s)
            asked_at = time.time()
            symptoms, answered_at = session.link.symptoms(), time.time()
            installation = session.link.installed()
        view: HostView | None = None
        error: errors.VgpumgrError | None
        try:
            view = session.view_of(observed)
            error = detach.ledger_broken(view.snapshot)
        except errors.HostError as failure:
            error = failure
        case = Case(
            facts=observed.snapshot,
            symptoms=symptoms,
            installation=installation,
            catalogue=context.catalogue,
            domains=None if view is None else view.domains,
            ahead_s=max(0.0, symptoms.clock - answered_at) + min(0.0, symptoms.clock + 1 - asked_at),
        )
        return (case, diagnosis.of_host(case, view)), error

    declarations = context.inventory.chosen(hosts)
    context.say_reading(declarations)
    fleet = read_fleet(declarations, read, context)
    return Fleet(views=diagnosis.of_fleet(fleet.views), errors=fleet.errors)
