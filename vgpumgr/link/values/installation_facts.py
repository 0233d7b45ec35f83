"""What is installed on a host, from the wire to core's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.model.installation import Installation, Login, State
from vgpumgr.link.host_text import clean
from vgpumgr.link.values.by_name import rows
from vgpumgr.link.values.snapshot_facts import parse_cordon

if TYPE_CHECKING:
    from vgpumgr.host.protocol.installed import InstallationFact
    from vgpumgr.link.program.bootstrap import Installable
    from vgpumgr.names import HostName


def parse(host: HostName, fact: InstallationFact, ours: Installable) -> Installation:
    """The fact as a value. `ours`: what this controller would install."""
    login = Login.DISPATCHER if fact["by_dispatcher"] else Login.SUDO if fact["user"] else Login.ROOT
    return Installation(
        host=host,
        login=login,
        user=clean(fact["user"]) if fact["user"] else "root",
        state=_state(fact, ours),
        pinned=fact["pinned"],
        programs=tuple(program["sha256"] for program in fact["programs"] if program["intact"]),
        problems=tuple(map(clean, fact["problems"])),
        cordons=rows(fact["cordons"], parse_cordon),
    )


def _state(fact: InstallationFact, ours: Installable) -> State:
    if fact["problems"]:
        return State.BROKEN
    hashes = {program["sha256"] for program in fact["programs"]}
    if fact["dispatcher"] is None and not hashes:
        return State.ABSENT
    same = fact["dispatcher"] == ours.dispatcher_hash and ours.program_hashes <= hashes
    return State.INSTALLED if same else State.OUTDATED
