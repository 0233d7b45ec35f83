"""Host certificates, made by ssh-keygen and offered by a real sshd: what holds, and each reason why one does not."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.link.conftest import Sshd, make_key
from vgpumgr import errors
from vgpumgr.link.ssh import certificate as certificates
from vgpumgr.link.ssh import client, host_key
from vgpumgr.timing import Deadlines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = "127.0.0.1"
VALID = ("-h", "-n", f"kvm01,{NAME}")


def sign(key: Path, *options: str, ca: Path | None = None) -> Path:
    """KEY-cert.pub, signed by the CA beside it."""
    authority = ca or key.parent / "ca"
    if not authority.exists():
        make_key(authority)
    command = ["ssh-keygen", "-q", "-s", str(authority), "-I", "kvm01", *options, f"{key}.pub"]
    subprocess.run(command, check=True, capture_output=True)
    return key.with_name(f"{key.name}-cert.pub")


def blob_of(file: Path) -> bytes:
    return base64.b64decode(file.read_text().split()[1])


def trust(sshd: Sshd, *lines: str) -> None:
    """A known_hosts of these lines; {ca} and the like are the keys of these names."""
    keys = {name.stem: name.read_text().strip() for name in sshd.folder.glob("*.pub")}
    sshd.known_hosts.write_text("".join(f"{line.format(**keys)}\n" for line in lines))


def start(sshd: Sshd, certificate: Path, *options: str) -> Sshd:
    return sshd.start(f"HostCertificate={certificate}", *options)


def refuse(sshd: Sshd) -> errors.HostKeyRefused:
    with pytest.raises(errors.HostKeyRefused) as caught:
        client.open_connection(sshd.endpoint, Deadlines()).close()
    return caught.value


@pytest.mark.parametrize(("kind", "authority"), [("ed25519", "rsa"), ("ecdsa", "ed25519"), ("rsa", "ecdsa")])
def test_a_certificate_of_each_kind_is_enough(new_sshd: Sshd, kind: str, authority: str) -> None:
    make_key(new_sshd.folder / "ca", authority)
    key = new_sshd.folder / f"host_{kind}"
    if not key.exists():
        make_key(key, kind)
    signing = ("-t", "rsa-sha2-512") if authority == "rsa" else ()
    start(new_sshd, sign(key, *VALID, *signing), f"HostKey={key}")
    trust(new_sshd, CA)
    client.open_connection(new_sshd.endpoint, Deadlines()).close()


CA = "@cert-authority * {ca}"
# How it is signed, what known_hosts has, what is said of it, and the fix.
REFUSED: dict[str, tuple[tuple[str, ...], tuple[str, ...], str, str]] = {
    "another host's": (("-h", "-n", "kvm02,kvm03"), (CA,), f"is for 'kvm02', 'kvm03', not for {NAME}", "ansible_host"),
    "expired": ((*VALID, "-V", "20200101:20210101"), (CA,), "has expired: it was valid until 202", "-V +52w"),
    "not yet valid": ((*VALID, "-V", "20900101:20910101"), (CA,), "is not valid before 20", "clock"),
    "a user's": (("-n", NAME), (CA,), "is one of a user, not of a host", "signed without -h"),
    "with critical options": (
        (*VALID, "-O", "critical:only@example.net=x"),
        (CA,),
        "has critical options, which no host certificate may have",
        "-V +52w",
    ),
    "without principals": (("-h",), (CA,), "names no host, and so would be valid for any", f"-n {NAME}"),
    "another authority's": (
        VALID,
        ("@cert-authority * {other}",),
        "is signed by SHA256:",
        "@cert-authority [127.0.0.1]:",
    ),
    "a revoked authority's": (
        VALID,
        (CA, "@revoked * {ca}"),
        "kex: the authority of the host's certificate, SHA256:",
        "stolen",
    ),
    "a revoked key's": (
        VALID,
        (CA, "@revoked * {host_ed25519}"),
        "kex: the host's key ssh-ed25519 SHA256:",
        "stolen",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_certificate_that_does_not_hold_is_refused_with_its_reason(
    new_sshd: Sshd, case: tuple[tuple[str, ...], tuple[str, ...], str, str]
) -> None:
    options, lines, said, fix = case
    make_key(new_sshd.folder / "other")
    start(new_sshd, sign(new_sshd.folder / "host_ed25519", *options))
    trust(new_sshd, *lines)
    error = refuse(new_sshd)
    assert (said if said.startswith("kex: ") else f"kex: the host's certificate 'kvm01' {said}") in error.message
    assert fix in str(error.hint)
    assert (error.stage, error.exit_code, error.transient) == ("kex", 4, False)


@pytest.mark.parametrize("is_of_key", [True, False])
def test_a_certificate_that_is_forged_or_of_another_key_is_refused(sshd: Sshd, *, is_of_key: bool) -> None:
    """An sshd offers neither, so none is asked."""
    blob = blob_of(sign(make_key(sshd.folder / "offered"), *VALID))
    key = certificates.wire(certificates.read(blob).public_key())
    trust(sshd, CA)
    known = host_key.find_known(sshd.endpoint)
    host_key.check(sshd.endpoint, known, key_type="ssh-ed25519", blob=key, certificate=blob)
    if is_of_key:
        blob = blob[:-1] + bytes([blob[-1] ^ 1])
    else:
        key = key[:-1] + bytes([key[-1] ^ 1])
    with pytest.raises(errors.HostKeyRefused, match="'kvm01' has no valid signature of SHA256:") as caught:
        host_key.check(sshd.endpoint, known, key_type="ssh-ed25519", blob=key, certificate=blob)
    assert "not supported (ssh-ed25519)" in str(caught.value.hint)


def test_a_host_that_offers_no_certificate_is_told_so(sshd: Sshd) -> None:
    make_key(sshd.folder / "ca")
    trust(sshd, CA)
    error = refuse(sshd)
    assert "the host offers no certificate, only ssh-ed25519 SHA256:" in error.message
    assert "HostCertificate" in str(error.hint)
    assert f"{sshd.known_hosts}:1 has ssh-ed25519" in error.details[0]


def test_the_key_itself_is_enough_where_the_certificate_does_not_hold(new_sshd: Sshd) -> None:
    """As in OpenSSH."""
    start(new_sshd, sign(new_sshd.folder / "host_ed25519", "-h", "-n", "kvm02"))
    trust(new_sshd, CA, "* {host_ed25519}")
    client.open_connection(new_sshd.endpoint, Deadlines()).close()


def test_an_authority_of_other_hosts_changes_nothing(sshd: Sshd) -> None:
    make_key(sshd.folder / "ca")
    trust(sshd, "@cert-authority *.example.net {ca}", "* {host_ed25519}")
    client.open_connection(sshd.endpoint, Deadlines()).close()


def test_kinds_that_the_ssh_config_does_not_allow_are_not_asked_for(new_sshd: Sshd) -> None:
    start(new_sshd, sign(new_sshd.folder / "host_ed25519", *VALID))
    trust(new_sshd, CA)
    only = replace(new_sshd.endpoint, host_keys=("ssh-ed25519",))
    with pytest.raises(errors.HostKeyRefused, match="offers no certificate"):
        client.open_connection(only, Deadlines())
    none = replace(new_sshd.endpoint, host_keys=("sk-ssh-ed25519@openssh.com",))
    with pytest.raises(errors.SshConfigRefused, match="none of them is supported"):
        client.open_connection(none, Deadlines())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., bytes]:
    folder = tmp_path_factory.mktemp("certificates")
    make_key(folder / "key")

    def make(*options: str) -> bytes:
        return blob_of(sign(folder / "key", *options))

    return make


def test_what_an_authority_has_signed_is_signed_and_a_key_is_no_certificate(made: Callable[..., bytes]) -> None:
    found = certificates.read(made("-h", "-n", "kvm01"))
    assert certificates.is_signed(found)
    with pytest.raises(certificates.Malformed, match="'ssh-ed25519' is no kind of certificate"):
        certificates.read(certificates.wire(found.public_key()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(data=st.data())
def test_no_other_bytes_are_signed(made: Callable[..., bytes], data: st.DataObject) -> None:
    """Whichever byte is changed, cut off or added: it is no certificate, or not a signed one."""
    blob = made("-h", "-n", "kvm01")
    at = data.draw(st.integers(0, len(blob) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = [bytes([*blob[:at], blob[at] ^ flip, *blob[at + 1 :]]), blob[:at], blob + b"x"]
    for other in changed:
        try:
            found = certificates.read(other)
        except certificates.Malformed:
            continue
        assert not certificates.is_signed(found)


def test_a_signature_by_sha_1_does_not_count(tmp_path: Path) -> None:
    make_key(tmp_path / "ca", "rsa")
    make_key(tmp_path / "key")
    try:
        signed = sign(tmp_path / "key", "-h", "-n", "kvm01", "-t", "ssh-rsa")
    except subprocess.CalledProcessError:
        pytest.skip("this ssh-keygen no longer signs with SHA-1")
    assert not certificates.is_signed(certificates.read(blob_of(signed)))
