"""Login and commands against a real sshd."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
import pytest

from tests.unit.link.conftest import kill_all, make_key, stopped, wait_for
from vgpumgr import errors
from vgpumgr.link import connection
from vgpumgr.link.deadlines import Deadline
from vgpumgr.link.program.session import Program
from vgpumgr.link.ssh import client as ssh_client
from vgpumgr.link.ssh import wire
from vgpumgr.link.ssh.known_hosts import compute_fingerprint
from vgpumgr.timing import Deadlines, Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.link.conftest import Sshd
    from vgpumgr.core.model.endpoint import Endpoint

pytestmark = pytest.mark.lab


def refuse(sshd: Sshd, kind: type[errors.Unreachable], limits: Deadlines | None = None) -> errors.Unreachable:
    with pytest.raises(kind) as caught:
        ssh_client.open_connection(sshd.endpoint, limits or Deadlines()).close()
    return caught.value


def run(sshd: Sshd, command: str) -> tuple[bytes, str, int | None]:
    opened = ssh_client.open_connection(sshd.endpoint, Deadlines())
    try:
        running = opened.run(command, stage="program", timeout_s=60)
        out = b""
        while chunk := running.receive(Deadline(60)):
            out += chunk
        return out, running.stderr(), running.exit_status(60)
    finally:
        opened.close()


def test_a_command_gives_output_stderr_and_status(sshd: Sshd) -> None:
    assert run(sshd, "echo out; echo err >&2; exit 3") == (b"out\n", "err", 3)


def test_a_host_is_far_by_the_round_trips_of_its_connection(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = ssh_client.open_connection(sshd.endpoint, Deadlines())
    with contextlib.closing(opened):
        found = [opened.is_far]
        monkeypatch.setattr(wire, "_FAR_US", 0)
        found.append(opened.is_far)
    assert [*found, opened.is_far] == [False, True, False]


def test_megabytes_on_stderr_do_not_hold_the_output_up(sshd: Sshd) -> None:
    out, err, status = run(sshd, "head -c 8000000 /dev/zero | tr '\\0' e >&2; echo done")
    assert (out, status) == (b"done\n", 0)
    assert len(err) == 8192


def test_what_was_negotiated_is_ours(sshd: Sshd) -> None:
    printed = subprocess.run(
        ["ssh-keygen", "-lf", str(sshd.folder / "host_ed25519.pub")], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    opened = ssh_client.open_connection(sshd.endpoint, Deadlines())
    try:
        transport = opened._transport
        assert compute_fingerprint(transport.get_remote_server_key().asbytes()) == printed
        assert getattr(transport, "agreed_on_strict_kex")  # noqa: B009 -- the stubs lack it
        assert getattr(transport, "remote_cipher") in ssh_client.CIPHERS  # noqa: B009 -- likewise
        assert transport.remote_version.startswith("SSH-2.0-OpenSSH")
    finally:
        opened.close()


def test_a_host_with_several_keys_is_met_by_the_one_we_know(sshd: Sshd) -> None:
    """sshd would rather show its Ed25519 key; known_hosts has the ECDSA one."""
    sshd.trust("host_ecdsa")
    ssh_client.open_connection(sshd.endpoint, Deadlines()).close()


@pytest.mark.parametrize("there", [True, False])
def test_an_unknown_host_is_refused_with_its_fingerprint_and_a_fix_that_works_as_printed(
    sshd: Sshd, there: bool
) -> None:
    if there:
        sshd.known_hosts.write_text("")
    else:
        sshd.known_hosts.unlink()
    error = refuse(sshd, errors.HostKeyRefused)
    assert (error.stage, error.transient) == ("kex", False)
    assert "ssh-ed25519 SHA256:" in error.message
    assert f"ssh-keyscan -p {sshd.port} 127.0.0.1 >> {sshd.known_hosts}" in str(error.hint)
    command = str(error.hint).partition("then: ")[2]
    subprocess.run(["/bin/sh", "-c", command], check=True, capture_output=True, timeout=60)
    ssh_client.open_connection(sshd.endpoint, Deadlines()).close()


def test_a_changed_key_is_said_to_have_changed_with_the_old_line_and_the_fix(sshd: Sshd) -> None:
    make_key(sshd.folder / "other")
    sshd.trust("other")
    error = refuse(sshd, errors.HostKeyRefused)
    assert "CHANGED" in error.message
    assert f"{sshd.known_hosts}:1 has ssh-ed25519 SHA256:" in error.details[0]
    fix = f"ssh-keygen -R '[127.0.0.1]:{sshd.port}' -f {sshd.known_hosts}"
    assert fix in str(error.hint)
    subprocess.run(["/bin/sh", "-c", fix], check=True, capture_output=True)
    assert "CHANGED" not in refuse(sshd, errors.HostKeyRefused).message


def test_a_host_that_lost_the_kind_of_key_we_know_has_changed_too(sshd: Sshd) -> None:
    make_key(sshd.folder / "other", "rsa")
    sshd.trust("other")
    assert "CHANGED" in refuse(sshd, errors.HostKeyRefused).message


@pytest.fixture
def site(sshd: Sshd) -> Sshd:
    """An sshd whose site keeps a second file of host keys, `site` in its folder."""
    sshd.endpoint = replace(sshd.endpoint, site_known_hosts=str(sshd.folder / "site"))
    return sshd


def test_a_key_that_only_the_sites_file_has_is_enough(site: Sshd) -> None:
    site.known_hosts.rename(site.folder / "site")
    ssh_client.open_connection(site.endpoint, Deadlines()).close()


def test_what_one_file_revokes_the_other_cannot_trust(site: Sshd) -> None:
    (site.folder / "site").write_text(f"# keys\n@revoked * {(site.folder / 'host_ed25519.pub').read_text()}")
    assert f"@revoked in {site.folder}/site:2" in refuse(site, errors.HostKeyRefused).message


def test_a_host_that_neither_file_knows_is_said_to_be_in_neither(site: Sshd) -> None:
    (site.folder / "site").write_text("")
    site.known_hosts.write_text("")
    assert f"{site.known_hosts} has no key of [127.0.0.1]:{site.port}, nor has {site.folder}/site; the host offers" in (
        refuse(site, errors.HostKeyRefused).message
    )


def test_a_changed_key_is_to_be_forgotten_in_each_file_that_has_the_old_one(site: Sshd) -> None:
    make_key(site.folder / "other")
    site.trust("other")
    (site.folder / "site").write_text(site.known_hosts.read_text())
    error = refuse(site, errors.HostKeyRefused)
    fix = str(error.hint).partition("reinstalled: ")[2].partition(", compare")[0]
    subprocess.run(["/bin/sh", "-c", fix], check=True, capture_output=True)
    assert [line.partition(" ")[0] for line in error.details] == [f"{site.known_hosts}:1", f"{site.folder}/site:1"]
    assert "CHANGED" not in refuse(site, errors.HostKeyRefused).message


def test_a_key_that_the_host_does_not_take_is_named_with_its_user(sshd: Sshd) -> None:
    sshd.endpoint = replace(sshd.endpoint, key_file=str(make_key(sshd.folder / "stranger")))
    error = refuse(sshd, errors.AuthenticationFailed)
    assert error.stage == "auth"
    assert "stranger (ssh-ed25519 SHA256:" in error.message
    assert "for root" in error.message


# What is done to the key's file; what is said of it, and the fix.
UNUSABLE: dict[str, tuple[str, str, str]] = {
    "missing": ("rm user user.pub", "no key file", "name another"),
    "open": ("chmod 644 user", "open to others (mode 0644)", "chmod 600"),
    "encrypted": ("ssh-keygen -q -p -N secret -f user", "is encrypted", "ssh-keygen"),
    "garbage": ("echo 'not a key' > user", "is not a usable private key", "ssh-keygen"),
    "public": ("cp user.pub user", "is a public key, and no agent runs", "ssh-add"),
    "folder": ("rm user; mkdir user", "is not a regular file", "name the private key itself"),
}


@pytest.mark.parametrize("case", UNUSABLE.values(), ids=UNUSABLE)
def test_a_key_file_that_cannot_be_used_is_named_with_the_fix(
    sshd: Sshd, case: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil, said, fix = case
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    subprocess.run(spoil, shell=True, cwd=sshd.folder, check=True, stdout=subprocess.DEVNULL)
    error = refuse(sshd, errors.AuthenticationFailed)
    assert said in error.message
    assert fix in str(error.hint)


def test_no_algorithm_in_common_is_a_failure_of_kex(new_sshd: Sshd) -> None:
    new_sshd.start("Ciphers=chacha20-poly1305@openssh.com")
    error = refuse(new_sshd, errors.Unreachable)
    assert error.stage == "kex"
    assert "no algorithm in common" in error.message


def test_the_host_program_runs_from_memory_and_leaves_no_file(sshd: Sshd) -> None:
    with connection.connect(sshd.endpoint) as link:
        snapshot = link.program.observe(wait_s=5)
        assert snapshot["hostname"]
        assert link.program.hello["euid"] == 0
        assert link.program.requests == 1
        descriptors = Path(f"/proc/{link.program.hello['pid']}/fd").iterdir()
        opened = [str(one.readlink()) for one in descriptors]
        assert any("memfd:vgpumgr" in one for one in opened)
        assert not [one for one in opened if ".py" in one or ".zip" in one]
    assert subprocess.run([*sshd.inside, "ls", "-A", "/root"], capture_output=True, check=True).stdout == b""


def test_a_host_program_that_hangs_ends_at_the_deadline_and_close_does_not_wait_for_it(
    sshd: Sshd, quick: Deadlines
) -> None:
    link = connection.connect(sshd.endpoint, timing=Timing(deadlines=quick))
    with stopped(link.program.hello["pid"]):
        with pytest.raises(errors.HostDeadline) as caught:
            link.program.observe(wait_s=0)
        assert caught.value.stage == "program"
        link.close()


def test_a_connection_that_dies_under_a_request_is_unreachable(sshd: Sshd) -> None:
    with connection.connect(sshd.endpoint) as link:
        os.kill(link.program.hello["pid"], signal.SIGSTOP)
        with ThreadPoolExecutor(1) as thread:
            asked = thread.submit(link.program.observe, wait_s=0)
            wait_for(lambda: link.program.requests == 1, 60)
            kill_all(sshd.sessions())
            with pytest.raises(errors.Unreachable, match="the connection was lost"):
                asked.result()


def test_closing_ends_the_host_program(sshd: Sshd) -> None:
    with connection.connect(sshd.endpoint):
        pass
    wait_for(lambda: not sshd.sessions(), 60)


CONTROLLER = """
import sys, threading
from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.link import connection
address, port, key, known, how = sys.argv[1:]
endpoint = Endpoint(host="kvm01", address=address, port=int(port), user="root", key_file=key, known_hosts=known)
link = connection.connect(endpoint)
link.program.lock(by="me", wait_s=1)
print("locked", flush=True)
sys.stdin.readline()
if how == "interrupted":
    def report():
        while link.program.requests == 1:
            pass
        print("calling", flush=True)
    threading.Thread(target=report, daemon=True).start()
    with link:
        link.observe(wait_s=60)
