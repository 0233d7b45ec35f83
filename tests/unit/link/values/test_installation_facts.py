"""What is installed on a host, beside what this controller would install."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vgpumgr.core.model.installation import Login, State
from vgpumgr.link.program.bootstrap import installable
from vgpumgr.link.values.installation_facts import parse
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from vgpumgr.host.protocol.installed import InstallationFact
    from vgpumgr.host.protocol.restored import RestoredFact, RestoredVgpuFact, RestoreFact

OURS = installable()


def restores(
    *, program: str = min(OURS.program_hashes), enabled: bool = True, last: RestoredFact | None = None
) -> RestoreFact:
    return {"program": program, "enabled": enabled, "last": last}


def fact(
    *,
    dispatcher: str | None = OURS.dispatcher_hash,
    programs: frozenset[str] = OURS.program_hashes,
    problem: str = "",
    restore: RestoreFact | None = None,
) -> InstallationFact:
    return {
        "by_dispatcher": False,
        "user": "ops\x1b[2J",
        "dispatcher": dispatcher,
        "pinned": True,
        "programs": [{"sha256": name, "intact": True} for name in sorted(programs)],
        "restore": restore,
        "problems": [problem] if problem else [],
        "cordons": [],
    }


@pytest.mark.parametrize(
    ("there", "state"),
    [
        (fact(), State.INSTALLED),
        (fact(programs=OURS.program_hashes | {"0f"}), State.INSTALLED),
        (fact(programs=frozenset({"0f"})), State.OUTDATED),
        (fact(dispatcher="0f"), State.OUTDATED),
        (fact(dispatcher=None), State.OUTDATED),
        (fact(dispatcher=None, programs=frozenset()), State.ABSENT),
        (fact(problem="altered"), State.BROKEN),
        (fact(restore=restores()), State.INSTALLED),
        (fact(restore=restores(enabled=False)), State.OUTDATED),
        (fact(restore=restores(program="0f")), State.OUTDATED),
    ],
)
def test_the_state_is_that_of_everything_that_is_installed(there: InstallationFact, state: State) -> None:
    assert parse(HostName("kvm01"), there, OURS).state is state


def test_the_login_is_told_and_what_the_host_said_is_cleaned() -> None:
    assert parse(HostName("kvm01"), fact(), OURS).login is Login.SUDO
    assert "\x1b" not in parse(HostName("kvm01"), fact(), OURS).user
    assert parse(HostName("kvm01"), {**fact(), "by_dispatcher": True}, OURS).login is Login.DISPATCHER
    root = parse(HostName("kvm01"), {**fact(), "user": None}, OURS)
    assert (root.login, root.user) == (Login.ROOT, "root")


def test_the_restore_of_this_boot_is_told_and_what_the_host_said_is_cleaned() -> None:
    assert parse(HostName("kvm01"), fact(), OURS).restore is None
    waiting = parse(HostName("kvm01"), fact(restore=restores()), OURS).restore
    assert waiting is not None
    assert (waiting.at, waiting.vgpus) == (None, ())
    row: RestoredVgpuFact = {
        "vm_name": "vm01",
        "slot": "vgpu0",
        "parent": "0000:41:00.4",
        "type_name": "A40-4Q",
        "missing": "gone\x1b[2J",
        "note": None,
    }
    last: RestoredFact = {"boot": "b7", "at": "2026-11-22T02:30:00Z", "problem": None, "vgpus": [row]}
    done = parse(HostName("kvm01"), fact(restore=restores(last=last)), OURS).restore
    assert done is not None
    (vgpu,) = done.vgpus
    assert (done.at, vgpu.vm_name, vgpu.note) == ("2026-11-22T02:30:00Z", "vm01", None)
    assert vgpu.missing is not None
    assert "\x1b" not in vgpu.missing
