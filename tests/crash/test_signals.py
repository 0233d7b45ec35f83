"""Ctrl-C and SIGTERM in the middle: taken back, and said so by the exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.controllers import wait_until
from tests.crash.rig import check, host_of, must
from vgpumgr.link.program import bootstrap

if TYPE_CHECKING:
    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab

INTERRUPTED, TERMINATED = 130, 143
ATTACH = (
    *("request:0", "request:1", "request:2", "before:put_claim", "before:create_vgpu", "sent:create_vgpu"),
    *("write:attach_hostdev", "before:bind_claim", "after:bind_claim"),
)


@pytest.mark.parametrize(("what", "code"), [("int", INTERRUPTED), ("term", TERMINATED)])
def test_an_interrupted_attach_leaves_nothing(rig: Rig, what: str, code: int) -> None:
    """At each of its points, and on each framework: the step under way ends, and then all is undone."""

    def attach(vm: str, point: str) -> None:
        must(rig.attach(vm, interference={"at": point, "do": what}), code)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(attach, [f"a{number:02}" for number in range(1, len(ATTACH) + 1)], ATTACH))
        list(pool.map(attach, ["p01", "d01"], ["sent:create_vgpu", "write:attach_hostdev"]))
    for host in ("vf01", "pf01", "vd01"):
        check(rig, host, {})


@pytest.mark.parametrize(("what", "code"), [("int", INTERRUPTED), ("term", TERMINATED)])
def test_an_interrupted_detach_gives_back_or_can_be_finished(rig: Rig, what: str, code: int) -> None:
    """Before the vGPU is gone everything is put back; after it the same command finishes."""
    for vm in ("a01", "a02", "a03"):
        must(rig.attach(vm))
    for vm, point in {"a01": "before:leave_claim", "a02": "write:detach_hostdev", "a03": "sent:destroy_vgpu"}.items():
        must(rig.detach(vm, interference={"at": point, "do": what}), code)
    must(rig.detach("a03"))
    check(rig, "vf01", {"a01": "2Q", "a02": "2Q"})


def test_an_interrupted_replace_keeps_the_old_one(rig: Rig) -> None:
    """As long as the old vGPU was not taken away."""
    vms = {"a01": "sent:create_vgpu", "a02": "write:detach_hostdev", "a03": "after:bind_claim"}
    for vm, point in vms.items():
        must(rig.attach(vm))
        one = rig.attach(vm, "--replace", "--yes", profile="2B", interference={"at": point, "do": "int"})
        must(one, INTERRUPTED)
    check(rig, "vf01", dict.fromkeys(vms, "2Q"))


CLOSE_UNDER_CALLS = """
import os, sys, threading
from vgpumgr import errors
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.wiring import build_context
from vgpumgr.core.model import claims

def write(link, vm, begun):
    try:
        while True:
            link.set_metadata(vm, None, key=claims.KEY, uri=claims.NAMESPACE)
            begun.set()
    except errors.HostError:
        pass

context = build_context(Settings())
for _ in range(8):
    link, begun = context.connect(context.inventory.host("vf02").endpoint), threading.Event()
    _, vm = link.names()[0]
    link.lock(by="me", wait_s=10)
    writers = [threading.Thread(target=write, args=(link, vm, begun)) for _ in range(4)]
    [writer.start() for writer in writers]
    assert begun.wait(30)
    link.close()
    [writer.join(120) for writer in writers]
    assert not any(writer.is_alive() for writer in writers)
"""


def test_a_connection_is_closed_under_calls_that_run(rig: Rig) -> None:
    """As a Ctrl-C does it."""
    done = subprocess.run(
        [sys.executable, "-c", CLOSE_UNDER_CALLS],
        env={**rig.env, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_interrupted_while_it_waits_for_the_lock(rig: Rig, tmp_path: Path) -> None:
    """It gives up its place at once, and the owner goes on undisturbed."""
    hold = tmp_path / "hold"
    owner = rig.attach("b01", interference={"at": "before:create_vgpu", "do": "touch", "file": str(hold)})
    wait_until(hold.exists, "the owner inside the lock")
    waiting = [rig.attach("b02"), rig.attach("b03")]
    program = f" -c {bootstrap.LOADER[:16]}"  # the probe cuts its lines off
    wait_until(lambda: sum(program in line for line in rig.look("vf02")["processes"]) >= 3, "both queue")
    for one, number, code in zip(waiting, (signal.SIGINT, signal.SIGTERM), (INTERRUPTED, TERMINATED), strict=True):
        one.kill(number)
        must(one, code)
    hold.unlink()
    must(owner)
    check(rig, "vf02", {"b01": "2Q"})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_leaves_at_once(rig: Rig, tmp_path: Path, number: int) -> None:
    """Whoever insists gets the shell back though the host does not answer; the same command again goes on."""
    hold = tmp_path / "hold"
    one = rig.attach("c01", interference={"at": "write:attach_hostdev", "do": "touch", "file": str(hold)})
    wait_until(hold.exists, "the step under way")
    one.kill(number)
    wait_until(lambda: "waiting for attach_hostdev" in one.err, "the answer to the first")
    one.kill(number)
    status = one.wait(10)
    hold.unlink()
    assert status in (INTERRUPTED, TERMINATED, -number), str(one)
    assert "Traceback" not in one.err, str(one)
    must(rig.attach("c01"))
    check(rig, host_of("c01"), {"c01": "2Q"})
