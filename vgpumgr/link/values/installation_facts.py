"""What is installed on a host, from the wire to core's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.model.installation import Installation, Login, Restore, RestoredVgpu, State
from vgpumgr.link.host_text import clean
from vgpumgr.link.values.by_name import rows
from vgpumgr.link.values.snapshot_facts import parse_cordon

if TYPE_CHECKING:
    from vgpumgr.host.protocol.installed import InstallationFact
    from vgpumgr.host.protocol.restored import RestoredVgpuFact, RestoreFact
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
        restore=None if fact["restore"] is None else _restore(fact["restore"]),
    )


def _restore(fact: RestoreFact) -> Restore:
    last = fact["last"]
    if last is None:
        return Restore(at=None, problem=None, vgpus=())
    return Restore(at=clean(last["at"]), problem=_cleaned(last["problem"]), vgpus=tuple(map(_vgpu, last["vgpus"])))


def _vgpu(fact: RestoredVgpuFact) -> RestoredVgpu:
    return RestoredVgpu(
        vm_name=clean(fact["vm_name"]),
        slot=clean(fact["slot"]),
        parent=clean(fact["parent"]),
        type_name=clean(fact["type_name"]),
        missing=_cleaned(fact["missing"]),
        note=_cleaned(fact["note"]),
    )


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _state(fact: InstallationFact, ours: Installable) -> State:
    if fact["problems"]:
        return State.BROKEN
    hashes = {program["sha256"] for program in fact["programs"]}
    if fact["dispatcher"] is None and not hashes:
        return State.ABSENT
    same = fact["dispatcher"] == ours.dispatcher_hash and ours.program_hashes <= hashes
    restore = fact["restore"]
    restores = restore is None or (restore["enabled"] and restore["program"] in ours.program_hashes)
    return State.INSTALLED if same and restores else State.OUTDATED