"""


@pytest.mark.parametrize("how", ["ended", "interrupted"])
def test_a_controller_ends_at_once_though_its_host_hangs(sshd: Sshd, how: str) -> None:
    """It ends without closing its link, or is ended by Ctrl-C while it waits for an answer."""
    reach = sshd.endpoint
    argv = [sys.executable, "-c", CONTROLLER, reach.address, str(reach.port), str(reach.key_file), reach.known_hosts]
    pipe = subprocess.PIPE
    with subprocess.Popen([*argv, how], stdin=pipe, stdout=pipe, stderr=pipe) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stdout.readline() == b"locked\n"
        with stopped(*sshd.sessions()):
            running.stdin.write(b"\n")
            running.stdin.flush()
            if how == "interrupted":
                assert running.stdout.readline() == b"calling\n"
                running.send_signal(signal.SIGINT)
            _, err = running.communicate(timeout=60)
    assert (running.returncode, b"KeyboardInterrupt" in err) == (
        (-signal.SIGINT, True) if how == "interrupted" else (0, False)
    )


class RefusesCommands(paramiko.ServerInterface):
    """An SSH server with sessions in which nothing can be run."""

    def check_auth_none(self, username: str) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED


def test_a_server_that_refuses_to_run_a_command_says_so_with_its_first_answer(
    nobody: Callable[[int], Endpoint],
) -> None:
    """The refusal is not waited for: what is sent behind the command is lost, and the first look at its output tells."""
    ours, theirs = socket.socketpair()
    server, client = paramiko.Transport(theirs), paramiko.Transport(ours)
    server.add_server_key(paramiko.ECDSAKey.generate())
    server.start_server(event=threading.Event(), server=RefusesCommands())
    client.connect(username="root")
    client.auth_none("root")
    link = ssh_client.SshConnection(nobody(22), wire.SshSocket(fileno=os.dup(ours.fileno())), client)
    try:
        command = link.run("true", stage="program", timeout_s=5)
        with pytest.raises(errors.NotStarted, match="refused to run a command") as caught:
            command.receive(Deadline(5))
        assert "restricted" in str(caught.value.hint)
        with pytest.raises(errors.NotStarted, match="refused to run a command"):
            Program.start(link, Timing()).observe(wait_s=1)
    finally:
        link.close()
        server.close()
        ours.close()
        theirs.close()
