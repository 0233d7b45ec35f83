"""`vgpumgr_quota`: what each owner's VMs may hold on all hosts together. It is one for all hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.core.driver import profiles
from vgpumgr.core.inventory import reading
from vgpumgr.core.model.owners import Quota
from vgpumgr.errors import BadName
from vgpumgr.names import parse_owner

if TYPE_CHECKING:
    from vgpumgr.core.inventory.located import Member, Table, Value
    from vgpumgr.core.inventory.report import Report
    from vgpumgr.names import OwnerName

VARIABLE: Final = "vgpumgr_quota"
_KEYS: Final = ("memory", "vgpus")
_EXAMPLE: Final = "{team-a: {memory: 96G, vgpus: 12}}"
_MOST: Final = 1_000_000


def read_quotas(value: Value, report: Report) -> dict[OwnerName, Quota]:
    """The quotas by owner."""
    table = reading.read_table(value, VARIABLE, report, example=_EXAMPLE) or {}
    quotas: dict[OwnerName, Quota] = {}
    for text, member in table.items():
        try:
            owner = parse_owner(text)
        except BadName as error:
            report.problem(member.where, error.message, error.hint)
            continue
        what = f"the quota of {owner!r}"
        limits = reading.read_table(member.value, what, report, example="{memory: 96G}", none_allowed=False)
        if limits is None:
            continue
        reading.check_keys(limits, _KEYS, what, report)
        if not limits:
            report.problem(member.where, f"{what} limits nothing", f"give {' or '.join(_KEYS)}")
        quotas[owner] = _read_quota(member, limits, what, report)
    return dict(sorted(quotas.items()))


def _read_quota(member: Member, limits: Table, what: str, report: Report) -> Quota:
    vgpus, memory = limits.get("vgpus"), limits.get("memory")
    return Quota(
        memory_mib=None if memory is None else _read_memory(memory.value, f"memory of {what}", report),
        vgpus=None if vgpus is None else reading.read_whole(vgpus.value, f"vgpus of {what}", report, low=0, high=_MOST),
        where=str(member.where),
    )


def _read_memory(value: Value, what: str, report: Report) -> int | None:
    text = reading.read_spelling(value, what, report, example="96G")
    try:
        return None if text is None else 0 if text == "0" else profiles.parse_memory(text)
    except BadName as error:
        report.problem(value.where, f"{what} {error.message}", error.hint)
        return None
