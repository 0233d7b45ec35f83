"""The lab's own part of reading a host: the host program's facts from the lab's /sys, and from a plain copy of it.

    .venv/bin/python -m benchmarks.lab_share_cost

The lab's /sys is a FUSE file system in Python, and its NVML asks the lab's supervisor for each number; a real host has
neither. Each reading is one process of the host program on the lab's host, in turn, with NVML and without.
"""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import vgpumgr
from benchmarks import lab, measured
from vgpumgr.lab import client, fleet

HOST, ROUNDS = "kvm01", 7
SPECS = ("mdev-vf", "vendor-vfio")

# This runs on the host with the system's Python. The sources are sent with it, and removed at the end.
_PROGRAM = """
import base64, io, json, os, shutil, statistics, subprocess, sys, tarfile, tempfile, time
place = tempfile.mkdtemp()
try:
    tarfile.open(fileobj=io.BytesIO(base64.b64decode(SOURCES))).extractall(place)
    sys.path.insert(0, place)
    from vgpumgr.host.facts.facts import observe
    from vgpumgr.host.facts.nvml import load_binding
    from vgpumgr.host.files import Root
    copy = os.path.join(place, "root")
    for part in ("/sys/bus", "/sys/devices", "/sys/module", "/proc/driver", "/etc", "/root"):
        os.makedirs(os.path.dirname(copy + part), exist_ok=True)
        # What a file shows is its content now; some cannot be read, here as there.
        subprocess.run(["cp", "-r", "-P", part, copy + part], stderr=subprocess.DEVNULL)
    for name in ("boot_id", "hostname", "osrelease"):
        path = "/proc/sys/kernel/random/boot_id" if name == "boot_id" else "/proc/sys/kernel/" + name
        os.makedirs(os.path.dirname(copy + path), exist_ok=True)
        shutil.copyfile(path, copy + path)
    def silent():
        raise ImportError("not asked")
    def look(top, nvml):
        began = time.perf_counter()
        facts = observe(Root(top), nvml)
        return time.perf_counter() - began, sum(len(gpu["parents"]) for gpu in facts["gpus"])
    ways = {"lab": ("/", load_binding), "lab, no NVML": ("/", silent), "files": (copy, load_binding), "files, no NVML": (copy, silent)}
    found = {way: [] for way in ways}
    for _ in range(ROUNDS + 1):
        for way, (top, nvml) in ways.items():
            seconds, parents = look(top, nvml)
            assert parents == PARENTS, (way, parents)
            found[way].append(seconds)
    print(json.dumps({way: statistics.median(rows[1:]) for way, rows in found.items()}))
finally:
    shutil.rmtree(place)
"""


def main() -> int:
    rows = []
    for spec in SPECS:
        with lab.up(spec) as one:
            facts = _looked(one)
        for way, beside in (("", "lab"), (" without NVML", "lab, no NVML")):
            files = facts[beside.replace("lab", "files")]
            rows.append(
                measured.Row(f"a look at {spec}{way}: files, the lab's", files * 1000, "ms", peer=facts[beside] * 1000)
            )
    return measured.report(rows)


def _looked(one: lab.Lab) -> dict[str, float]:
    sources = io.BytesIO()
    package = Path(vgpumgr.__file__).parent
    with tarfile.open(fileobj=sources, mode="w") as archive:
        for file in (package / "__init__.py", package / "host"):
            archive.add(file, arcname=f"vgpumgr/{file.relative_to(package)}", filter=_source)
    text = f"SOURCES, ROUNDS, PARENTS = {base64.b64encode(sources.getvalue()).decode()!r}, {ROUNDS}, 64\n{_PROGRAM}"
    argv = client.ssh_command(one.layout, fleet.read(one.layout).host(HOST), ["/usr/bin/python3 -I -S -"])
    process = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, timeout=300)
    if process.returncode:
        raise SystemExit(process.stderr)
    answer: dict[str, float] = json.loads(process.stdout)
    return answer


def _source(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in info.name else info


if __name__ == "__main__":
    sys.exit(main())
