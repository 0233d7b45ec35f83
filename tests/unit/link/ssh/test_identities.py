"""What a login is made with, against a real sshd and a real ssh-agent: certificates, encrypted keys, an agent's keys, FIDO keys."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import signal
import socket
import struct
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.link.conftest import Sshd, make_key, wait_for
from tests.unit.link.ssh.test_certificates import sign
from vgpumgr import errors
from vgpumgr.link.ssh import client, key_files, keys
from vgpumgr.timing import Deadlines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Add = Callable[[Path], None]

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


def _answers(path: Path) -> bool:
    """Whether an agent listens there: its socket is there a moment before it listens."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Add]:
    """A real agent; adds a key, whose passphrase is `secret` if it has one."""
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    wait_for(lambda: _answers(path), 10, lambda: f"ssh-agent ended with {process.poll()}")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    ask = tmp_path / "ask"
    ask.write_text("#!/bin/sh\necho secret\n")
    ask.chmod(0o755)

    def add(key: Path) -> None:
        environment = {**os.environ, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
        subprocess.run(["ssh-add", "-q", str(key)], env=environment, check=True, stdin=subprocess.DEVNULL)

    yield add
    process.send_signal(signal.SIGTERM)
    process.wait(10)


def log_in(sshd: Sshd, **changes: str | None) -> None:
    client.open_connection(replace(sshd.endpoint, **changes), Deadlines()).close()  # type: ignore[arg-type]


def refuse(sshd: Sshd, **changes: str | None) -> errors.AuthenticationFailed:
    with pytest.raises(errors.AuthenticationFailed) as caught:
        log_in(sshd, **changes)
    assert (caught.value.stage, caught.value.exit_code, caught.value.transient) == ("auth", 4, False)
    return caught.value


def allow(sshd: Sshd, *files: Path) -> None:
    (sshd.folder / "authorized_keys").write_text("".join(file.read_text() for file in files))


def attempts(sshd: Sshd) -> int:
    """How many keys sshd was offered, by its log, which is complete once the processes of all sessions have ended."""
    wait_for(lambda: not sshd.sessions(), 60)
    return sshd.log.count("Accepted publickey") + sshd.log.count("Failed publickey")


# Certificates


@pytest.fixture
def by_certificate(sshd: Sshd) -> Sshd:
    """An sshd that knows no key, only an authority for users."""
    make_key(sshd.folder / "ca")
    allow(sshd)
    return sshd


def key_of(sshd: Sshd) -> Path:
    return sshd.folder / "user"


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_a_certificate_beside_the_key_is_enough(by_certificate: Sshd, kind: str) -> None:
    key = make_key(by_certificate.folder / f"user_{kind}", kind)
    sign(key, "-n", "root")
    log_in(by_certificate, key_file=str(key))
    assert attempts(by_certificate) == 1


def test_a_certificate_may_be_somewhere_else(by_certificate: Sshd) -> None:
    there = sign(key_of(by_certificate), "-n", "root").rename(by_certificate.folder / "elsewhere.pub")
    log_in(by_certificate, certificate=str(there))


def test_an_expired_certificate_beside_the_key_is_told_if_the_key_is_not_enough(by_certificate: Sshd) -> None:
    file = sign(key_of(by_certificate), "-n", "root", "-V", "20200101:20210101")
    error = refuse(by_certificate)
    assert f"for root, and certificate {file} has expired: it was valid until 202" in error.message
    assert attempts(by_certificate) == 1
    allow(by_certificate, by_certificate.folder / "user.pub")
    log_in(by_certificate)


NAMED = {
    "a host's": (("-h", "-n", "root"), "is one of a host, not of a user"),
    "not yet valid": (("-n", "root", "-V", "20900101:20910101"), "is not valid before 20"),
    "expired": (("-n", "root", "-V", "20200101:20210101"), "has expired: it was valid until 202"),
}


@pytest.mark.parametrize("case", NAMED.values(), ids=NAMED)
def test_a_named_certificate_that_does_not_hold_is_refused_before_anything_is_sent(
    by_certificate: Sshd, case: tuple[tuple[str, ...], str]
) -> None:
    options, said = case
    file = sign(key_of(by_certificate), *options)
    error = refuse(by_certificate, certificate=str(file))
    assert f"certificate {file} {said}" in error.message
    assert "-V +8h" in str(error.hint)
    assert attempts(by_certificate) == 0


def test_a_named_certificate_has_to_be_of_this_key_and_to_be_one(by_certificate: Sshd) -> None:
    other = sign(make_key(by_certificate.folder / "other"), "-n", "root")
    assert "is for another key than" in refuse(by_certificate, certificate=str(other)).message
    other.write_text("nonsense\n")
    assert "cannot be read: no line TYPE BASE64" in refuse(by_certificate, certificate=str(other)).message
    assert "No such file" in refuse(by_certificate, certificate="/nowhere/cert.pub").message


def test_a_certificate_for_another_user_is_named_with_its_principals(by_certificate: Sshd) -> None:
    sign(key_of(by_certificate), "-n", "anna")
    error = refuse(by_certificate)
    assert "with certificate 'kvm01' for 'anna', valid until forever, for root" in error.message
    assert "TrustedUserCAKeys" in str(error.hint)


# An agent


@pytest.fixture
def locked(sshd: Sshd) -> Path:
    """An encrypted key that the host takes."""
    key = make_key(sshd.folder / "locked", passphrase="secret")
    allow(sshd, sshd.folder / "locked.pub")
    return key


def test_an_encrypted_key_needs_an_agent_that_has_it(sshd: Sshd, locked: Path) -> None:
    error = refuse(sshd, key_file=str(locked))
    assert "is encrypted, and no passphrase is asked for, and no agent runs" in error.message
    assert f"ssh-add {locked}" in str(error.hint)


def test_an_agent_gives_the_one_key_that_was_named(sshd: Sshd, locked: Path, agent: Add) -> None:
    others = [make_key(sshd.folder / f"other{number}") for number in range(8)]
    for key in others:
        agent(key)
    error = refuse(sshd, key_file=str(locked))
    assert "the agent does not have it" in error.message
    assert len(error.details) == len(others)
    agent(locked)
    log_in(sshd, key_file=str(locked))
    locked.unlink()  # its public half is enough, and sshd would have given up after six
    log_in(sshd, key_file=str(locked))
    log_in(sshd, key_file=f"{locked}.pub")
    assert attempts(sshd) == 3


def test_the_agent_is_the_one_that_was_named(
    sshd: Sshd, locked: Path, agent: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As IdentityAgent names it: a socket, a variable that has its path, none."""
    agent(locked)
    socket_path = os.environ["SSH_AUTH_SOCK"]
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nowhere/agent")
    monkeypatch.setenv("WORK", socket_path)
    for said in (socket_path, "$WORK"):
        log_in(sshd, key_file=str(locked), agent=said)
    for said, why in (
        ("SSH_AUTH_SOCK", "the agent cannot be reached: /nowhere/agent"),
        ("$NOTHING", "no agent runs (NOTHING is not set)"),
        ("none", "no agent is asked (IdentityAgent none)"),
    ):
        assert why in refuse(sshd, key_file=str(locked), agent=said).message


@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_an_agents_key_of_another_kind_with_a_certificate(by_certificate: Sshd, agent: Add, kind: str) -> None:
    key = make_key(by_certificate.folder / "locked", kind, passphrase="secret")
    agent(key)
    sign(key, "-n", "root")
    log_in(by_certificate, key_file=str(key))


def test_an_agents_only_key_is_used_where_none_is_named(
    sshd: Sshd, locked: Path, agent: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "DEFAULT_KEYS", ("/nowhere/id_ed25519",))
    assert "the agent has none" in refuse(sshd, key_file=None).message
    agent(locked)
    log_in(sshd, key_file=None)
    agent(make_key(sshd.folder / "second"))
    error = refuse(sshd, key_file=None)
    assert "the agent has 2" in error.message
    assert "its public half will do" in str(error.hint)


def test_a_locked_agent_has_no_keys(sshd: Sshd, locked: Path, agent: Add, tmp_path: Path) -> None:
    agent(locked)
    ask = {**os.environ, "SSH_ASKPASS": str(tmp_path / "ask"), "SSH_ASKPASS_REQUIRE": "force"}
    subprocess.run(["ssh-add", "-x"], env=ask, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    assert "the agent does not have it" in refuse(sshd, key_file=str(locked)).message


# FIDO keys, and agents that go wrong


class FakeAgent:
    """An agent with one FIDO key made of software. `answer`: what it does when it is to sign."""

    def __init__(self, path: Path, answer: str) -> None:
        self._answer = answer
        self._private = Ed25519PrivateKey.generate()
        public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.blob = text(b"sk-ssh-ed25519@openssh.com") + text(public) + text(b"ssh:")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def line(self) -> str:
        return f"sk-ssh-ed25519@openssh.com {base64.b64encode(self.blob).decode()} fido\n"

    def close(self) -> None:
        """End the thread first. In accept() it would go on by the descriptor's number, which the next agent is given."""
        self.ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, struct.error):
            while True:
                (size,) = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))
                request = connection.recv(size, socket.MSG_WAITALL)
                if request[0] == 11:
                    connection.sendall(text(b"\x0c" + struct.pack(">I", 1) + text(self.blob) + text(b"fido")))
                elif self._answer == "signs":
                    connection.sendall(text(b"\x0e" + text(self._sign(request))))
                elif self._answer == "refuses":
                    connection.sendall(text(b"\x05"))
                elif self._answer == "nonsense":
                    connection.sendall(b"\xff" * 8)
                elif self._answer == "waits":
                    self.ended.wait(30)
                else:
                    return

    def _sign(self, request: bytes) -> bytes:
        (size,) = struct.unpack_from(">I", request, 1)
        at = 1 + 4 + size
        (length,) = struct.unpack_from(">I", request, at)
        data = request[at + 4 : at + 4 + length]
        behind = b"\x01" + struct.pack(">I", 7)  # touched, and a counter
        said = hashlib.sha256(b"ssh:").digest() + behind + hashlib.sha256(data).digest()
        return text(b"sk-ssh-ed25519@openssh.com") + text(self._private.sign(said)) + behind


