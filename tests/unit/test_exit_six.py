"""Exit 6 is for what the same command can mend by itself: every class and every place in the product that ends so, with why.

A new one fails here until somebody has said why another try may end otherwise; what cannot has another code.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests import sources
from tests.sources import PRODUCT
from vgpumgr import errors
from vgpumgr.host.protocol import session
from vgpumgr.link.program import refusals
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY = 6

# Where each is raised, or made: (file, class) → why the same command may get past it.
PLACES = {
    (
        "link/program/refusals.py",
        "Busy",
    ): "whoever holds the lock lets go of it, at the latest when its connection ends",
    ("link/program/refusals.py", "LeaseLost"): "a new run takes the lock anew",
    ("link/program/session.py", "LeaseLost"): "a new run takes the lock anew",
    ("controller/engine/undo.py", "LeaseLost"): "a new run takes the lock anew, and goes on from what is there",
    (
        "link/program/refusals.py",
        "StalePlan",
    ): "what was changed is read afresh; where nothing was, controller/engine/stale.py makes it 5",
    ("controller/engine/host_run.py", "StalePlan"): "the new plan is the one that is shown, and asked about",
    ("core/slot/quotas.py", "StalePlan"): "the next run counts what owners hold before it plans",
    ("store/only_one.py", "AlreadyRunning"): "the other run ends, and its lock with its process",
}

# What the host program answers instead of doing, each with the code that it comes to.
KINDS = {
    session.LOCKED: 6,
    session.NOT_LOCKED: 6,
    session.CHANGED: 6,
    session.IN_USE: 5,
    session.NOT_YET: 5,
    session.BLOCKED_WRITE: 5,
    session.SYSFS_REFUSED: 1,
    session.NVML_REFUSED: 1,
    session.TOOL_REFUSED: 1,
    session.LIBVIRT_REFUSED: 1,
    session.LEDGER_UNWRITABLE: 1,
    session.DEADLINE: 4,
    session.LEDGER_BROKEN: 4,
    session.NOT_ROOT: 4,
    session.PINNED_HERE: 5,
    session.NO_HOOK: 5,
    session.LAZIES: 5,
    session.UNWRITABLE: 4,
    session.BAD_REQUEST: 4,
    session.INTERNAL: 4,
}


def every_class(top: type[errors.VgpumgrError] = errors.VgpumgrError) -> Iterator[type[errors.VgpumgrError]]:
    yield top
    for below in top.__subclasses__():
        yield from every_class(below)


@pytest.mark.parametrize("kind", [pytest.param(one, id=one.__name__) for one in every_class()])
def test_what_ends_with_six_says_that_another_try_may_help_and_nothing_else_does(
    kind: type[errors.VgpumgrError],
) -> None:
    assert (kind.exit_code == BUSY) == (kind.outcome == "busy")
    if kind.exit_code == BUSY:
        assert kind.transient
    if kind.transient:
        assert kind.exit_code == BUSY or issubclass(kind, errors.Unreachable)


def test_each_place_that_ends_a_command_with_six_is_known_with_its_reason() -> None:
    busy = {one.__name__ for one in every_class() if one.exit_code == BUSY}
    found = {
        (str(file.relative_to(PRODUCT)), name)
        for file in sources.files("vgpumgr")
        if any(f"{name}(" in sources.text(file) for name in busy)
        for node in ast.walk(sources.tree(file))
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func).rpartition(".")[2]) in busy
    }
    assert found == PLACES.keys()


def test_each_answer_of_the_host_program_has_its_code() -> None:
    """The kinds are those that protocol/session.py has, none left out."""
    text = sources.text(PRODUCT / "host/protocol/session.py")
    block = text.partition("# kinds of err\n")[2].partition("\n\n")[0]
    names = [line.partition(" = ")[0] for line in block.splitlines() if " = " in line and line[0].isupper()]
    assert {getattr(session, name) for name in names} == KINDS.keys()
    for kind, code in KINDS.items():
        assert refusals.translate(HostName("kvm01"), {"kind": kind, "message": "so"}).exit_code == code, kind


@pytest.mark.parametrize(("why", "code"), [("refused", 1), ("missing", 4), ("closed", 4), ("silent", 4)])
def test_what_libvirt_refuses_has_failed_and_a_libvirt_that_does_not_answer_is_not_reached(why: str, code: int) -> None:
    err = {"kind": session.LIBVIRT_REFUSED, "message": "so", "why": why, "code": 38, "verb": "attach_device"}
    for begun in (True, False):
        error = refusals.translate(HostName("kvm01"), {**err, "begun": begun})
        assert (error.exit_code, "attach the device" in error.message or why == "missing") == (code, True)
        assert not isinstance(error, errors.Unreachable) or error.may_happen == begun
