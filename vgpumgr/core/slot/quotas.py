"""What the owners of VMs hold of the GPUs, and the guard that keeps each of them within its quota.

Every vGPU in the ledger counts, whether its VM runs or not: a vGPU that is gone comes back, and one that is being freed
is still there. A vGPU counts by the size in its type's name, so that one size is the same on all boards.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver import profiles
from vgpumgr.core.evidence import ownership
from vgpumgr.core.model.owners import Amount, Held
from vgpumgr.core.placing import resolve
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vgpumgr.core.model.owners import Allowance, Quota
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.names import HostName, OwnerName

_NAMED = 8


def memory_mib(type_name: str) -> int:
    """The framebuffer in MiB that a type's name states; 0 if the text is no name of a type."""
    name = profiles.read_type_name(type_name)
    return 0 if name is None else name.nominal_mib


def held(view: HostView) -> tuple[Held, ...]:
    """The vGPUs of ours on a host whose VMs have an owner with a quota."""
    entries = [entry.vgpu for entry in view.snapshot.ledger or ()]
    specs = {spec.key: spec for spec in (*entries, *ownership.proved(view))} if view.quotas else {}
    return tuple(
        Held(owner=owner, host=view.snapshot.host, vm=spec.vm_name, memory_mib=memory_mib(spec.type_name))
        for spec in specs.values()
        if (owner := view.owner(spec.vm, spec.vm_name)) in view.quotas and owner is not None
    )


def growth(view: HostView, after: HostView) -> dict[OwnerName, Amount]:
    """By how much the holdings of each owner with a quota grow. Owners whose holdings do not grow are left out."""
    before, now = _by_owner(held(view)), _by_owner(held(after))
    grown = {owner: amount.beyond(before.get(owner, Amount())) for owner, amount in now.items()}
    return {owner: amount for owner, amount in grown.items() if amount != Amount()}


def guard(view: HostView, plan: Plan) -> None:
    """Raises OverQuota if the plan takes an owner over its quota, QuotaNotSeen if that depends on unread hosts.

    Raises StalePlan for an owner whose quota was not counted, because the host has changed since.
    """
    if view.allowances is None or not view.quotas or not plan.steps:
        return
    with contextlib.suppress(simulate.ImpossibleStepError):  # whoever asked for the plan refuses it
        for owner, amount in growth(view, simulate.apply(view, plan.steps)).items():
            allowance = view.allowances.get(owner)
            if allowance is None:
                what = say("{} has changed since the quotas were counted", view.snapshot.host)
                raise errors.StalePlan(what, hint="run the same command again to count them again")
            _guard(view, plan, owner, amount, allowance)


def _guard(view: HostView, plan: Plan, owner: OwnerName, amount: Amount, allowance: Allowance) -> None:
    quota = view.quotas[owner]
    rows = [one for one in (*held(view), *allowance.others) if one.owner == owner]
    used = Amount.of(rows).plus(allowance.granted)
    if quota.exceeded(used.plus(amount), amount):
        raise errors.OverQuota(
            say("{} would take {} over its quota of {} ({})", plan.vm.name, owner, limits(quota), quota.where),
            details=[f"it holds {text(used)}, and this would be {text(amount)} more", *_on_hosts(rows, allowance)],
            hint=say(
                "free what {} does not need (`vgpumgr usage --idle 7d`), ask for less, or raise vgpumgr_quota", owner
            ),
        )
    if allowance.unread:
        count = len(allowance.unread)
        raise errors.QuotaNotSeen(
            say(
                "{} could not be read, so it is unknown whether {} stays within the quota of {} ({})",
                allowance.unread[0] if count == 1 else f"{count} hosts",
                plan.vm.name,
                owner,
                quota.where,
            ),
            details=[] if count == 1 else [_some(allowance.unread)],
            hint="make it readable, or take it out of the inventory's hypervisors until it is; or lift that quota",
        )


def limits(quota: Quota) -> str:
    """`96 GiB and 12 vGPUs`."""
    memory = [] if quota.memory_mib is None else [_memory(quota.memory_mib)]
    return " and ".join([*memory, *([] if quota.vgpus is None else [_count(quota.vgpus)])])


def _on_hosts(rows: Iterable[Held], allowance: Allowance) -> Iterator[str]:
    by_host: dict[HostName, list[Held]] = {}
    for one in rows:
        by_host.setdefault(one.host, []).append(one)
    for host, there in sorted(by_host.items()):
        yield f"{host}  {text(Amount.of(there))}: {_some(sorted({one.vm for one in there}))}"
    if allowance.granted != Amount():
        yield f"others of this command  {text(allowance.granted)}"
    if allowance.unread:
        yield f"not read: {_some(allowance.unread)}"


def _by_owner(rows: Iterable[Held]) -> Mapping[OwnerName, Amount]:
    found: dict[OwnerName, Amount] = {}
    for one in rows:
        found[one.owner] = found.get(one.owner, Amount()).plus(Amount.of([one]))
    return found


def text(amount: Amount) -> str:
    """`12 GiB in 3 vGPUs`."""
    return f"{_memory(amount.memory_mib)} in {_count(amount.vgpus)}"


def _memory(mib: int) -> str:
    return resolve.memory(mib) if mib else "0 GiB"


def _count(vgpus: int) -> str:
    return f"{vgpus} vGPU" + ("" if vgpus == 1 else "s")


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _NAMED
    return " ".join(every[:_NAMED]) + (f" and {more} more" if more > 0 else "")
