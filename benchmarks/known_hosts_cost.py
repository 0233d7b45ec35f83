"""What a known_hosts file of 10,000 lines costs, with plain and with hashed names, beside `ssh-keygen -F HOST -f FILE`.

    .venv/bin/python -m benchmarks.known_hosts_cost

A command for one host reads the file and looks one name up; one for 1,000 hosts reads it once and looks each name up.
CPU is this process's, and ssh-keygen's in a fresh process per name, of which only a hundredth of the 1,000 is run. A
hashed name has its own salt, so each lookup hashes the name again for each line.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measured import ROUNDS, Row, report, spent
from vgpumgr.link.ssh import host_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LINES, FLEET, SAMPLE = 10_000, 1_000, 10


def main() -> int:
    """Measure both kinds of file."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench.") as folder:
        for kind, name_of in (("plain", _plain), ("hashed", _hashed)):
            file = Path(folder, kind)
            file.write_text("".join(f"{name_of(number)} {_key(number)}\n" for number in range(LINES)), encoding="ascii")
            rows += measure(kind, file)
    return report(rows)


def measure(kind: str, file: Path) -> list[Row]:
    """The rows about one kind of file: our look-ups beside ssh-keygen's."""
    everywhere = range(0, LINES, LINES // FLEET)
    ours = {count: _ours(file, everywhere[:count]) for count in (1, FLEET)}
    argv = ["ssh-keygen", "-f", str(file), "-F"]
    theirs = statistics.median(
        spent([*argv, _host(number)]).cpu for _ in range(ROUNDS) for number in everywhere[:: FLEET // SAMPLE]
    )
    return [
        Row(f"known_hosts of 10,000 {kind} lines, one host, ssh-keygen -F: CPU", ours[1] * 1e3, "ms", theirs * 1e3),
        Row(f"known_hosts of 10,000 {kind} lines, 1,000 hosts, ssh-keygen -F: CPU", ours[FLEET], "s", theirs * FLEET),
    ]


def _ours(file: Path, numbers: Sequence[int]) -> float:
    """The CPU seconds of looking these hosts up, the median of several runs. Each run reads the file anew."""

    def look() -> None:
        file.touch()
        for number in numbers:
            keys = host_key.load_known_hosts(str(file)).find(_host(number))
            assert [key.line for key in keys.keys] == [number + 1]

    return statistics.median(_cpu(look) for _ in range(ROUNDS if len(numbers) == 1 else 1))


def _cpu(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _host(number: int) -> str:
    return f"kvm{number:05}"


def _plain(number: int) -> str:
    return f"{_host(number)},10.0.{number >> 8}.{number & 255}"


def _hashed(number: int) -> str:
    salt = hashlib.sha1(str(number).encode()).digest()
    digest = hmac.digest(salt, _host(number).encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def _key(number: int) -> str:
    blob = b"\0\0\0\x0bssh-ed25519\0\0\0 " + hashlib.sha256(str(number).encode()).digest()
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"


if __name__ == "__main__":
    sys.exit(main())
