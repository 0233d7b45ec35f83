"""The cards of the kernel module, from the lab's own description of them: so the two never differ in data.

    python -m tests.kernel.cards > cards.h

`cards.h` is made anew at each build of the module and is not kept. Every text in it (what /proc says, a type's description,
NVML's lines, the PCI configuration space) is what a lab host with the same spec shows while it has no vGPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.errors import LabError
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.nvml.state import nvml_text
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec
from vgpumgr.lab.sysfs import pci_nodes, proc_driver
from vgpumgr.lab.sysfs.nodes import Builder
from vgpumgr.lab.sysfs.vgpu_nodes import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.lab.driver.model import BoardSpec, Gpu, HostState, MigSpec, TypeSpec

HARDWARE = Path(__file__).with_name("hardware.yml")

_FRAMEWORKS = {MDEV_PF: "NVLAB_MDEV_PF", MDEV_VF: "NVLAB_MDEV_VF", VENDOR_VFIO: "NVLAB_VENDOR_VFIO"}
_USED = " used_mib=0 "  # in NVML's line of a GPU; the rest of it does not change


def hardware(spec: Path = HARDWARE) -> HostState:
    """The one host of a spec, without vGPUs. Raises LabError."""
    hosts = load_spec(str(spec)).hosts
    if len(hosts) != 1:
        raise LabError(f"{spec}: {len(hosts)} hosts", hint="write one: the module has the cards of one machine")
    return host_state(hosts[0], boot_id="")


def header(state: HostState) -> str:
    """The C header for the cards of one host."""
    return "\n".join(_lines(state)) + "\n"


def _lines(state: HostState) -> Iterator[str]:
    files = Builder()
    proc_driver.build(files, state)
    for gpu in state.gpus:
        pci_nodes.build(files, gpu, ())
    nvml = nvml_text(Driver(state)).splitlines()
    (driver,) = (line for line in nvml if line.startswith("driver "))
    yield "/* Made by tests/kernel/cards.py. Do not edit. */"
    yield f"#define NVLAB_DRIVER_VERSION {_text(state.driver_version)}"
    yield f"#define NVLAB_DRIVER_LINE {_text(driver.partition(' newest=')[0])}"
    yield f"#define NVLAB_PROC_VERSION {_text(_content(files, f'{proc_driver.TOP}/nvidia/version').decode())}"
    for number, gpu in enumerate(state.gpus):
        yield from _config(number, gpu, files)
        yield from _types(number, gpu, nvml)
        yield from _profiles(number, gpu, nvml)
    yield "static const struct nvlab_card cards[] = {"
    for number, gpu in enumerate(state.gpus):
        yield from _card(number, gpu, files, nvml)
    yield "};"


def _config(number: int, gpu: Gpu, files: Builder) -> Iterator[str]:
    config = _content(files, f"{pci_nodes.device_path(gpu.pci)}/config")
    yield f"static const u8 config_{number}[] = {{"
    for at in range(0, len(config), 16):
        yield "\t" + " ".join(f"0x{byte:02x}," for byte in config[at : at + 16])
    yield "};"
    yield f"static_assert(sizeof(config_{number}) == NVLAB_CONFIG_BYTES);"


def _types(number: int, gpu: Gpu, nvml: Sequence[str]) -> Iterator[str]:
    yield f"static const struct nvlab_type types_{number}[] = {{"
    for kind in kinds(gpu.board):
        yield from _type(gpu, kind, _nvml_of_type(nvml, _index(nvml, gpu), kind))
    yield "};"


def mig_of(board: BoardSpec) -> MigSpec | None:
    """A board's MIG mode as far as the module plays it: not where several vGPUs share an instance."""
    return None if board.mig is None or board.mig.shared else board.mig


def kinds(board: BoardSpec) -> Sequence[TypeSpec]:
    """The types of its table, in their order."""
    return board.all_types if mig_of(board) else board.types


def _profiles(number: int, gpu: Gpu, nvml: Sequence[str]) -> Iterator[str]:
    mig = mig_of(gpu.board)
    if mig is None:
        return
    yield f"static const struct nvlab_profile profiles_{number}[] = {{"
    for profile in mig.profiles:
        start = f"profile gpu={_index(nvml, gpu)} "
        (line,) = (line for line in nvml if line.startswith(start) and f" id={profile.id} " in line)
        before, _, rest = line.removeprefix(start).partition(" left=")
        starts = ", ".join(map(str, profile.starts))
        yield f"\t{{ .id = {profile.id}, .slices = {profile.slices}, .size = {profile.size}, .max = {profile.maximum},"
        yield f"\t  .nr_starts = {len(profile.starts)}, .starts = {{ {starts} }},"
        yield f"\t  .nvml_before_left = {_text(before)},"
        yield f"\t  .nvml_after_left = {_text(rest.partition(' ')[2])} }},"
    yield "};"
    yield f"static_assert(ARRAY_SIZE(profiles_{number}) <= NVLAB_MOST_PROFILES);"


