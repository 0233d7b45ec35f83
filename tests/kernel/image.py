"""Disks of host VMs, made from Debian packages and this repository, and kept by the hash of all that went into them.

Two stages, each kept below .cache/kernel: a release's root file system (mmdebstrap: a minute), and the disk that is made
of it with the driver module and the simulated NVIDIA tools on top (some 15 s). Both need root.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kernel import turn
from tests.kernel.cards import HARDWARE, hardware, header
from tests.kernel.release import ALL, Release
from vgpumgr.lab.machine.libvirtd import domain_xml
from vgpumgr.lab.nvml.build import build as build_nvml
from vgpumgr.lab.nvml.nvidia_smi import nvidia_smi_program
from vgpumgr.lab.spec_reader import load_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "kernel"
_MIRROR = "http://deb.debian.org/debian"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_BUILD_S = 900.0
_LOG_LINES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What QEMU boots: a raw disk (never written to: VMs run on snapshots of it), a kernel, an initramfs."""

    disk: Path
    kernel: Path
    initrd: Path


def build(release: Release, *, cache: Path = CACHE) -> Image:
    """The image of a release, from the cache or made now. Raises AssertionError with the log's end where that fails."""
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache / f"{release.suite}.lock"):
        root = _root(release, cache)
    with _alone(cache / f"{release.name}.lock"), tempfile.TemporaryDirectory(dir=cache) as folder:
        top = Path(folder)
        _fill(top, cache)
        if release.modular:
            _copy(_virtqemud(root, cache), top)
        key = _hash(_contents(top), [root.name, (HERE / "stage.sh").read_text(encoding="utf-8")])
        place = cache / f"disk-{release.name}-{key}"
        if not place.exists():
            _make_disk(root, top, place)
            _forget_others(place)
    return Image(disk=place / "disk", kernel=place / "vmlinuz", initrd=place / "initrd")


def _root(release: Release, cache: Path) -> Path:
    key = _hash([release.suite, _MIRROR, *release.packages])
    place = cache / f"root-{release.suite}-{key}"
    if place.exists():
        return place
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        made = Path(folder) / "root"
        _run(
            [
                *("mmdebstrap", "--variant=apt", f"--keyring={_KEYRING}", f"--include={','.join(release.packages)}"),
                # No package is asked where it comes from a second time, and dpkg need not fsync what is thrown away.
                *("--aptopt=Acquire::Retries 3", "--dpkgopt=force-unsafe-io", "--dpkgopt=force-confold"),
                *(release.suite, str(made), _MIRROR),
            ],
            INITRD="No",  # the kernel package's own word: guest/install.sh makes a smaller one
        )
        made.rename(place)
    _forget_others(place)
    return place


def _virtqemud(root: Path, cache: Path) -> Path:
    """The daemon built for that root, as a tree to be laid over it."""
    scripts = HERE / "virtqemud"
    place = cache / f"virtqemud-{_hash(_contents(scripts), [root.name])}"
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / "virtqemud"
            _run(["bash", str(scripts / "build.sh"), str(root), str(made)])
            made.rename(place)
        _forget_others(place)
    return place


def _fill(top: Path, cache: Path) -> None:
    """All that comes on top of the root file system, in its place."""
    _copy(HERE / "guest" / "tree", top)
    source = top / "usr/src/host-vm"
    shutil.copytree(HERE / "module", source / "module", ignore=shutil.ignore_patterns("*.o", "*.ko", ".*", "*.mod*"))
    (source / "module/cards.h").write_text(header(hardware()), encoding="utf-8")
    for name in ("install.sh", "initramfs-init"):
        shutil.copy(HERE / "guest" / name, source / name)
    (top / "usr/lib/nvidia").mkdir(parents=True)
    shutil.copy(HERE / "guest/sriov-manage", top / "usr/lib/nvidia/sriov-manage")
    library = build_nvml(cache)
    _put(top / "usr/lib/x86_64-linux-gnu" / library.name, library.read_bytes())
    _put(top / "usr/bin/nvidia-smi", nvidia_smi_program())
    for vm in load_spec(str(HARDWARE)).hosts[0].vms:
        _put(top / f"usr/local/share/host-vm/vms/{vm.name}.xml", domain_xml(vm).encode())


def _copy(tree: Path, top: Path) -> None:
    shutil.copytree(tree, top, symlinks=True, dirs_exist_ok=True)


def _put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    file.chmod(0o755)


def _make_disk(root: Path, top: Path, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made = Path(folder) / "image"
        made.mkdir()
        script = HERE / "stage.sh"
        files = [str(made / name) for name in ("disk", "vmlinuz", "initrd")]
        _run(["bash", str(script), str(root), str(top), *files])
        made.rename(place)


def _forget_others(place: Path) -> None:
    """Of each kind the newest is kept: an image takes a gigabyte."""
    kind = place.name.rpartition("-")[0]
    for other in place.parent.iterdir():
        if other != place and other.name.rpartition("-")[0] == kind:
            shutil.rmtree(other)


def _contents(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*")):
        if file.is_symlink():
            yield f"{file.relative_to(folder)} -> {file.readlink()}"
        elif file.is_file():
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            yield f"{file.relative_to(folder)} {file.stat().st_mode:o} {digest}"


def _hash(*parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        for line in part:
            digest.update(line.encode() + b"\0")
    return digest.hexdigest()[:16]


def _run(argv: list[str], **variables: str) -> None:
    """Run it with mounts of its own: /proc, /sys and /dev of a root that is being made are gone with it, however it ends."""
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", **variables}
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", *argv],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_BUILD_S,
        env=environment,
    )
    end = "\n".join(done.stdout.splitlines()[-_LOG_LINES:])
    assert done.returncode == 0, f"{argv[0]} ended with {done.returncode}\n{end}"


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Two that want the same image make it once."""
    with file.open("w", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def main(names: Sequence[str]) -> None:
    """Make what is missing of the releases of these names, or of all, at once; say how long it took. `commit` is whose turn it is."""
    began = time.monotonic()
    names = [turn.of_this_commit().name if name == "commit" else name for name in names]
    wanted = [release for release in ALL if not names or release.name in names]
    with ThreadPoolExecutor() as pool:
        for release, _ in zip(wanted, pool.map(build, wanted), strict=True):
            print(f"image of {release.name}: there after {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