def text(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


@pytest.fixture
def fido(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """An agent with a FIDO key that the host takes; the path of its public half."""
    started: list[FakeAgent] = []

    def start(answer: str) -> str:
        fake = FakeAgent(sshd.folder / "fake-agent", answer)
        started.append(fake)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(sshd.folder / "fake-agent"))
        public = sshd.folder / "fido.pub"
        public.write_text(fake.line())
        allow(sshd, public)
        return str(public)

    yield start
    for one in started:
        one.close()


def test_a_fido_key_works_by_an_agent(sshd: Sshd, fido: Callable[[str], str]) -> None:
    log_in(sshd, key_file=fido("signs"))


def test_a_certificate_of_a_fido_key_is_judged_and_works(by_certificate: Sshd, fido: Callable[[str], str]) -> None:
    key = fido("signs")
    allow(by_certificate)
    public = Path(key)
    sign(public.with_suffix(""), "-n", "root", "-V", "20200101:20210101")
    assert "has expired: it was valid until 202" in refuse(by_certificate, key_file=key).message
    file = sign(public.with_suffix(""), "-n", "root")
    log_in(by_certificate, key_file=key)
    sign(make_key(by_certificate.folder / "other"), "-n", "root").replace(file)
    assert "is for another key than" in refuse(by_certificate, key_file=key).message


def test_a_certificate_of_an_authority_on_a_fido_key_is_judged_and_works(
    sshd: Sshd, fido: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Path(fido("signs"))
    allow(sshd)
    (sshd.folder / "ca.pub").write_text(authority.read_text())
    key = make_key(sshd.folder / "certified")
    sign(key, "-U", "-n", "root", "-V", "20200101:20210101", ca=authority)
    by_agent = os.environ["SSH_AUTH_SOCK"]
    monkeypatch.delenv("SSH_AUTH_SOCK")
    assert "has expired: it was valid until 202" in refuse(sshd, key_file=str(key)).message
    monkeypatch.setenv("SSH_AUTH_SOCK", by_agent)
    sign(key, "-U", "-n", "root", ca=authority)
    log_in(sshd, key_file=str(key))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("refuses", "auth: the agent does not sign with it"),
        ("nonsense", "auth: the program that answers at SSH_AUTH_SOCK is no agent"),
        ("closes", "auth: the agent has closed the connection"),
    ],
)
def test_an_agent_that_does_not_sign_is_told(sshd: Sshd, fido: Callable[[str], str], answer: str, said: str) -> None:
    error = refuse(sshd, key_file=fido(answer))
    assert said in error.message
    assert "ssh-add -l" in str(error.hint)