def _type(gpu: Gpu, kind: TypeSpec, nvml: str) -> Iterator[str]:
    names = [profile.name for profile in gpu.board.mig.profiles] if gpu.board.mig else []
    profile = -1 if kind.profile is None else names.index(kind.profile)
    yield f"\t{{ .id = {kind.id}, .id_text = {_text(str(kind.id))}, .name = {_text(kind.name)},"
    yield f"\t  .fb_mib = {kind.framebuffer_mib}, .max = {kind.max_instances},"
    yield f"\t  .profile = {profile}, .per_instance = {kind.per_instance if kind.profile else 0},"
    yield f"\t  .description = {_text(describe(kind))},"
    yield f"\t  .nvml = {_text(nvml)} }},"


def _card(number: int, gpu: Gpu, files: Builder, nvml: Sequence[str]) -> Iterator[str]:
    domain, bus, rest = gpu.pci.split(":")
    device, function = rest.split(".")
    if int(domain, 16) != 0:
        raise LabError(f"{gpu.pci}: the module has domain 0 only", hint="write pci: 0000:…")
    line = nvml[_gpu_line(nvml, gpu)]
    before, used, after = line.partition(_USED)
    assert used, line
    after = after.partition(" hetero=")[0]  # the last one, and it changes: the module tells it
    mig = mig_of(gpu.board)
    if mig is not None:
        after = after.partition(" mig=")[0]  # the same
    information = _content(files, f"{proc_driver.TOP}/nvidia/gpus/{gpu.pci}/information").decode()
    registry = _content(files, f"{proc_driver.TOP}/nvidia/gpus/{gpu.pci}/registry").decode()
    yield f"\t{{ .pci = {_text(gpu.pci)}, .bus = 0x{bus}, .devfn = PCI_DEVFN(0x{device}, {function}),"
    yield f"\t  .node = {gpu.numa_node}, .framework = {_FRAMEWORKS[gpu.framework]},"
    yield f"\t  .vfs = {gpu.board.vfs}, .first_vf = {gpu.board.vf_offset}, .device = {gpu.board.pci_device_id:#06x},"
    yield f"\t  .fb_mib = {max(kind.framebuffer_mib for kind in gpu.board.types)},"
    yield f"\t  .placements = {str(gpu.board.placements).lower()},"
    yield f"\t  .even_places = {str(gpu.board.even_places).lower()},"
    yield f"\t  .information = {_text(information)},"
    yield f"\t  .registry = {_text(registry)},"
    yield f"\t  .nvml_before_used = {_text(before.partition(f'index={_index(nvml, gpu)} ')[2])},"
    yield f"\t  .nvml_after_used = {_text(after)},"
    yield f"\t  .nvml_caps = {_text(_nvml_caps(nvml, _index(nvml, gpu)))},"
    yield f"\t  .engines = {sum(1 << int(engine) for engine in gpu.schedulers):#x},"
    yield f"\t  .config = config_{number}, .types = types_{number}, .nr_types = ARRAY_SIZE(types_{number}),"
    if mig is not None:
        yield f"\t  .profiles = profiles_{number}, .nr_profiles = ARRAY_SIZE(profiles_{number}),"
        yield f"\t  .mig_width = {mig.width}, .mig_needs_reset = {str(mig.needs_reset).lower()},"
    yield "\t},"


def _gpu_line(nvml: Sequence[str], gpu: Gpu) -> int:
    (at,) = (at for at, line in enumerate(nvml) if line.startswith("gpu ") and f" pci={gpu.pci} " in line)
    return at


def _index(nvml: Sequence[str], gpu: Gpu) -> str:
    """NVML's number of the GPU."""
    return nvml[_gpu_line(nvml, gpu)].split()[1].removeprefix("index=")


def _nvml_of_type(nvml: Sequence[str], index: str, kind: TypeSpec) -> str:
    """What never changes in NVML's line of a type: all from its id on."""
    (found,) = (line for line in nvml if line.startswith(f"type gpu={index} ") and f" id={kind.id} " in line)
    return found[found.index("id=") :]


def _nvml_caps(nvml: Sequence[str], index: str) -> str:
    """What the GPU's schedulers would take, as NVML's line has it after the GPU's number."""
    start = f"caps gpu={index} "
    (found,) = (line for line in nvml if line.startswith(start))
    return found.removeprefix(start)


def _content(files: Builder, path: str) -> bytes:
    read = files.nodes[path].read
    assert read is not None, path
    return read()


def _text(value: str) -> str:
    """A C string literal. What is not plain ASCII is written in octal, which ends after three digits."""
    plain = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\?' else f"\\{byte:03o}" for byte in value.encode())
    return '"' + "".join(plain) + '"'


if __name__ == "__main__":
    sys.stdout.write(header(hardware()))
