"""An ssh-agent: its keys, and signatures by one of them (draft-ietf-sshm-ssh-agent). Every wait has a limit, since it
may ask its user each time, or want a FIDO key to be touched.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple, Self

from vgpumgr.core.model.endpoint import NO_AGENT, USUAL_AGENT
from vgpumgr.link.deadlines import humanize
from vgpumgr.wording import say

if TYPE_CHECKING:
    from types import TracebackType

_LIST, _LISTED = 11, 12
_SIGN, _SIGNED = 13, 14
_RSA_FLAGS = {"rsa-sha2-256": 2, "rsa-sha2-512": 4}
_MOST_BYTES = 1 << 20
_MOST_KEYS = 1000


class AgentFailed(Exception):
    """The agent cannot be used; the text says why."""


class AgentRefused(AgentFailed):
    """The agent would not sign: its user said no, the key was not touched, or the agent is locked."""


class PublicKey(NamedTuple):
    """A public key that the agent has, encoded as it goes over the wire, with its comment."""

    blob: bytes
    comment: str


class Agent:
    """A connection to an ssh-agent: the one that Endpoint.agent names, usually this session's. A context manager."""

    def __init__(self, said: str, timeout_s: float) -> None:
        path = _find(said)
        self._said = said
        self._timeout_s = timeout_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise AgentFailed(f"the agent cannot be reached: {path}: {error.strerror or 'timed out'}") from error

    def list_keys(self) -> list[PublicKey]:
        """Return every key that the agent has. Raises AgentFailed."""
        kind, body = self._ask(bytes([_LIST]))
        if kind != _LISTED:
            raise AgentFailed("the agent does not list its keys")
        fields = _Fields(body)
        return [
            PublicKey(fields.string(), fields.string().decode(errors="replace"))
            for _ in range(min(fields.number(), _MOST_KEYS))
        ]

    def sign(self, blob: bytes, data: bytes, algorithm: str | None) -> bytes:
        """Return a signature of `data` by the key whose public part is `blob`. Raises AgentRefused, AgentFailed."""
        flags = next((flag for name, flag in _RSA_FLAGS.items() if (algorithm or "").startswith(name)), 0)
        kind, body = self._ask(bytes([_SIGN]) + _string(blob) + _string(data) + struct.pack(">I", flags))
        if kind != _SIGNED:
            raise AgentRefused("the agent does not sign with it")
        return _Fields(body).string()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: bytes) -> tuple[int, bytes]:
        try:
            self._socket.sendall(_string(request))
            size = int.from_bytes(self._receive(4), "big")
            if not 0 < size <= _MOST_BYTES:
                raise AgentFailed(f"the program that answers at {self._said} is no agent")
            answer = self._receive(size)
        except TimeoutError as error:
            raise AgentRefused(say("the agent does not answer within {}", humanize(self._timeout_s))) from error
        except OSError as error:
            raise AgentFailed(f"the connection to the agent is lost: {error}") from error
        return answer[0], answer[1:]

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise AgentFailed("the agent has closed the connection")
            data += more
        return data


def _find(said: str) -> str:
    """Return the path of the agent's socket. As in OpenSSH, `said` is that path, or a variable's name.

    Raises AgentFailed if no agent may be used, or if none runs.
    """
    if said == NO_AGENT:
        raise AgentFailed("no agent is asked (IdentityAgent none)")
    if said != USUAL_AGENT and not said.startswith("$"):
        return said
    name = said.removeprefix("$")
    if not (path := os.environ.get(name)):
        raise AgentFailed(f"no agent runs ({name} is not set)")
    return path


class AgentKey:
    """A key of the agent, with the methods that paramiko needs for a login."""

    public_blob: object = None

    def __init__(self, agent: Agent, blob: bytes) -> None:
        self._agent = agent
        self._blob = blob
        self._failures: list[AgentFailed] = []  # shared with copies of this key

    @property
    def failed(self) -> AgentFailed | None:
        """The first reason why the key has not signed; None if it never failed."""
        return self._failures[0] if self._failures else None

    def get_name(self) -> str:
        """Return the key's type, for example ssh-ed25519."""
        return _Fields(self._blob).string().decode(errors="replace")

    def asbytes(self) -> bytes:
        """Return the public key."""
        return self._blob

    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> bytes:
        """Return the agent's signature of `data`. paramiko calls this in a thread of its own. Raises AgentFailed."""
        try:
            return self._agent.sign(self._blob, data, algorithm)
        except AgentFailed as error:
            self._failures.append(error)
            raise

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._agent.close()


class _Fields:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def string(self) -> bytes:
        return self._take(self.number())

    def _take(self, size: int) -> bytes:
        if len(self._data) < size:
            raise AgentFailed("the agent's answer is cut short")
        part, self._data = self._data[:size], self._data[size:]
        return part


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
