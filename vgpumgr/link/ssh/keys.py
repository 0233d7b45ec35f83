"""Which key is used to log in, and whether it may be: OpenSSH's own rules, checked before anything is sent.

It is one key, never every key of an agent or of ~/.ssh: sshd counts each offered key as an attempt (MaxAuthTries), and
newer versions then block the controller's address for a while. An agent is asked only if the file is not enough: the
key is encrypted or in a FIDO key, or the file has only its public half.
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr import files
from vgpumgr.errors import AuthenticationFailed
from vgpumgr.link.ssh import key_files
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.ssh.agent import Agent, AgentKey, PublicKey

DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
OWN = "create a separate key for vgpumgr: ssh-keygen -t ed25519 -N ''"


class Chosen(NamedTuple):
    """The key to log in with.

    `path` is the key's file. `agent_key`: the agent's key if an agent has to sign; None: the file is enough.
    """

    path: Path
    agent_key: AgentKey | None = None


def choose(endpoint: Endpoint, timeout_s: float) -> Chosen:
    """Choose the named key, the first of DEFAULT_KEYS that exists, or an agent's only key.

    Raises AuthenticationFailed.
    """
    path = _named(endpoint)
    if path is None:
        return _only_one(endpoint, timeout_s)
    public_half = path.with_name(f"{path.name}.pub")
    try:
        status = path.stat()
        content = files.read_bytes(path) if stat.S_ISREG(status.st_mode) else b""
    except FileNotFoundError as error:
        if public_half.exists():
            return _from_agent(endpoint, path, _read_public(public_half), f"key file {path} is not there", timeout_s)
        raise _failed(endpoint, f"no key file {path}", "name another: ansible_ssh_private_key_file") from error
    except OSError as error:
        raise _failed(
            endpoint, f"key file {path}: {error.strerror}", f"make it readable for your user: ls -l {path}"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise _failed(endpoint, f"key file {path} is not a regular file", "name the private key itself")
    key = key_files.read(content)
    if not key.is_private:
        return _from_agent(endpoint, path, key.public, f"key file {path} is a public key", timeout_s)
    # As in OpenSSH: only a key that the user owns is judged by its mode.
    if status.st_uid == os.getuid() and status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise _failed(
            endpoint, f"key file {path} is open to others (mode {mode:04o})", f"chmod 600 {shlex.quote(str(path))}"
        )
    if key.is_fido or key.is_encrypted:
        why = (
            "is that of a FIDO key, which only an agent can use"
            if key.is_fido
            else "is encrypted, and no passphrase is asked for"
        )
        return _from_agent(endpoint, path, key.public or _read_public(public_half), f"key file {path} {why}", timeout_s)
    return Chosen(path)


def certificate_file(endpoint: Endpoint, key: Path) -> Path | None:
    """The file of that key's certificate: the named one, else the one beside the key; None if there is neither."""
    if endpoint.certificate is not None:
        return Path(endpoint.certificate)
    beside = Path(f"{str(key).removesuffix('.pub')}-cert.pub")
    return beside if beside.exists() else None


def _named(endpoint: Endpoint) -> Path | None:
    if endpoint.key_file is not None:
        return files.expanded(endpoint.key_file)
    paths = (files.expanded(name) for name in DEFAULT_KEYS)
    return next((path for path in paths if path.exists()), None)


def _read_public(path: Path) -> bytes | None:
    try:
        return key_files.read_public(files.read_bytes(path))
    except OSError:
        return None


def _from_agent(endpoint: Endpoint, path: Path, public: bytes | None, why: str, timeout_s: float) -> Chosen:
    """The agent's key whose public half is `public`. `why` says why the key's file is not enough."""
    from vgpumgr.link.ssh import agent as agents

    add = f"ssh-add {shlex.quote(str(path).removesuffix('.pub'))}, or {OWN}"
    if public is None:
        half = f"{shlex.quote(str(path))}.pub"
        hint = f"ssh-keygen -y -f {shlex.quote(str(path))} > {half}, then {add}"
        raise _failed(
            endpoint, f"{why}, and without {path}.pub it cannot be told which of the agent's keys it is", hint
        )
    try:
        agent, keys = _open(endpoint, timeout_s)
    except agents.AgentFailed as error:
        raise _failed(endpoint, say("{}, and {}", why, *error.args), add) from error
    if all(one.blob != public for one in keys):
        agent.close()
        raise _failed(endpoint, f"{why}, and the agent does not have it", add, _render(keys))
    return Chosen(path, agents.AgentKey(agent, public))


def _only_one(endpoint: Endpoint, timeout_s: float) -> Chosen:
    """The agent's key if it has only one. With several we would have to guess, and sshd counts each attempt."""
    from vgpumgr.link.ssh import agent as agents

    none = f"no key is named, and none of {', '.join(DEFAULT_KEYS)} exists"
    name = "name one in the inventory: ansible_ssh_private_key_file"
    try:
        agent, keys = _open(endpoint, timeout_s)
    except agents.AgentFailed as error:
        raise _failed(endpoint, none, name) from error
    plain = [one for one in keys if b"-cert-v0" not in one.blob[:60]]
    if len(plain) != 1:
        agent.close()
        has = f"the agent has {len(plain)}" if plain else "the agent has none"
        raise _failed(
            endpoint, f"{none}; {has}", f"{name} (of a key in the agent, its public half will do)", _render(plain)
        )
    return Chosen(Path(plain[0].comment or "the agent's key"), agents.AgentKey(agent, plain[0].blob))


def _open(endpoint: Endpoint, timeout_s: float) -> tuple[Agent, list[PublicKey]]:
    from vgpumgr.link.ssh import agent as agents

    agent = agents.Agent(endpoint.agent, timeout_s)
    try:
        return agent, agent.list_keys()
    except BaseException:
        agent.close()
        raise


def _render(keys: list[PublicKey]) -> list[str]:
    from vgpumgr.link.ssh.known_hosts import compute_fingerprint

    return [say("the agent has {} {}", compute_fingerprint(one.blob), repr(one.comment)) for one in keys]


def _failed(endpoint: Endpoint, message: str, hint: str, details: list[str] | None = None) -> AuthenticationFailed:
    return AuthenticationFailed(endpoint.host, "auth", message, hint=hint, details=details or ())
