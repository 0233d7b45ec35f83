"""The controller's own machine: the host program is a child, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.link.conftest import is_over, wait_for
from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.errors import BecomeFailed, Unreachable
from vgpumgr.link.connection import connect
from vgpumgr.link.deadlines import Deadline
from vgpumgr.link.local import LocalCommand, ThisMachine
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDPOINT = Endpoint(
    host=HostName("kvm01"), address="kvm01", port=22, user="root", key_file=None, known_hosts="/none", is_local=True
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the host program runs as root")


@pytest.fixture
def machine() -> Iterator[ThisMachine]:
    here = ThisMachine(ENDPOINT)
    yield here
    here.close()


def run(machine: ThisMachine, command: str) -> LocalCommand:
    return machine.run(command, stage="program", timeout_s=5)


def read_all(command: LocalCommand) -> bytes:
    return b"".join(iter(lambda: command.receive(Deadline(10)), b""))


@needs_root
def test_the_host_program_greets_as_over_ssh_and_ends_with_its_connection() -> None:
    with connect(ENDPOINT) as host:
        host.ping()
        pid = host.program.hello["pid"]
        assert host.program.hello["euid"] == 0
        assert os.getsid(pid) != os.getsid(0)  # a Ctrl-C at the terminal is not for it
    wait_for(lambda: is_over(pid), 60)


@needs_root
def test_a_program_that_is_killed_is_told_as_over_ssh() -> None:
    with connect(ENDPOINT) as host:
        os.kill(host.program.hello["pid"], signal.SIGKILL)
        with pytest.raises(Exception, match=r"the host program (was killed|ended with exit status 137)"):
            host.ping()


@needs_root
def test_an_abort_wakes_whoever_waits_for_an_answer_and_then_kills_what_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, kill = threading.Event(), os.killpg
    monkeypatch.setattr(os, "killpg", lambda group, number: told.wait(60) and kill(group, number))
    with connect(ENDPOINT) as host:
        pid = host.program.hello["pid"]
        os.kill(pid, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(host.observe, wait_s=60)
            wait_for(lambda: host.program.requests == 1, 60)
            host.abort()
            with pytest.raises(Unreachable, match="program: the connection was lost"):
                asked.result(50)
        assert not is_over(pid)
        told.set()
        wait_for(lambda: is_over(pid), 60)


def test_output_errors_and_exit_status_are_the_commands(machine: ThisMachine) -> None:
    command = run(machine, 'read line; echo "$line"; echo bad >&2; exit 3')
    command.send(b"hello\n", Deadline(5))
    assert read_all(command) == b"hello\n"
    assert (command.exit_status(5), command.stderr()) == (3, "bad")


def test_a_command_that_says_much_on_stderr_is_not_held_up_and_its_tail_is_kept(machine: ThisMachine) -> None:
    command = run(machine, "seq 1 200000 >&2; echo last >&2; echo done")
    assert read_all(command) == b"done\n"
    said = command.stderr()
    assert said.endswith("last")
    assert len(said) <= 8192


def test_waiting_ends_at_its_deadline(machine: ThisMachine) -> None:
    command = run(machine, "sleep 60")
    with pytest.raises(TimeoutError):
        command.receive(Deadline(0.05))
    with pytest.raises(TimeoutError):
        command.send(bytes(4_000_000), Deadline(0.05))


def test_a_command_that_reads_no_more_is_a_connection_error(machine: ThisMachine) -> None:
    command = run(machine, "exit 0")
    assert command.exit_status(5) == 0
    with pytest.raises(ConnectionError):
        command.send(bytes(4_000_000), Deadline(5))


def test_its_environment_is_plain(machine: ThisMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    names = {line.partition(b"=")[0] for line in read_all(run(machine, "env; pwd")).splitlines()}
    assert names - {b"PWD", b"_", b"SHLVL", b"OLDPWD"} == {b"PATH", b"HOME", b"LANG", b"/"}


def test_the_child_ends_when_the_controller_is_killed() -> None:
    script = (
        "import sys; from tests.unit.link.test_local import ENDPOINT; from vgpumgr.link.local import ThisMachine\n"
        "command = ThisMachine(ENDPOINT).run('echo $$; exec cat', stage='program', timeout_s=5)\n"
        "print(command.receive().decode(), flush=True); sys.stdin.read()"
    )
    controller = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert controller.stdout is not None
    child = int(controller.stdout.readline())
    assert not is_over(child)
    controller.kill()
    controller.communicate()
    wait_for(lambda: is_over(child), 60)


def test_a_controller_that_is_not_root_and_may_not_become_it_is_refused_with_the_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr(subprocess, "Popen", None)  # the error comes before anything is started
    with pytest.raises(BecomeFailed) as caught:
        connect(ENDPOINT)
    assert caught.value.message == "kvm01: become: this controller runs as uid 12345, and the host program needs root"
    assert "ansible_become: true" in str(caught.value.hint)
    assert caught.value.exit_code == 4
