"""What can be read of a key file without its passphrase: OpenSSH does not encrypt public key and cipher name. Pure."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from dataclasses import dataclass

_OPENSSH = re.compile(rb"-----BEGIN OPENSSH PRIVATE KEY-----\s+(.*?)-----END", re.DOTALL)
_PUBLIC = re.compile(rb"((?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+) +([A-Za-z0-9+/]+={0,2})(?:\s|$)")
_MAGIC = b"openssh-key-v1\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """`public`: the public key as it goes over the wire; None: unknown. `is_private`: the file has the private half."""

    public: bytes | None
    is_private: bool
    is_encrypted: bool = False

    @property
    def is_fido(self) -> bool:
        """Whether the private half is in a security key."""
        return self.public is not None and self.public[4:7] == b"sk-"


def read(data: bytes) -> KeyFile:
    """The kind of a key file's content. All but a public key counts as private; loading it shows what is wrong."""
    if (match := _OPENSSH.search(data)) is not None:
        try:
            return _read_openssh(base64.b64decode(match[1]))
        except (binascii.Error, ValueError, struct.error):
            return KeyFile(public=None, is_private=True)
    if (public := read_public(data)) is not None:
        return KeyFile(public=public, is_private=False)
    return KeyFile(public=None, is_private=True, is_encrypted=b"ENCRYPTED" in data)


def read_public(data: bytes) -> bytes | None:
    """The key or certificate in a line of a KEY.pub file; None if there is none."""
    match = _PUBLIC.match(data.lstrip())
    if match is None:
        return None
    try:
        blob = base64.b64decode(match[2], validate=True)
    except binascii.Error:
        return None
    return blob if blob[4 : 4 + len(match[1])] == match[1] else None


def _read_openssh(data: bytes) -> KeyFile:
    if not data.startswith(_MAGIC):
        raise ValueError("no magic")
    fields: list[bytes] = []
    at = len(_MAGIC)
    for position in range(5):  # cipher, kdf, its options, how many keys, the public key
        if position == 3:
            at += 4
            continue
        (size,) = struct.unpack_from(">I", data, at)
        fields.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    if at > len(data):
        raise ValueError("cut short")
    return KeyFile(public=fields[3], is_private=True, is_encrypted=fields[0] != b"none")
