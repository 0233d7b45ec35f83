"""A lab's certificate authorities: one for hosts, one for users, or both, as the spec asks.

With the first, known_hosts has only that authority. With the second, hosts let in only keys that it has signed.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorities:
    """The paths of both authorities' private keys. A lab has an authority if its key exists."""

    hosts: Path
    users: Path

    @property
    def for_hosts(self) -> bool:
        return self.hosts.exists()

    @property
    def for_users(self) -> bool:
        return self.users.exists()

    def sign_host(self, public: Path, *names: str) -> Path:
        """Write KEY-cert.pub beside KEY.pub, for a host of these names and addresses; return its path."""
        return _sign(self.hosts, public, names, "-h")

    def sign_user(self, public: Path, *users: str) -> Path:
        """Write KEY-cert.pub beside KEY.pub, for logins as these users; return its path."""
        return _sign(self.users, public, users)


def public_half(key: Path) -> str:
    """The line in KEY.pub."""
    return key.with_suffix(".pub").read_text(encoding="ascii").strip()


def _sign(authority: Path, public: Path, principals: tuple[str, ...], *options: str) -> Path:
    names = ",".join(principals)
    process = subprocess.run(
        ["ssh-keygen", "-q", "-s", str(authority), "-I", principals[0], "-n", names, *options, str(public)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise LabError(f"ssh-keygen ended with {process.returncode}", details=process.stderr.splitlines())
    return public.with_name(f"{public.stem}-cert.pub")
