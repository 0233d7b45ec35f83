"""Why a server refuses a login, as far as it says so, and where to look. Pure.

An unknown key, a locked account and a home that others can write to get the same refusal. Only sshd's log tells which.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from vgpumgr.errors import AuthenticationFailed, Unreachable
from vgpumgr.link.host_text import clean, lines, quote
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vgpumgr.core.model.endpoint import Endpoint

_STAGE: Final = "auth"
_LOG: Final = "its sshd log has the reason: journalctl -u ssh -u sshd"
_EXPIRED: Final = re.compile(r"account (has )?expired", re.IGNORECASE)
# pam_nologin shows the file /run/nologin, which systemd writes.
_OFF: Final = re.compile(r"not permitted to log in|going down|booting up", re.IGNORECASE)


class KeyOffered(NamedTuple):
    """`shown`: file, kind and fingerprint. `certificate`: the text about it, if any. `remark`: what is odd about it."""

    file: Path
    shown: str
    certificate: str = ""
    remark: str = ""


def not_taken(endpoint: Endpoint, key: KeyOffered) -> AuthenticationFailed:
    """The error if sshd refuses the key without a reason."""
    user = endpoint.user
    remark = f", and {key.remark}" if key.remark else ""
    file = f"~{user}/.ssh/authorized_keys"
    no_trust = (
        f"others may write to that file, or to a folder above it, so that sshd does not trust it (namei -l {file})"
    )
    causes = [
        no_trust.replace("that file", file) if key.certificate else f"it is not in {file}, or {no_trust}",
        "PermitRootLogin no in its sshd_config; prohibit-password lets keys in"
        if user == "root"
        else f"{user} is locked, expired or without a valid shell (passwd -S {user}; chage -l {user}; getent passwd {user}), or kept "
        "out by AllowUsers, AllowGroups, DenyUsers or DenyGroups in its sshd_config",
    ]
    return AuthenticationFailed(
        endpoint.host,
        _STAGE,
        say("the host does not take {}{} for {}{}", key.shown, key.certificate, user, remark),
        hint=f"{_what_to_do(endpoint, key)}; {_LOG}",
        details=[f"likely: {cause}" for cause in causes],
    )


def no_keys(endpoint: Endpoint, allowed: Sequence[str]) -> AuthenticationFailed:
    """The error if sshd accepts no keys at all for that user."""
    return AuthenticationFailed(
        endpoint.host,
        _STAGE,
        f"{endpoint.user} cannot log in with a key there; sshd allows {_methods(allowed)}",
        hint="PubkeyAuthentication yes, and PermitRootLogin prohibit-password for root, in sshd_config",
    )


def more_wanted(endpoint: Endpoint, key: KeyOffered, allowed: Sequence[str]) -> AuthenticationFailed:
    """The error if sshd accepts the key, but demands something else, too."""
    return AuthenticationFailed(
        endpoint.host,
        _STAGE,
        say(
            "sshd takes {} for {}, but also wants {}, which vgpumgr never sends",
            key.shown,
            endpoint.user,
            _methods(allowed),
        ),
        hint=f"AuthenticationMethods publickey for {endpoint.user} in its sshd_config (Match User {endpoint.user})",
    )


def closed(endpoint: Endpoint, why: str, banner: bytes) -> Unreachable:
    """The error if sshd ended the connection during the login. `banner` has PAM's reason, if there is one."""
    user = endpoint.user
    texts = lines(banner)
    quotation = quote(texts)
    if any(_EXPIRED.search(text) for text in texts):
        return AuthenticationFailed(
            endpoint.host,
            _STAGE,
            f"the account {user} has expired there",
            hint=f"there: chage -l {user} shows when; chage -E -1 {user} lets it in",
            details=quotation,
        )
    if any(_OFF.search(text) for text in texts):
        return Unreachable(
            endpoint.host,
            _STAGE,
            "nobody but root may log in now",
            hint="the host is being started or shut down; if it is not: rm /run/nologin /etc/nologin there",
            details=quotation,
        )
    return Unreachable(
        endpoint.host,
        _STAGE,
        say("{}: PAM does not let {} in, or sshd failed", why, user),
        hint=f"{_LOG}; also chage -l {user}, and the account lines of /etc/pam.d/sshd",
        details=quotation,
    )


def _what_to_do(endpoint: Endpoint, key: KeyOffered) -> str:
    if key.certificate:
        return (
            f"TrustedUserCAKeys in its sshd_config has to name the authority, and the certificate {endpoint.user} or what "
            "AuthorizedPrincipals has there"
        )
    public = shlex.quote(f"{str(key.file).removesuffix('.pub')}.pub")
    way = f"-o ProxyJump={shlex.quote(','.join(map(str, endpoint.jumps)))} " if endpoint.jumps else ""
    login = shlex.quote(f"{endpoint.user}@{endpoint.address}")
    return f"ssh-copy-id -f -i {public} -p {endpoint.port} {way}{login}"


def _methods(names: Sequence[str]) -> str:
    return clean(", ".join(names)) or "nothing"
