"""known_hosts, with `ssh-keygen -F` as the oracle for what a line names."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dose import dose
from vgpumgr.link.ssh import host_key
from vgpumgr.link.ssh.known_hosts import KnownHosts, compute_fingerprint, render_name

if TYPE_CHECKING:
    from pathlib import Path


def make_blob(seed: int = 0, key_type: bytes = b"ssh-ed25519") -> bytes:
    body = hashlib.sha256(str(seed).encode()).digest()
    return b"".join(len(part).to_bytes(4, "big") + part for part in (key_type, body))


def render_line(names: str, seed: int = 0, marker: str = "") -> str:
    encoded = base64.b64encode(make_blob(seed)).decode()
    return f"{marker}{' ' if marker else ''}{names} ssh-ed25519 {encoded} comment\n"


def hash_name(name: str, salt: bytes = b"s" * 20) -> str:
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("names", "host", "port", "found"),
    [
        ("kvm01", "kvm01", 22, True),
        ("kvm01,10.0.0.1", "10.0.0.1", 22, True),
        ("KVM01", "kvm01", 22, True),
        ("kvm01", "KVM01", 22, True),
        ("kvm01", "kvm01", 2222, False),
        ("[kvm01]:2222", "kvm01", 2222, True),
        ("[kvm01]:2222", "kvm01", 22, False),
        ("kvm*", "kvm01", 22, True),
        ("kvm0?", "kvm01", 22, True),
        ("kvm?", "kvm01", 22, False),
        ("kvm*,!kvm01", "kvm01", 22, False),
        ("kvm*,!kvm01", "kvm02", 22, True),
        ("!kvm01", "kvm02", 22, False),
        ("[kvm*]:2222", "kvm01", 2222, True),
        ("kvm.1", "kvmx1", 22, False),
        (hash_name("kvm01"), "kvm01", 22, True),
        (hash_name("kvm01"), "kvm02", 22, False),
        (hash_name("[kvm01]:2222"), "kvm01", 2222, True),
        ("|1|not base64|x", "kvm01", 22, False),
        (hash_name("kvm01", b"s" * 8), "kvm01", 22, False),
        (hash_name("kvm01", b"s" * 80), "kvm01", 22, False),
        ("#kvm01", "kvm01", 22, False),
    ],
)
def test_a_line_names_a_host_as_openssh_reads_it(names: str, host: str, port: int, found: bool) -> None:
    known = KnownHosts(render_line(names), "file").find(host, port)
    assert [key.blob for key in known.keys] == ([make_blob()] if found else [])


def test_a_revoked_key_is_kept_apart_from_those_to_be_trusted() -> None:
    known = KnownHosts(render_line("kvm01", 1) + render_line("*", 2, "@revoked"), "file").find("kvm01")
    assert [key.blob for key in known.keys] == [make_blob(1)]
    assert [(key.blob, key.line) for key in known.revoked] == [(make_blob(2), 2)]


def test_a_certificate_authority_is_no_key_of_the_host() -> None:
    known = KnownHosts(render_line("*", 1, "@cert-authority") + render_line("kvm01", 2), "file").find("kvm01")
    assert [(key.line, key.blob) for key in known.keys] == [(2, make_blob(2))]
    assert [(key.line, key.blob) for key in known.authorities] == [(1, make_blob(1))]
    assert known.remarks == ()


@pytest.mark.parametrize("rest", ["", "ssh-ed25519", "ssh-ed25519 !!!", "ssh-rsa AAAA", "1024 35 1234567"])
def test_a_line_without_a_whole_key_is_passed_over_with_a_remark(rest: str) -> None:
    known = KnownHosts(f"kvm01 {rest}\n", "file").find("kvm01")
    assert known.keys == ()
    assert known.remarks == ("file:1: not a key",)


def test_a_type_that_is_not_the_keys_own_is_not_believed() -> None:
    encoded = base64.b64encode(make_blob()).decode()
    assert KnownHosts(f"kvm01 ssh-rsa {encoded}\n", "file").find("kvm01").keys == ()


@given(st.text(max_size=400), st.text(max_size=30), st.integers(1, 65535))
def test_no_text_at_all_makes_it_fail(text: str, host: str, port: int) -> None:
    KnownHosts(text, "file").find(host, port)


def test_hosts_that_ask_at_once_share_one_reading_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "known_hosts"
    file.write_text("".join(render_line(f"kvm{number}", number) for number in range(20)))
    read: list[str] = []

    class Counted(KnownHosts):
        def __init__(self, text: str, file: str) -> None:
            read.append(text)
            time.sleep(0.05)
            super().__init__(text, file)

    monkeypatch.setattr(host_key, "KnownHosts", Counted)
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda number: host_key.load_known_hosts(str(file)).find(f"kvm{number}"), range(20)))
    assert [len(known.keys) for known in found] == [1] * 20
    assert len(read) == 1
    file.write_text(render_line("kvm01"))
    assert host_key.load_known_hosts(str(file)).find("kvm01").keys
    assert len(read) == 2


NAME = st.from_regex(r"[a-c.]{1,3}", fullmatch=True)
ONE = st.from_regex(r"!?[a-c.*?]{1,4}", fullmatch=True)
SALT = st.sampled_from((b"s" * 20, b"t" * 20, b"s" * 19))
HOSTS = st.one_of(st.lists(ONE, min_size=1, max_size=3).map(",".join), st.builds(hash_name, NAME, SALT))


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
@settings(max_examples=dose(20, 60), deadline=None)  # each starts a process
@given(lines=st.lists(st.tuples(st.sampled_from(["", "@revoked"]), HOSTS), min_size=1, max_size=4), host=NAME)
def test_it_finds_the_lines_that_ssh_keygen_finds(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, str]], host: str
) -> None:
    text = "".join(render_line(names, seed, marker) for seed, (marker, names) in enumerate(lines))
    file = tmp_path_factory.getbasetemp() / "oracle_known_hosts"
    file.write_text(text)
    known = KnownHosts(text, "file").find(host)
    assert sorted(key.line for key in known.keys + known.revoked) == oracle(file, host)


def oracle(file: Path, host: str) -> list[int]:
    """The line numbers of `ssh-keygen -F`: "# Host kvm01 found: line 3 REVOKED"."""
    done = subprocess.run(
        ["ssh-keygen", "-F", host, "-f", str(file)], capture_output=True, text=True, check=False, timeout=10
    )
    return sorted(
        int(line.split("line ")[1].split()[0]) for line in done.stdout.splitlines() if line.startswith("# Host")
    )


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_a_fingerprint_is_written_as_ssh_keygen_writes_it(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    printed = subprocess.run(
        ["ssh-keygen", "-lf", str(tmp_path / "key.pub")], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert compute_fingerprint(base64.b64decode((tmp_path / "key.pub").read_text().split()[1])) == printed


def test_only_another_port_than_22_is_part_of_the_name() -> None:
    assert render_name("Kvm01", 22) == "kvm01"
    assert render_name("Kvm01", 2222) == "[kvm01]:2222"
