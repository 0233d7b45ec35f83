"""Hosts of the built-in specs, the compiled mock, and a process with the real pynvml in it.

NVML_SANITIZE=address,undefined in the environment compiles the mock with these sanitizers (gcc's) and runs all under them.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from tests.lab.driver.mounted import Mounted
from vgpumgr.host.protocol.gpu import VENDOR_VFIO
from vgpumgr.lab import fleet
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.nvml.build import build
from vgpumgr.lab.nvml.nvidia_smi import nvidia_smi_program
from vgpumgr.lab.nvml.smi import program
from vgpumgr.lab.nvml.state import PATH_VARIABLE, nvml_text
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.lab.driver.model import Vgpu

SANITIZE = os.environ.get("NVML_SANITIZE", "")
SPECS = ("mdev-pf", "mdev-vf", "vendor-vfio")  # T4 on R535, A40 on R570, L40S on R595


class Host:
    """The driver of kvm01 (or another host) of a built-in spec, with no vGPU; what is made is made on its first GPU. Its clock
    stands.
    """

    vm_uuid = "6a1f0000-0000-4000-8000-000000000001"
    mdev_uuid = "9e0d0000-0000-4000-8000-000000000001"

    def __init__(self, spec: str, name: str = "kvm01") -> None:
        self.clock_us = 1_795_300_000_000_000  # a whole second
        state = host_state(load_spec(spec).host(name), boot_id="00000000-0000-4000-8000-00000000000b")
        self.driver = Driver(state, clock_us=lambda: self.clock_us)
        with self.driver.reading() as state:
            self.version = state.driver_version
            self.gpus = sorted(state.gpus, key=lambda gpu: gpu.pci)
        self.gpu = self.gpus[0]

    @property
    def text(self) -> str:
        return nvml_text(self.driver)

    def make_vgpu(self, short: str = "4Q", *, vf: int = 0, uuid: str = mdev_uuid) -> str:
        """Make one; its key for Driver.hold()."""
        kinds = self.gpu.board.mig_types if self.gpu.mig_on else self.gpu.board.types
        kind = next(kind for kind in kinds if kind.name.endswith("-" + short))
        parent = vf_pci(self.gpu, vf) if self.gpu.board.vfs else self.gpu.pci
        if self.gpu.framework == VENDOR_VFIO:
            self.driver.set_vf_type(parent, kind.id)
            return parent
        self.driver.create_mdev(parent, kind.id, uuid)
        return uuid

    def start_vm(self, name: str = "vm01", short: str = "4Q") -> Vgpu:
        """Make a 4Q and have a VM hold it."""
        self.driver.hold(self.make_vgpu(short), self.vm_uuid, name)
        return self.gpu.vgpus[-1]


class Nvml:
    """Asks the probe process, with the state of a host or a text; an NVML error comes back as {"nvml": number}."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.state = folder / "state"

    def ask(self, source: Host | str, code: str, *, bare: bool = False) -> Any:
        text = source if isinstance(source, str) else source.text
        self.state.write_text(text, encoding="ascii")
        return self.ask_path(self.state, code, bare=bare)

    def ask_path(self, path: Path, code: str, *, bare: bool = False) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"path": str(path), "code": code, "bare": bare}), file=self.process.stdin, flush=True)
        reply = json.loads(self.process.stdout.readline())
        assert "ok" in reply, reply
        return reply["ok"]