def test_an_agent_that_waits_to_be_touched_ends_at_the_deadline(sshd: Sshd, fido: Callable[[str], str]) -> None:
    endpoint = replace(sshd.endpoint, key_file=fido("waits"))
    with pytest.raises((errors.HostDeadline, errors.AuthenticationFailed)) as caught:
        client.open_connection(endpoint, Deadlines(auth=0.5))
    assert "touched" in str(caught.value.hint)


def test_the_file_of_a_fido_key_is_told_from_others(sshd: Sshd) -> None:
    blob = text(b"sk-ssh-ed25519@openssh.com") + text(b"p" * 32) + text(b"ssh:")
    body = (
        b"openssh-key-v1\0" + text(b"none") + text(b"none") + text(b"") + struct.pack(">I", 1) + text(blob) + text(b"x")
    )
    file = sshd.folder / "sk"
    file.write_text(
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{base64.b64encode(body).decode()}\n-----END OPENSSH PRIVATE KEY-----\n"
    )
    file.chmod(0o600)
    error = refuse(sshd, key_file=str(file))
    assert "is that of a FIDO key, which only an agent can use, and no agent runs" in error.message


# Reading files


@pytest.mark.parametrize(("kind", "passphrase"), [("ed25519", ""), ("ecdsa", "secret"), ("rsa", "")])
def test_a_key_file_tells_its_public_half_and_whether_it_is_encrypted(
    tmp_path: Path, kind: str, passphrase: str
) -> None:
    key = make_key(tmp_path / "key", kind, passphrase)
    found = key_files.read(key.read_bytes())
    assert found.public == key_files.read_public((tmp_path / "key.pub").read_bytes())
    assert found.public is not None
    assert (found.is_private, found.is_encrypted, found.is_fido) == (True, bool(passphrase), False)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_some_file(data: bytes, wrapped: bool) -> None:
    if wrapped:
        data = b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + base64.b64encode(b"openssh-key-v1\0" + data) + b"\n-----END"
    assert key_files.read(data).is_private or key_files.read(data).public