class Smi:
    """The simulated nvidia-smi: its main() in this process, and the one file that a host has where a test asks for that."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self._folder = folder

    def run(self, source: Host | str | None, *arguments: str) -> tuple[str, int]:
        self._keep(source)
        return smi_at(self.state, *arguments)

    def run_file(self, source: Host, *arguments: str) -> tuple[str, int]:
        with self._started(source, *arguments) as process:
            out, _ = process.communicate()
        return out, process.returncode

    def first_lines(self, count: int, source: Host, *arguments: str) -> list[str]:
        """Of a view that does not end."""
        with self._started(source, *arguments) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(count)]
            process.kill()
        return lines

    def _started(self, source: Host, *arguments: str) -> subprocess.Popen[str]:
        """As on a host: one file, and nothing of ours beside it."""
        self._keep(source)
        script = self._folder / "nvidia-smi"
        script.write_bytes(nvidia_smi_program())
        env = {PATH_VARIABLE: str(self.state), "LC_ALL": "C", "PATH": "/usr/bin:/bin"}
        argv = [sys.executable, "-I", str(script), *arguments]
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def _keep(self, source: Host | str | None) -> None:
        if source is None:
            self.state.unlink(missing_ok=True)
        else:
            self.state.write_text(source if isinstance(source, str) else source.text, encoding="ascii")


def smi_at(state: Path, *arguments: str) -> tuple[str, int]:
    """What nvidia-smi prints of the state at that path, and its exit status."""
    written = io.BytesIO()
    with mock.patch.dict(os.environ, {PATH_VARIABLE: str(state)}), redirect_stdout(io.TextIOWrapper(written)) as out:
        status = program.main(list(arguments))
        out.flush()
        return written.getvalue().decode("utf-8", "surrogateescape"), status


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The labs' own, which is compiled once on a machine."""
    if not SANITIZE:
        return build(fleet._cache_folder())
    flags = (f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all", "-Wl,-z,nodefs")
    return build(tmp_path_factory.mktemp("libnvml"), extra_flags=flags)


@pytest.fixture(scope="session")
def nvml(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nvml]:
    probe = Path(__file__).with_name("nvml_probe.py")
    process = subprocess.Popen(
        [sys.executable, str(probe)],
        env={**os.environ, "LD_LIBRARY_PATH": str(library.parent), **_sanitizer_environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield Nvml(process, tmp_path_factory.mktemp("nvml"))
        assert process.stdin is not None
        process.stdin.close()
    assert process.returncode == 0


def _sanitizer_environment() -> dict[str, str]:
    """A sanitized library in a plain Python wants its runtime first; Python's own blocks at exit are no leaks of ours."""
    runtimes = [f"lib{name[0]}san.so" for name in SANITIZE.split(",") if name]
    paths = [
        subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        for name in runtimes
    ]
    return {"LD_PRELOAD": " ".join(paths), "ASAN_OPTIONS": "detect_leaks=0"} if paths else {}


@pytest.fixture
def smi(tmp_path: Path) -> Smi:
    return Smi(tmp_path)


@pytest.fixture(params=SPECS)
def host(request: pytest.FixtureRequest) -> Host:
    return Host(request.param)


@pytest.fixture
def make_host() -> Callable[..., Host]:
    return Host


class Live:
    """A host whose /sys is mounted: what is asked reaches its driver."""

    def __init__(self, host: Host, nvml: Nvml, folder: Path) -> None:
        self.host = host
        self.nvml = nvml
        self.sys = Mounted(folder, host.driver)

    def ask(self, code: str) -> Any:
        return self.nvml.ask_path(self.sys.nvml_path, code)

    def smi(self, *arguments: str) -> tuple[str, int]:
        """`nvidia-smi vgpu`, with what follows."""
        return self.smi_of_host("vgpu", *arguments)

    def smi_of_host(self, *arguments: str) -> tuple[str, int]:
        return smi_at(self.sys.nvml_path, *arguments)


@pytest.fixture
def live(make_host: Callable[..., Host], nvml: Nvml, tmp_path: Path) -> Iterator[Callable[..., Live]]:
    mounted = []

    def make(spec: str, name: str = "kvm01") -> Live:
        folder = tmp_path / f"{spec}-{name}"
        folder.mkdir()
        mounted.append(Live(make_host(spec, name), nvml, folder))
        return mounted[-1]

    yield make
    for one in mounted:
        one.sys.close()
